import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import type { Metafile, Plugin } from 'esbuild';

/** One file with everything that it imports, and what that was. */
export interface Bundle {
  readonly code: string;
  /** How many bytes of the code came from where, by the path of the file in the project. */
  readonly parts: Metafile['outputs'][string]['inputs'];
}

/**
 * What only a laptop needs. Code that asks for one of these in a function fails, and says why.
 */
const NOT_DEPLOYED: Readonly<Record<string, string>> = {
  '@electric-sql/pglite': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  'drizzle-orm/pglite': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  'drizzle-orm/pglite/migrator': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  ws: 'Node 24 has a WebSocket of its own',
};

/** Some packages are CommonJS inside, and ask for Node's own modules as such. */
const REQUIRE =
  "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);";

/**
 * Bundles each file with everything it imports into one, so that a cold start reads that and resolves no module.
 *
 * What is imported with `import()` is in the file too, and runs when it is asked for. Names are kept: the log tells by
 * them where an error was thrown, and shorter ones start no sooner.
 *
 * @param files from `root`.
 * @returns a bundle for each file, in that order.
 */
export async function bundle(root: URL, files: readonly string[]): Promise<Bundle[]> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: fileURLToPath(root),
    entryPoints: [...files],
    outdir: '.',
    outExtension: { '.js': '.mjs' },
    write: false,
    bundle: true,
    metafile: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // Where a package has both, its modules: what nobody imports of them is left out.
    mainFields: ['module', 'main'],
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    banner: { js: REQUIRE },
    // What `pg` asks for and does without.
    external: ['pg-native', 'cloudflare:sockets'],
    plugins: [leaveOut],
    logLevel: 'warning',
  });
  const code = new Map(
    outputFiles.map(({ path, text }) => [relative(fileURLToPath(root), path), text] as const),
  );
  const built = Object.entries(metafile.outputs).map(([path, { entryPoint, inputs }]) => ({
    file: entryPoint,
    bundle: { code: code.get(path) ?? '', parts: inputs },
  }));
  return files.map((file) => built.find((one) => one.file === file)!.bundle);
}

const leaveOut: Plugin = {
  name: 'not-deployed',
  setup(build) {
    const names = Object.keys(NOT_DEPLOYED).join('|');
    build.onResolve({ filter: new RegExp(`^(${names})$`) }, ({ path }) => ({
      path,
      namespace: 'not-deployed',
    }));
    build.onLoad({ filter: /.*/, namespace: 'not-deployed' }, ({ path }) => ({
      contents: `throw new Error(${JSON.stringify(NOT_DEPLOYED[path])});`,
    }));
  },
};
