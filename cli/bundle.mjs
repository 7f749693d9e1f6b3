// The command line as few files, so that a command starts in a third of a second: with tsx, Node loads some 150 files of
// the sources and 400 of the packages one by one, which takes three times as long.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const CACHE = join(ROOT, 'node_modules/.cache/postbud');
const CURRENT = join(CACHE, 'current.json');

/** Others stay where they are: few commands load them, and some are not made of JavaScript alone. */
const BUNDLED =
  /^(?:zod|drizzle-orm|hono|leven|string-width|wrap-ansi|uuid|jose|p-limit|yocto-queue|ansi-regex|ansi-styles|strip-ansi|get-east-asian-width|@opentelemetry\/api)(?:\/|$)/;

/** A process may still load parts of the bundle before this one. */
const KEPT_MS = 24 * 60 * 60 * 1000;

/** @returns the address of the bundle of `main.ts`, made anew if a source has changed. */
export async function bundledMain() {
  const known = readCurrent();
  const folder = known !== null && isFresh(known.stamps) ? known.folder : await bundle();
  return pathToFileURL(join(folder, 'main.js')).href;
}

function readCurrent() {
  try {
    return JSON.parse(readFileSync(CURRENT, 'utf8'));
  } catch {
    return null;
  }
}

function isFresh(stamps) {
  return Object.entries(stamps).every(([path, stamp]) => stampOf(path) === stamp);
}

/** A folder has another time once a file in it is new or gone. */
function stampOf(path) {
  const stat = statSync(join(ROOT, path), { throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.mtimeMs} ${stat.isDirectory() ? '' : stat.size}`;
}

async function bundle() {
  const { build } = await import('esbuild');
  const folder = join(CACHE, `${Date.now()}-${process.pid}`);
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['cli/main.ts'],
    outdir: folder,
    bundle: true,
    splitting: true,
    minifyWhitespace: true,
    minifySyntax: true,
    format: 'esm',
    platform: 'node',
    metafile: true,
    logLevel: 'silent',
    plugins: [{ name: 'sources', setup: inPlace }],
  });
  const sources = Object.keys(metafile.inputs).filter((path) => !path.startsWith('node_modules/'));
  const watched = new Set(['package-lock.json', ...sources, ...sources.map((path) => dirname(path))]);
  const stamps = Object.fromEntries(Array.from(watched, (path) => [path, stampOf(path)]));
  writeFileSync(`${folder}/package.json`, '{ "type": "module" }');
  writeFileSync(`${folder}/current.json`, JSON.stringify({ folder, stamps }));
  renameSync(`${folder}/current.json`, CURRENT);
  for (const name of readdirSync(CACHE))
    if (Number.parseInt(name, 10) < Date.now() - KEPT_MS)
      rmSync(join(CACHE, name), { recursive: true, force: true });
  return folder;
}

/** Leaves most packages out, and has each source know its own address. */
function inPlace({ onResolve, onLoad }) {
  onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
    kind === 'entry-point' || BUNDLED.test(path) ? undefined : { path, external: true },
  );
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    const source = readFileSync(path, 'utf8');
    const address = JSON.stringify(pathToFileURL(path).href);
    return { contents: source.replaceAll('import.meta.url', address), loader: 'ts' };
  });
}

mkdirSync(CACHE, { recursive: true });
