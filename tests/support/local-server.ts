import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { isArtefact, surroundingsOf } from './artefact.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What a program of `dev/` wrote, both streams together, and how it ended. */
export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export interface LocalServer {
  /** Without a slash at the end. */
  readonly url: string;
  /** What it has written so far. */
  readonly output: () => string;
  /** Ends it as Ctrl-C does, or `kill`. */
  readonly stop: (signal?: 'SIGTERM' | 'SIGINT' | 'SIGKILL') => Promise<Ended>;
}

type Variables = Readonly<Record<string, string>>;

/** Runs a program to its end. @param script its path from the project's folder. */
export async function runProgram(script: string, variables: Variables, args: string[] = []): Promise<Ended> {
  return await start(script, variables, args).ended;
}

/**
 * Starts the local server (`npm start`) in a process of its own, with these variables and no others of ours. Where the
 * suite runs against the artefact (`npm run test:artefact`), that is served in its place.
 *
 * @returns when it listens.
 * @throws Error with what it wrote, when it ends instead.
 */
export async function startLocalServer(variables: Variables): Promise<LocalServer> {
  const surroundings = isArtefact ? await surroundingsOf(variables) : undefined;
  const { child, ended, output, whenWritten } = surroundings
    ? start('dev/serve-output/main.ts', surroundings.variables, [])
    : start('dev/start.ts', variables, []);
  const listening = whenWritten(/listens on (http:\/\/\S+)/).then(([, url]) => url!);
  const url = await Promise.race([listening, ended.then(({ output }) => Promise.reject(new Error(output)))]);
  return {
    url,
    output,
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal);
      const how = await ended;
      await surroundings?.close();
      return how;
    },
  };
}

/**
 * Starts a relay process (`npm run relay`) on any port, as `startLocalServer` does.
 *
 * @returns when it relays.
 */
export async function startRelay(variables: Variables): Promise<LocalServer> {
  const { child, ended, output, whenWritten } = start('dev/relay.ts', { PORT: '0', ...variables }, []);
  const relaying = whenWritten(/"port":(\d+),.*the relay process runs/).then(([, port]) => port!);
  const port = await Promise.race([relaying, ended.then(({ output }) => Promise.reject(new Error(output)))]);
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal);
    return await ended;
  };
  return { url: `http://localhost:${port}`, output, stop };
}

function start(script: string, variables: Variables, args: readonly string[]) {
  const { PATH = '', HOME = '' } = process.env;
  const child: ChildProcess = spawn(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: root,
    env: { PATH, HOME, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let written = '';
  const watchers = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      written += text;
      for (const watch of watchers) watch();
    });
  }
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, output: written }));
  });
  const whenWritten = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      const watch = () => {
        const match = pattern.exec(written);
        if (!match) return;
        watchers.delete(watch);
        resolve(match);
      };
      watchers.add(watch);
      watch();
    });
  return { child, ended, output: () => written, whenWritten };
}
