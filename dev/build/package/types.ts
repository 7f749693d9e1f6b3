import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

import { withComments } from './hover.ts';

/** A declaration of types in the package. */
export interface TypesFile {
  /** From the package's folder. */
  readonly path: string;
  readonly text: string;
}

/** The types of a test bus's database without Drizzle's, which a component may not have. */
const WITHOUT_DRIZZLE: Readonly<Record<string, string>> = {
  'lib/platform/db/connect.d.ts': 'dev/build/package/test-database.ts',
  'lib/platform/db/database.d.ts': 'dev/build/package/test-database.ts',
};

/**
 * Declares the types of the entries, and of what those mention.
 *
 * @param files from `root`.
 * @throws Error for a declaration that mentions a package which is not in `installed`.
 */
export function typesOf(root: URL, files: readonly string[], installed: readonly string[]): TypesFile[] {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-types-'));
  try {
    const stands = Object.values(WITHOUT_DRIZZLE);
    declare(root, [...files, ...stands], folder);
    const read = (path: string) =>
      readFileSync(join(folder, WITHOUT_DRIZZLE[path] ? declarationOf(WITHOUT_DRIZZLE[path]) : path), 'utf8');
    const mentioned = new Map<string, TypesFile>();
    const add = (path: string) => {
      if (mentioned.has(path)) return;
      // The compiler leaves the names of sources, which are not in the package.
      const declared = read(path).replaceAll(SOURCE, '$1.js$2');
      const text = path === 'lib/bus/catalog/catalog.d.ts' ? withComments(declared) : declared;
      mentioned.set(path, { path, text });
      for (const [, name] of text.matchAll(IMPORT)) {
        if (name!.startsWith('.')) add(declarationOf(posix.join(posix.dirname(path), name!)));
        else if (!installed.includes(packageOf(name!)))
          throw new Error(`${path} mentions ${name}, which a component may not have`);
      }
    };
    for (const file of files) add(declarationOf(file));
    return [...mentioned.values()];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What a declaration imports or re-exports, also from within a type. */
const IMPORT = /(?:\bfrom |\bimport\(|^import )["']([^"']+)["']/gm;
const SOURCE = /((?:\bfrom |\bimport\(|^import )["']\.[^"']*)\.ts(["'])/gm;

function declarationOf(file: string): string {
  return file.replace(/\.[jt]s$/, '.d.ts');
}

function packageOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

function declare(root: URL, files: readonly string[], into: string): void {
  const project = fileURLToPath(root);
  const config = {
    extends: join(project, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      stripInternal: true,
      rootDir: project,
      outDir: into,
    },
    include: [],
    files: files.map((file) => join(project, file)),
  };
  writeFileSync(join(into, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(project, 'node_modules', 'typescript', 'bin', 'tsc');
  execFileSync(process.execPath, [tsc, '--project', into], { stdio: ['ignore', 'inherit', 'inherit'] });
}
