import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { readConfig } from '../lib/config.ts';

/** The local server's address and generated variables, for the demo and `npx postbud` in other processes. */
const file = z.object({
  url: z.url(),
  variables: z.record(z.string(), z.string()),
});
export type Development = z.output<typeof file>;

/** Reads the local server's file; null if none has run here. */
export function read(dataDir: string): Development | null {
  try {
    return file.parse(JSON.parse(readFileSync(join(dataDir, 'development.json'), 'utf8')));
  } catch {
    return null;
  }
}

/** The folder of the embedded database and the published file. */
export function dataDir(): string {
  return readConfig().dataDir;
}
