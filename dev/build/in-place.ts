import { readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';

import { bundle } from './bundle.ts';
import { functionsOf } from './functions.ts';
import { readVercelJson } from './vercel-json.ts';

/**
 * `npm run vercel-build`: has the platform deploy the bundles of `npm run build` when it builds from Git.
 *
 * Its own build of a file in `api/` cannot be replaced by an output that a command wrote: on the same path it wins. But
 * it runs this script first, once for each function. So each function's file is overwritten, in the throwaway checkout
 * that the platform builds in, by a line that hands on the bundle next to it.
 */
const root = new URL('../../', import.meta.url);
const { VERCEL, CI } = process.env;
if (VERCEL !== '1' || CI !== '1') {
  console.error(
    'vercel-build overwrites the files of api/, and so runs only where the platform builds (VERCEL=1 and CI=1).\n' +
      'Here, npm run build makes the same functions, and vercel deploy --prebuilt takes them.',
  );
  process.exit(1);
}

const files = functionsOf(root, readVercelJson(root)).map(({ file }) => file);
if (files.some((file) => readFileSync(new URL(file, root), 'utf8') !== handsOn(file))) {
  const bundles = await bundle(root, files);
  for (const [index, file] of files.entries()) {
    writeFileSync(new URL(bundleOf(file), root), bundles[index]!.code);
    writeFileSync(new URL(file, root), handsOn(file));
  }
}

/** Hidden by its first letter: not a function of its own. */
function bundleOf(file: string): string {
  return posix.join(posix.dirname(file), `_${posix.basename(file, '.ts')}.mjs`);
}

/** The platform reads the settings without running the file, so they must be written out here. */
function handsOn(file: string): string {
  return (
    'export const config = { supportsResponseStreaming: true };\n' +
    `export { default } from './${posix.basename(bundleOf(file))}';\n`
  );
}
