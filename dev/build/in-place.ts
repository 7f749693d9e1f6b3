import { readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';

import { bundle } from './bundle.ts';
import { functionsOf } from './functions.ts';
import { readVercelJson } from './vercel-json.ts';

/**
 * `npm run vercel-build`: makes the platform deploy the bundles of `npm run build` when it builds from Git.
 *
 * The platform's own build of a file in `api/` wins over an output that a command wrote. But it runs this script first,
 * once for each function. So the script overwrites each function's file, in the platform's throwaway checkout, with a
 * line that re-exports the bundle beside it.
 */
const root = new URL('../../', import.meta.url);
const { VERCEL, CI } = process.env;
if (VERCEL !== '1' || CI !== '1') {
  console.error(
    'vercel-build overwrites the files of api/, so it runs only in the platform’s build (VERCEL=1 and CI=1).\n' +
      'Here, run npm run build, which makes the same functions, and vercel deploy --prebuilt.',
  );
  process.exit(1);
}

const files = functionsOf(root, readVercelJson(root)).map(({ file }) => file);
if (files.some((file) => readFileSync(new URL(file, root), 'utf8') !== reExportOf(file))) {
  const bundles = await bundle(root, files);
  for (const [index, file] of files.entries()) {
    writeFileSync(new URL(bundleOf(file), root), bundles[index]!.code);
    writeFileSync(new URL(file, root), reExportOf(file));
  }
}

/** The underscore keeps it from becoming a function. */
function bundleOf(file: string): string {
  return posix.join(posix.dirname(file), `_${posix.basename(file, '.ts')}.mjs`);
}

/** The platform reads the settings without running the file, so they must be literals. */
function reExportOf(file: string): string {
  return (
    'export const config = { supportsResponseStreaming: true };\n' +
    `export { default } from './${posix.basename(bundleOf(file))}';\n`
  );
}
