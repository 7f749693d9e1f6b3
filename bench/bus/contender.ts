import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import type { ContenderName } from '../figure-names.ts';

/** A contender in a process of its own, so that the work of the others is not measured with it. */
export interface Contender {
  readonly name: ContenderName;
  /** The database that it was started with. */
  readonly url: string;
  call<Answer = null>(operation: string, order?: object): Promise<Answer>;
  stop(): Promise<void>;
}

export const PEERS = ['graphile-worker', 'pg-boss'] as const;

/** The peers need Node 22; all run on the same one. */
const OLDEST_NODE = 22;

export interface Runtime {
  readonly node: string;
  readonly version: string;
}

const here = fileURLToPath(new URL('.', import.meta.url));
const peersFolder = fileURLToPath(new URL('../peers/', import.meta.url));

/** Finds a Node that is new enough for the peers, and installs them the first time. */
export async function prepareContenders(tell: (progress: string) => void): Promise<Runtime> {
  const runtime =
    Number.parseInt(process.versions.node, 10) >= OLDEST_NODE
      ? { node: process.execPath, version: process.versions.node }
      : await fetchNode(tell);
  if (!existsSync(`${peersFolder}node_modules/pg-boss`)) {
    tell('installing the peers (bench/peers) …');
    await output('npm', ['ci', '--prefix', peersFolder, '--no-audit', '--no-fund', '--ignore-scripts']);
  }
  return runtime;
}

async function fetchNode(tell: (progress: string) => void): Promise<Runtime> {
  tell('fetching Node 24 for the peers …');
  const printed = await output('npx', [
    '-y',
    '-p',
    'node@24',
    'node',
    '-p',
    'process.execPath + "\\n" + process.versions.node',
  ]);
  const [node, version] = printed.trim().split('\n').slice(-2);
  return { node: node!, version: version! };
}

/** Runs a command. @returns its output. @throws Error with its error output when it fails. */
export async function output(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  let complaints = '';
  child.stdout.on('data', (data: Buffer) => (printed += data.toString()));
  child.stderr.on('data', (data: Buffer) => (complaints += data.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${complaints}`);
  return printed;
}

/** Starts a contender on an empty database, where it creates its tables. */
export async function startContender(runtime: Runtime, name: ContenderName, url: string): Promise<Contender> {
  const script = name === 'ours' ? ['--import', 'tsx', `${here}ours.ts`] : [`${peersFolder}${name}.mjs`];
  const profile =
    name === 'ours' && process.env.BENCH_PROFILE
      ? ['--cpu-prof', '--cpu-prof-dir', process.env.BENCH_PROFILE]
      : [];
  const child = spawn(runtime.node, [...profile, ...script, url], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, DATABASE_URL: url },
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const contender: Contender = {
    name,
    url,
    async call<Answer>(operation: string, order: object = {}): Promise<Answer> {
      child.stdin.write(`${JSON.stringify({ operation, order })}\n`);
      const { value, done } = await answers.next();
      if (done) throw new Error(`${name} ended during ${operation}`);
      const { answer, error } = JSON.parse(value) as { answer: Answer; error?: string };
      if (error !== undefined) throw new Error(`${name}, ${operation}: ${error}`);
      return answer;
    },
    stop: () => stopped(child, ended),
  };
  await contender.call('install');
  return contender;
}

async function stopped(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.stdin?.end();
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await ended;
  clearTimeout(timer);
}
