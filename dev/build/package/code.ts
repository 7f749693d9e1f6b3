import { posix, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import type { Metafile, Plugin } from 'esbuild';

import { subscriberNames } from '../../../lib/bus/catalog/catalog.ts';
import { OLDEST_NODE } from './entries.ts';

/** A file of JavaScript in the package, or its source map. */
export interface CodeFile {
  /** From the package's folder. */
  readonly path: string;
  readonly code: string;
  /** The files that are loaded with it. */
  readonly imports: readonly string[];
}

/**
 * What the package's code imports and never runs there, and what stands in its place. A test bus opens only the embedded
 * database, and leaves it to the component's own OpenTelemetry to export spans.
 */
const LEFT_OUT: Readonly<Record<string, string>> = {
  pg: '',
  ws: '',
  '@neondatabase/serverless': '',
  '@vercel/functions': 'export const waitUntil = () => undefined;',
  'drizzle-orm/node-postgres': '',
  'drizzle-orm/node-postgres/migrator': '',
  'drizzle-orm/neon-serverless': '',
  'drizzle-orm/neon-serverless/migrator': '',
  './export.ts': 'export const exportTraces = () => () => undefined;',
};

/** What the package has in place of a module, because a component has no right on the bus's tables. */
const IN_PLACE_OF: Readonly<Record<string, string>> = {
  'lib/bus/outbox/insert.ts': 'lib/elsewhere/emit/call.ts',
};

/** The package has a list in place of this module, which would load the whole catalog. */
const KNOWN_SUBSCRIBERS = 'lib/elsewhere/emit/known-subscribers.ts';

/**
 * Modules with a file of their own, because somebody's bundle may need nothing else: what is left of a module beside them
 * is not loaded.
 */
const ALONE = [
  'lib/bus/outbox/emit.ts',
  'lib/bus/subscribers/outcome.ts',
  'lib/elsewhere/clients/adapters.ts',
  'lib/elsewhere/emit/kick.ts',
  'lib/elsewhere/receive/endpoint.ts',
];

/**
 * Bundles each entry with what it needs, as modules for the oldest Node that the package supports. They stay readable:
 * those who install the package read them in stack traces and reviews.
 *
 * An entry imports the other entries, so that a class or a topic is the same one for all. What is in no entry is in each
 * that needs it: shared between them, `emit` would load all that only `testing` needs of it. All files lie three
 * folders deep, as in this repository, so that the migrations are at the same place for each.
 *
 * @param files from `root`.
 * @param installed packages that stay imports.
 * @param plugins for tests, which package another catalog.
 */
export async function codeOf(
  root: URL,
  files: readonly string[],
  installed: readonly string[],
  plugins: readonly Plugin[] = [],
): Promise<CodeFile[]> {
  const all = [...new Set([...files, ...ALONE])];
  const bundled = await Promise.all(all.map((file) => bundleOf(root, file, all, installed, plugins)));
  return bundled.flat();
}

async function bundleOf(
  root: URL,
  file: string,
  entries: readonly string[],
  installed: readonly string[],
  plugins: readonly Plugin[],
): Promise<CodeFile[]> {
  const folder = fileURLToPath(root);
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    entryPoints: [file],
    outbase: '.',
    outdir: '.',
    chunkNames: `${posix.dirname(file)}/[name]-[hash]`,
    splitting: true,
    write: false,
    bundle: true,
    metafile: true,
    sourcemap: 'linked',
    platform: 'node',
    target: `node${OLDEST_NODE}`,
    format: 'esm',
    mainFields: ['module', 'main'],
    external: installed.flatMap((name) => [name, `${name}/*`]),
    plugins: [
      ...plugins,
      otherEntries(root, file, entries),
      putInPlace(root),
      listSubscribers(root),
      leaveOut,
    ],
    logLevel: 'warning',
  });
  const reached = reachedFrom(file.replace(/\.ts$/, '.js'), metafile);
  const requiring = new Set(outputFiles.flatMap(({ path, text }) => (text.includes(NO_REQUIRE) ? path : [])));
  return outputFiles.flatMap(({ path, text }) => {
    const name = relative(folder, path);
    const isMap = name.endsWith('.map');
    const of = (file: string) => (isMap ? file.replace(/\.map$/, '') : file);
    if (!reached.has(of(name))) return [];
    const code = requiring.has(of(path)) && !isMap ? REQUIRE + text : text;
    return {
      path: name,
      code: requiring.has(of(path)) && isMap ? movedDown(text) : code,
      imports: importsOf(name, metafile.outputs[name]),
    };
  });
}

/** Some packages are CommonJS inside, and `require` Node's modules; what esbuild throws in place of doing so. */
const NO_REQUIRE = 'Dynamic require of';
const REQUIRE =
  "import { createRequire as requireOf } from 'node:module';\nconst require = requireOf(import.meta.url);\n";

/** A source map for code that `REQUIRE` stands before: each of its lines is a semicolon. */
function movedDown(map: string): string {
  const lines = REQUIRE.replaceAll(/[^\n]/g, '').length;
  return map.replace('"mappings": "', `"mappings": "${';'.repeat(lines)}`);
}

/** The outputs that load with one, at once or on demand: esbuild also writes those that only left-out code loads. */
function reachedFrom(entry: string, { outputs }: Metafile): ReadonlySet<string> {
  const reached = new Set([entry]);
  for (const name of reached) {
    for (const { path, external } of outputs[name]!.imports) if (!external) reached.add(path);
  }
  return reached;
}

/** Adds up the bytes that `import` of a file loads from the package. */
export function bytesOf(files: readonly CodeFile[], path: string): number {
  const loaded = new Set([path]);
  for (const name of loaded) {
    for (const other of files.find((file) => file.path === name)!.imports) loaded.add(other);
  }
  return files
    .filter((file) => loaded.has(file.path))
    .reduce((sum, { code }) => sum + Buffer.byteLength(code), 0);
}

/** The files of the package that load with a file. */
function importsOf(name: string, output: Metafile['outputs'][string] | undefined): string[] {
  return (output?.imports ?? [])
    .filter(({ kind }) => kind === 'import-statement')
    .flatMap(({ path, external }) => {
      if (!external) return path;
      return path.startsWith('.') ? posix.join(posix.dirname(name), path) : [];
    });
}

function otherEntries(root: URL, entry: string, entries: readonly string[]): Plugin {
  const paths = new Map(entries.map((file) => [fileURLToPath(new URL(file, root)), file] as const));
  return {
    name: 'other-entries',
    setup(build) {
      build.onResolve({ filter: /^\./ }, ({ path: asked, resolveDir, kind }) => {
        if (kind === 'entry-point') return undefined;
        const file = paths.get(resolve(resolveDir, asked));
        if (file === undefined) return undefined;
        const path = posix.relative(posix.dirname(entry), file.replace(/\.ts$/, '.js'));
        return { path: path.startsWith('.') ? path : `./${path}`, external: true };
      });
    },
  };
}

function putInPlace(root: URL): Plugin {
  const path = (file: string) => fileURLToPath(new URL(file, root));
  const places = new Map(
    Object.entries(IN_PLACE_OF).map(([file, other]) => [path(file), path(other)] as const),
  );
  return {
    name: 'in-place-of',
    setup(build) {
      build.onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
        const other = places.get(resolve(resolveDir, path));
        return other === undefined ? undefined : { path: other };
      });
    },
  };
}

function listSubscribers(root: URL): Plugin {
  const file = fileURLToPath(new URL(KNOWN_SUBSCRIBERS, root));
  const contents = `export const subscriberNames = () => ${JSON.stringify(subscriberNames())};`;
  return {
    name: 'known-subscribers',
    setup(build) {
      build.onLoad({ filter: /known-subscribers/ }, ({ path }) => (path === file ? { contents } : undefined));
    },
  };
}

const leaveOut: Plugin = {
  name: 'left-out',
  setup(build) {
    build.onResolve({ filter: /.*/ }, ({ path }) =>
      Object.hasOwn(LEFT_OUT, path) ? { path, namespace: 'left-out' } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path }) => ({ contents: LEFT_OUT[path]! }));
  },
};
