import { readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';

import { bundle } from './bundle.ts';
import { functionsOf } from './functions.ts';
import { whyKept } from './throwaway.ts';
import { readVercelJson } from './vercel-json.ts';

/**
 * `npm run vercel-build`: makes the platform deploy the bundles of `npm run build` when it builds from Git.
 *
 * The platform's own build of a file in `api/` wins over an output that a command wrote. But it runs this script first,
 * once for each function. So the script overwrites each function's file, in a throwaway checkout, with a line that
 * re-exports the bundle beside it. In any other checkout it writes nothing: the functions then start more slowly.
 */
const root = new URL('../../', import.meta.url);
const files = functionsOf(root, readVercelJson(root)).map(({ file }) => file);
if (files.some((file) => readFileSync(new URL(file, root), 'utf8') !== reExportOf(file))) {
  const reason = whyKept(root, process.env);
  if (reason === null) await overwrite();
  else
    console.warn(
      `The functions are built without bundles, and start more slowly, because bundling overwrites the files of api/, and ${reason}.\n` +
        'To build them with bundles here, use npm run build, and vercel deploy --prebuilt.',
    );
}

async function overwrite(): Promise<void> {
  const bundles = await bundle(root, files);
  for (const [index, file] of files.entries()) {
    const { code, beside } = bundles[index]!;
    writeFileSync(new URL(bundleOf(file), root), code);
    for (const [name, text] of Object.entries(beside))
      writeFileSync(new URL(posix.join(posix.dirname(file), name), root), text);
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
