import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import type { Metafile, Plugin } from 'esbuild';

/** One file with everything that it imports. */
export interface Bundle {
  readonly code: string;
  /** The bytes of code from each source file, by its path in the project. */
  readonly parts: Metafile['outputs'][string]['inputs'];
}

/**
 * Packages for laptops only. Importing one in a function fails with this message.
 */
const NOT_DEPLOYED: Readonly<Record<string, string>> = {
  '@electric-sql/pglite': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  'drizzle-orm/pglite': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  'drizzle-orm/pglite/migrator': 'the embedded database is for laptops: set DATABASE_URL to postgres://…',
  ws: 'Node 24 has a WebSocket of its own',
};

/** Some packages are CommonJS inside, and `require` Node's modules. */
const REQUIRE =
  "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);";

/**
 * Bundles each file with everything it imports into one, so that a cold start reads that and resolves no module.
 *
 * Modules loaded with `import()` are in the file too, and run when they are loaded. Names are kept: stacks in the log
 * need them, and shorter names do not speed up the start.
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
    // Prefer a package's ES modules, whose unused exports are dropped.
    mainFields: ['module', 'main'],
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    banner: { js: REQUIRE },
    // Optional dependencies of `pg`.
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
