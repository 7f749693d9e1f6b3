import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { bundle } from '../dev/build/bundle.ts';
import { functionsOf } from '../dev/build/functions.ts';
import { readVercelJson } from '../dev/build/vercel-json.ts';
import { node24 } from '../dev/serve-output/node-24.ts';
import { dependencyFigures } from './dependencies.ts';
import { goal, ms, quantile } from './figures.ts';
import type { Figure, Section } from './figures.ts';

const ROUNDS = 10;
const GOAL_MS = 200;

/** Enough of an environment that each function refuses a request without a signature or token. */
const VARIABLES = {
  VERCEL: '1',
  DATABASE_URL: 'postgres://nobody:none@database.neon.tech/none',
  CRON_SECRET: 'a-secret-of-the-bench',
  OPERATOR_JWT_SECRET: 'a secret of thirty-two bytes or more',
  PRODUCER_BOOKINGS_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  KICK_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
};

interface FirstCall {
  readonly path: string;
  readonly method: 'GET' | 'POST';
  readonly status: number;
  readonly goalMs: number;
}

/** Requests that need no outside service, and go as far into the function as that allows. */
const CALLS: Readonly<Record<string, FirstCall>> = {
  'api/health.ts': { path: '/api/health', method: 'GET', status: 200, goalMs: 120 },
  'api/openapi.ts': { path: '/api/openapi.json', method: 'GET', status: 200, goalMs: GOAL_MS },
  'api/chat.ts': { path: '/api/chat', method: 'POST', status: 400, goalMs: GOAL_MS },
  'api/inquiry.ts': { path: '/api/inquiry', method: 'POST', status: 400, goalMs: GOAL_MS },
  'api/events.ts': { path: '/api/events', method: 'POST', status: 415, goalMs: GOAL_MS },
  'api/kick.ts': { path: '/api/kick', method: 'POST', status: 401, goalMs: GOAL_MS },
  'api/webhooks/[provider].ts': {
    path: '/webhooks/cardpayments',
    method: 'POST',
    status: 401,
    goalMs: GOAL_MS,
  },
  'api/platform/event-bus/console.ts': {
    path: '/platform/event-bus/subscribers',
    method: 'GET',
    status: 401,
    goalMs: GOAL_MS,
  },
};

/** The other functions ask for a token. */
function callOf(file: string): FirstCall {
  const path = `/${file.replace(/(\/index)?\.ts$/, '')}`;
  return CALLS[file] ?? { path, method: 'GET', status: 401, goalMs: GOAL_MS };
}

const root = new URL('../', import.meta.url);

const LIMITS =
  'What limits it: the start of the process, as the function that imports nothing shows, and the compilation of one large file. Kept: one file for each function, only the names that it uses of each package, rarely needed packages loaded on demand. Without effect: short names.';

/**
 * Measures cold starts on Node 24: from the start of a process to the first answer of each function, bundled and, as
 * the platform would start it without our build, module by module. Then measures each dependency.
 */
export async function benchColdStart(): Promise<Section> {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-cold-start-'));
  try {
    const node = node24();
    const files = functionsOf(root, readVercelJson(root)).map(({ file }) => file);
    const bundles = await bundle(root, files);
    for (const [index, file] of files.entries()) {
      const path = join(folder, 'bundled', `${file}.mjs`);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, bundles[index]!.code);
    }
    compileEach(folder, files);
    const nothing = join(folder, 'nothing.mjs');
    writeFileSync(nothing, 'export default { fetch: async () => new Response(null, { status: 401 }) };\n');

    console.log(
      `Cold starts of ${files.length} functions, bundled and module by module, ${ROUNDS} of each …`,
    );
    const empty: number[] = [];
    const bundled = files.map((): number[] => []);
    const plain = files.map((): number[] => []);
    for (let round = 0; round < ROUNDS; round += 1) {
      empty.push(coldStart(node, nothing, callOf('nothing.ts')));
      for (const [index, file] of files.entries()) {
        const module = join(folder, 'modules', file.replace(/\.ts$/, '.js'));
        bundled[index]!.push(coldStart(node, join(folder, 'bundled', `${file}.mjs`), callOf(file)));
        plain[index]!.push(coldStart(node, module, callOf(file)));
      }
    }
    const rows: Figure[] = files.map((file, index) => {
      const { goalMs } = callOf(file);
      const size = `${(Buffer.byteLength(bundles[index]!.code) / 1000).toFixed(0)} kB`;
      const median = quantile(bundled[index]!, 0.5);
      return {
        what: `${file}, one file of ${size}`,
        figure: `${both(bundled[index]!)}; module by module ${ms(quantile(plain[index]!, 0.5))}`,
        goal: goal(`median at most ${goalMs} ms`, median <= goalMs),
      };
    });
    return {
      title: `Cold starts on Node 24: process start to first answer, median / slowest of ${ROUNDS}`,
      rows: [
        { what: 'a function that imports nothing', figure: both(empty), goal: '' },
        ...rows,
        ...(await dependencyFigures(root, { node, folder, files, bundles })),
      ],
      notes: rows.some(({ goal: reached }) => reached.includes('NOT reached')) ? [LIMITS] : [],
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function both(times: readonly number[]): string {
  return `${ms(quantile(times, 0.5))} / ${ms(Math.max(...times))}`;
}

/** Compiles as the platform does without our build: each file alone, with the packages as installed. */
function compileEach(folder: string, files: readonly string[]): void {
  const project = fileURLToPath(root);
  const config = {
    extends: join(project, 'tsconfig.json'),
    compilerOptions: { noEmit: false, noCheck: true, rootDir: project, outDir: join(folder, 'modules') },
    include: [],
    files: files.map((file) => join(project, file)),
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'));
  const tsc = join(project, 'node_modules', 'typescript', 'bin', 'tsc');
  execFileSync(process.execPath, [tsc, '--project', folder], { stdio: ['ignore', 'inherit', 'inherit'] });
}

/** Starts a process. @returns the milliseconds until its function has answered. */
function coldStart(node: string, file: string, { path, method, status }: FirstCall): number {
  const init =
    method === 'POST' ? { method, body: '{}', headers: { 'content-type': 'application/json' } } : {};
  const script = `
    const { default: handler } = await import(${JSON.stringify(file)});
    const url = 'https://postbud.example' + ${JSON.stringify(path)};
    const response = await handler.fetch(new Request(url, ${JSON.stringify(init)}));
    await response.arrayBuffer();
    const at = performance.timeOrigin + performance.now();
    process.stdout.write('\\n' + JSON.stringify({ at, status: response.status }) + '\\n', () => process.exit());`;
  const startedAt = performance.timeOrigin + performance.now();
  const { stdout, stderr } = spawnSync(node, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
    env: VARIABLES,
  });
  const answer = /\{"at":([\d.]+),"status":(\d+)\}/.exec(stdout);
  if (Number(answer?.[2]) !== status) throw new Error(`${path} answered ${answer?.[2]}: ${stdout}${stderr}`);
  return Number(answer?.[1]) - startedAt;
}
