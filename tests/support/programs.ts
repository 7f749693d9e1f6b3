import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Finds a program of this machine; undefined says that tests which need it cannot run. */
export function programPath(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}
