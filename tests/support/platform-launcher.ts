import { fileURLToPath } from 'node:url';

import { startDevServer } from '@vercel/node';
import { vi } from 'vitest';

import { PATIENTLY } from './patience.ts';

/** The package describes only Node's request and response as its launcher dresses them up. */
declare module '@vercel/node' {
  function startDevServer(options: {
    /** From `workPath`. */
    readonly entrypoint: string;
    /** The folder that the function runs in. */
    readonly workPath: string;
    readonly config: { readonly zeroConfig: true };
    readonly files: Readonly<Record<string, never>>;
    /** `env` comes on top of this process's own environment. */
    readonly meta: { readonly isDev: true; readonly env: Readonly<Record<string, string>> };
  }): Promise<{ readonly port: number; readonly pid: number; shutdown(): Promise<void> }>;
}

/** A function in a process of its own that the platform's launcher started, listening on a port. */
export interface LaunchedFunction {
  /** Without a slash at the end. */
  readonly url: string;
  /** Ends it as the platform does, after what it goes on with behind its answers. */
  readonly stop: () => Promise<void>;
  /** Ends it at once. */
  readonly kill: () => Promise<void>;
}

/**
 * Runs a function's file through the launcher of `vercel dev`.
 *
 * @param file from `folder`.
 * @throws Error when the file cannot be imported.
 */
export async function launchFunction(
  folder: URL,
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<LaunchedFunction> {
  const { port, pid, shutdown } = await startDevServer({
    entrypoint: file,
    workPath: fileURLToPath(folder),
    config: { zeroConfig: true },
    files: {},
    meta: { isDev: true, env },
  });
  const end = () => isRunning(pid) && process.kill(pid, 'SIGKILL');
  process.once('exit', end);
  const ended = async () => {
    await vi.waitUntil(() => !isRunning(pid), PATIENTLY);
    process.off('exit', end);
  };
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await shutdown();
      await ended();
    },
    async kill() {
      end();
      await ended();
    },
  };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
