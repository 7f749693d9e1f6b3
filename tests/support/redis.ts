import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';

import { freePort } from './postgres.ts';
import { programPath } from './programs.ts';

/** Where a Redis server is on this machine; undefined says that tests which need one cannot run. */
export const redisServerPath = programPath('redis-server');

export interface RedisServer {
  readonly port: number;
  readonly stop: () => Promise<void>;
}

/** Starts a Redis that keeps nothing, on a free port. */
export async function startRedis(): Promise<RedisServer> {
  const port = await freePort();
  const server = spawn(
    redisServerPath ?? 'redis-server',
    ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const exited = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  const kill = () => server.kill('SIGKILL');
  process.once('exit', kill);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)));
    server.stdout.on('data', (text) => String(text).includes('Ready to accept') && resolve());
  });
  return {
    port,
    async stop() {
      process.off('exit', kill);
      server.kill('SIGKILL');
      await exited;
    },
  };
}
