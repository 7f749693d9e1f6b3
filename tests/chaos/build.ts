import { readFile, rm, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { build } from 'esbuild';

import type * as BusSide from './bus-side.ts';
import type { Mutation } from './mutations.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** The project's folder. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The bus as it stands at this moment, or as a mutation has it, in a folder of its own. */
export interface Build {
  /** What a relay process runs: one file, which starts in a third of the time. */
  readonly relayProcess: string;
  /** What the run itself needs of it. */
  readonly bus: typeof BusSide;
  readonly remove: () => Promise<void>;
}

/**
 * Bundles the bus.
 *
 * @param code the folder whose `lib` and `drizzle` are built.
 * @throws Error when the mutation does not fit the code exactly once.
 */
export async function buildBus(code: string, mutation: Mutation | null): Promise<Build> {
  const folder = await temporaryFolder('build');
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  let isMutated = false;
  await build({
    entryPoints: {
      relay: join(ROOT, 'tests/chaos/relay-process.ts'),
      bus: join(ROOT, 'tests/chaos/bus-side.ts'),
    },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    logLevel: 'warning',
    plugins: [
      {
        name: 'mutation',
        setup(building) {
          building.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
            const file = relative(ROOT, path);
            if (!/^(?:lib|drizzle)\//.test(file)) return null;
            const text = await readFile(join(code, file), 'utf8');
            if (file !== mutation?.file) return { contents: text, loader: 'ts' };
            isMutated = true;
            return { contents: mutated(text, mutation), loader: 'ts' };
          });
        },
      },
    ],
  });
  if (mutation && !isMutated) throw new Error(`${mutation.file} is no part of the bus`);
  return {
    relayProcess: join(folder, 'relay.mjs'),
    bus: (await import(pathToFileURL(join(folder, 'bus.mjs')).href)) as typeof BusSide,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

function mutated(text: string, { name, file, changes }: Mutation): string {
  let result = text;
  for (const { from, to } of changes) {
    const found = result.split(from).length - 1;
    if (found !== 1) throw new Error(`the mutation ${name} fits ${file} ${found} times: write it anew`);
    result = result.replace(from, () => to);
  }
  return result;
}
