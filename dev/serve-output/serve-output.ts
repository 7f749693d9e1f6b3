import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { bundle } from '../build/bundle.ts';
import { OUTPUT } from '../build/output.ts';
import { secured } from './https.ts';
import { node24 } from './node-24.ts';

/** A build's output that is being served. */
export interface ServedOutput {
  /** Without a slash at the end. */
  readonly url: string;
  /** Ends the server and removes its copy of the output. */
  readonly stop: () => Promise<void>;
}

export interface ServeOptions {
  readonly port: number;
  /** The environment of the functions: these variables and no others. */
  readonly variables: Readonly<Record<string, string>>;
  /** The target of connections to Neon's databases. */
  readonly neon?: string;
  /** The server of `/dev/…`. */
  readonly beside?: string;
  readonly crons?: boolean;
  /** Receives the functions' log. */
  readonly write: (text: string) => void;
}

/** Variables that the platform sets for every function. */
export const PLATFORM = {
  VERCEL: '1',
  VERCEL_ENV: 'production',
  VERCEL_REGION: 'fra1',
  VERCEL_URL: 'localhost',
  TZ: 'UTC',
};

const root = new URL('../../', import.meta.url);

/** Copies the output of the last build to a folder of its own outside the project, and serves it there on Node 24. */
export async function serveOutput(options: ServeOptions): Promise<ServedOutput> {
  const { port, variables, neon, beside, crons, write } = options;
  const folder = mkdtempSync(join(tmpdir(), 'postbud-artefact-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  cpSync(fileURLToPath(new URL(OUTPUT, root)), join(folder, 'output'), { recursive: true });
  const services = await secured(variables);
  const [server] = await bundle(root, ['dev/serve-output/server.ts']);
  writeFileSync(join(folder, 'server.mjs'), server!.code);

  const child = spawn(
    node24(),
    [
      'server.mjs',
      '--port',
      `${port}`,
      ...(neon === undefined ? [] : ['--neon', neon]),
      ...(beside === undefined ? [] : ['--beside', beside]),
      ...(crons ? ['--crons'] : []),
    ],
    // The server ends when its input does, which is when this process ends for any reason.
    { cwd: folder, env: { ...PLATFORM, ...services.variables }, stdio: ['pipe', 'pipe', 'pipe'] },
  );
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let written = '';
  const url = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        const started = /^The artefact is at (\S+)$/m.exec((written += written.length < 10_000 ? text : ''));
        if (started) resolve(started[1]!);
        write(text);
      });
    }
    void ended.then(() => reject(new Error(`the artefact’s server ended: ${written}`)));
  });
  return {
    url,
    async stop() {
      child.stdin.end();
      await ended;
      services.close();
      process.off('exit', remove);
      remove();
    },
  };
}
