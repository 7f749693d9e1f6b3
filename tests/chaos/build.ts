import { readFile, rm, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { build } from 'esbuild';
import type { Plugin } from 'esbuild';

import type * as BusSide from './bus-side.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** The project's folder. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** One change of a file of the bus, be it of a database function. */
export interface Change {
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly from: string;
  readonly to: string;
}

/** The bus as it stands at this moment, or as changes have it, in a folder of its own. */
export interface Build {
  /** What a relay process runs: one file, which starts in a third of the time. */
  readonly relayProcess: string;
  /** What the run itself needs of it. */
  readonly bus: typeof BusSide;
  /** Create the database functions that changes have altered, to be run after the migrations. */
  readonly statements: readonly string[];
  readonly remove: () => Promise<void>;
}

/**
 * Bundles the bus.
 *
 * @throws Error when a change does not fit the code exactly once.
 */
export async function buildBus(changes: readonly Change[]): Promise<Build> {
  const changed = new Set<string>();
  const folder = await bundle(
    { relay: 'tests/chaos/relay-process.ts', bus: 'tests/chaos/bus-side.ts' },
    changes,
    changed,
  );
  const statements = await changedFunctions(changes, changed);
  for (const { file } of changes) if (!changed.has(file)) throw new Error(`${file} is not part of the bus`);
  return {
    statements,
    relayProcess: join(folder, 'relay.mjs'),
    bus: (await import(pathToFileURL(join(folder, 'bus.mjs')).href)) as typeof BusSide,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** @param changed takes the files that were read. @returns a folder with a file for each entry, by its name. */
async function bundle(
  entries: Readonly<Record<string, string>>,
  changes: readonly Change[],
  changed?: Set<string>,
): Promise<string> {
  const folder = await temporaryFolder('build');
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  await build({
    entryPoints: Object.fromEntries(Object.entries(entries).map(([name, path]) => [name, join(ROOT, path)])),
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    logLevel: 'warning',
    plugins: [changing(changes, changed)],
  });
  return folder;
}

/** Has esbuild read files of the bus as changes have them. @param changed takes the files that were read. */
export function changing(changes: readonly Change[], changed = new Set<string>()): Plugin {
  return {
    name: 'changes',
    setup(building) {
      building.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const file = relative(ROOT, path);
        if (!/^(?:lib|drizzle)\//.test(file)) return null;
        const text = await readFile(join(ROOT, file), 'utf8');
        changed.add(file);
        return { contents: withChanges(text, file, changes), loader: 'ts' };
      });
    },
  };
}

const FUNCTIONS = 'drizzle/functions/';

/** The database functions as changes have them. @param changed takes their files. */
async function changedFunctions(changes: readonly Change[], changed: Set<string>): Promise<string[]> {
  const files = [...new Set(changes.map(({ file }) => file))].filter((file) => file.startsWith(FUNCTIONS));
  for (const file of files) changed.add(file);
  return await Promise.all(
    files.map(async (file) => withChanges(await readFile(join(ROOT, file), 'utf8'), file, changes)),
  );
}

/** @throws Error when a change does not fit the file exactly once. */
export function withChanges(text: string, path: string, changes: readonly Change[]): string {
  let result = text;
  for (const { file, from, to } of changes) {
    if (file !== path) continue;
    const found = result.split(from).length - 1;
    if (found !== 1) throw new Error(`a change fits ${file} ${found} times, not once: ${from}`);
    result = result.replace(from, () => to);
  }
  return result;
}
