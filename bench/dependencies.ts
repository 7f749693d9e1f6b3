import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

import type { Bundle } from '../dev/build/bundle.ts';
import { ms, quantile } from './figures.ts';
import type { Figure } from './figures.ts';

const ROUNDS = 5;

interface Measured {
  readonly node: string;
  /** Outside the project, with a link to its packages. */
  readonly folder: string;
  readonly files: readonly string[];
  /** One per file, in their order. */
  readonly bundles: readonly Bundle[];
}

/** Measures the packages that functions import: bytes in the bundles, and the time to import each as installed. */
export async function dependencyFigures(root: URL, measured: Measured): Promise<Figure[]> {
  const { node, folder, files, bundles } = measured;
  const bytes = bundles.map(({ parts }) => bytesByPackage(parts));
  const specifiers = await specifiersOf(root, files);
  console.log(`What ${specifiers.size} dependencies cost …`);
  return Array.from(specifiers, ([name, { imported, isLazy }]) => {
    const sizes = bytes.map((of) => of.get(name) ?? 0);
    const users = sizes.filter(Boolean).length;
    const times = Array.from({ length: ROUNDS }, () => importTime(node, folder, imported));
    const when = isLazy ? 'loaded when first needed' : 'loaded at the start';
    return {
      what: `${name}, ${when}`,
      figure: `${(Math.max(...sizes) / 1000).toFixed(0)} kB at most, in ${users} ${users === 1 ? 'function' : 'functions'}; as installed it imports in ${ms(quantile(times, 0.5))}`,
      goal: '',
    };
  }).toSorted((one, other) => one.what.localeCompare(other.what));
}

function packageOf(path: string): string | undefined {
  return /^(?:.*node_modules\/)?((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];
}

function bytesByPackage(parts: Bundle['parts']): ReadonlyMap<string, number> {
  const bytes = new Map<string, number>();
  for (const [path, { bytesInOutput }] of Object.entries(parts)) {
    if (!path.includes('node_modules/')) continue;
    const name = packageOf(path) ?? path;
    bytes.set(name, (bytes.get(name) ?? 0) + bytesInOutput);
  }
  return bytes;
}

interface Imported {
  /** The imports as our code writes them. */
  readonly imported: string[];
  /** Whether each is behind an `import()`: its own, or that of the importing file. */
  readonly isLazy: boolean;
}

/** Finds what the functions import, by package name. */
async function specifiersOf(root: URL, files: readonly string[]): Promise<ReadonlyMap<string, Imported>> {
  const { metafile } = await build({
    absWorkingDir: fileURLToPath(root),
    entryPoints: [...files],
    outdir: 'none',
    write: false,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    metafile: true,
  });
  const started = new Set(files);
  for (const file of started) {
    for (const { path, kind, external } of metafile.inputs[file]?.imports ?? [])
      if (!external && kind === 'import-statement') started.add(path);
  }
  const found = new Map<string, Imported>();
  for (const [file, { imports }] of Object.entries(metafile.inputs)) {
    for (const { path, kind, external } of imports) {
      if (!external || /^(node:|<)/.test(path) || LAPTOPS.test(path)) continue;
      const name = packageOf(path) ?? path;
      const { imported = [], isLazy = true } = found.get(name) ?? {};
      if (!imported.includes(path)) imported.push(path);
      const isStarted = started.has(file) && kind === 'import-statement';
      found.set(name, { imported, isLazy: isLazy && !isStarted });
    }
  }
  return found;
}

/** Packages that no function contains; see `dev/build/bundle.ts`. */
const LAPTOPS = /pglite|^ws$/;

function importTime(node: string, folder: string, specifiers: readonly string[]): number {
  const file = join(folder, 'imports.mjs');
  const imports = specifiers.map((specifier) => `await import('${specifier}');`).join('\n');
  writeFileSync(
    file,
    `const at = performance.now();\n${imports}\nconsole.log(performance.now() - at);\nprocess.exit();\n`,
  );
  const { stdout, stderr } = spawnSync(node, [file], { encoding: 'utf8', cwd: folder });
  const took = Number(stdout.trim().split('\n').at(-1));
  if (!stdout || Number.isNaN(took)) throw new Error(`${specifiers.join(', ')}: ${stderr}`);
  return took;
}
