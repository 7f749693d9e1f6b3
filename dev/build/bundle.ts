import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import type { Metafile, Plugin } from 'esbuild';

/** One file with everything that it imports, except what stands in files of its own. */
export interface Bundle {
  readonly code: string;
  /** The code of the files that must stand beside it, by their names. */
  readonly beside: Readonly<Record<string, string>>;
  /** The bytes of code from each source file, by its path in the project, of the files beside it too. */
  readonly parts: Metafile['outputs'][string]['inputs'];
}

/**
 * Large modules that most calls of a function do not need, by the name of the file that each becomes. The underscore
 * keeps it from becoming a function.
 */
const FILES_BESIDE: Readonly<Record<string, string>> = {
  '_sendgrid.mjs': 'lib/platform/mail/sendgrid.ts',
  '_database.mjs': 'lib/components/database.ts',
  '_openid-client.mjs': 'lib/console/access/openid-client.ts',
};

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
 * Modules loaded with `import()` are in the file too, and run when they are loaded, except those of `FILES_BESIDE`, which
 * are read only then. Names are kept: stacks in the log need them, and shorter names do not speed up the start.
 *
 * @param files from `root`.
 * @returns a bundle for each file, in that order.
 */
export async function bundle(root: URL, files: readonly string[]): Promise<Bundle[]> {
  const beside = Object.values(FILES_BESIDE);
  const [built, separate] = await Promise.all([
    buildEach(root, files, [leaveOut, setApart]),
    buildEach(root, beside, [leaveOut]),
  ]);
  const codeOf = new Map(Object.keys(FILES_BESIDE).map((name, index) => [`./${name}`, separate[index]!]));
  return built.map(({ code, parts, imports }) => {
    const used = imports.flatMap(({ path }) => {
      const file = codeOf.get(path);
      return file ? [{ name: path.slice('./'.length), ...file }] : [];
    });
    return {
      code,
      beside: Object.fromEntries(used.map((file) => [file.name, file.code])),
      parts: Object.assign({}, parts, ...used.map((file) => file.parts)),
    };
  });
}

async function buildEach(root: URL, files: readonly string[], plugins: Plugin[]) {
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
    plugins,
    logLevel: 'warning',
  });
  const code = new Map(
    outputFiles.map(({ path, text }) => [relative(fileURLToPath(root), path), text] as const),
  );
  const built = Object.entries(metafile.outputs).map(([path, { entryPoint, inputs, imports }]) => ({
    file: entryPoint,
    bundle: { code: code.get(path) ?? '', parts: inputs, imports },
  }));
  return files.map((file) => built.find((one) => one.file === file)!.bundle);
}

const setApart: Plugin = {
  name: 'files-beside',
  setup(build) {
    for (const [name, file] of Object.entries(FILES_BESIDE)) {
      const ending = new RegExp(`/${basename(file).replaceAll('.', String.raw`\.`)}$`);
      build.onResolve({ filter: ending }, ({ kind, resolveDir, path }) => {
        const isIt = join(resolveDir, path) === join(build.initialOptions.absWorkingDir ?? '', file);
        return kind === 'dynamic-import' && isIt ? { path: `./${name}`, external: true } : undefined;
      });
    }
  },
};

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
