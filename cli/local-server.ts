import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import * as z from 'zod';

import { readConfig } from '../lib/platform/config.ts';

const file = z.object({ url: z.url(), variables: z.record(z.string(), z.string()) });

/** The address and the generated variables of a server that `npm start` runs here. */
export type LocalServer = z.output<typeof file>;

/** The file in which a local server publishes them. */
export function localServerFile(folder: string): string {
  return join(folder, 'development.json');
}

/** Reads the file that the local server has written in a folder; null if none has run there. */
export function readLocalServer(folder: string): LocalServer | null {
  try {
    return file.parse(JSON.parse(readFileSync(localServerFile(folder), 'utf8')));
  } catch {
    return null;
  }
}

/** The folder of the embedded database and of the local server's file. */
export function dataDir(): string {
  return readConfig().dataDir;
}
