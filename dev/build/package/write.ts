import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { bytesOf, codeOf } from './code.ts';
import { entriesOf, INSTALLED, readPackageJson } from './entries.ts';
import type { PackageJson } from './entries.ts';
import { typesOf } from './types.ts';

export interface BuiltPackage {
  /** The path of the tarball. */
  readonly tarball: string;
  /** The entries, and the bytes that importing each loads from the package. */
  readonly entries: readonly { readonly name: string; readonly bytes: number }[];
}

/**
 * Writes the package that components in other repositories install: the entries as JavaScript and types, and the
 * migrations for `postbud/testing`.
 *
 * @param root the project's folder.
 * @param into the folder to write to. The package is also there as a folder, `package`.
 */
export async function writePackage(root: URL, into: string): Promise<BuiltPackage> {
  const packageJson = readPackageJson(root);
  const entries = entriesOf(packageJson);
  const files = entries.map(({ file }) => file);
  const installed = Object.keys(INSTALLED);
  const folder = join(into, 'package');
  rmSync(folder, { recursive: true, force: true });
  const code = await codeOf(root, files, installed);
  for (const { path, code: text } of code) write(folder, path, text);
  for (const { path, text } of typesOf(root, files, installed)) write(folder, path, text);
  copyMigrations(root, folder);
  write(folder, 'package.json', `${JSON.stringify(manifestOf(packageJson), null, 2)}\n`);
  cpSync(new URL('dev/build/package/README.md', root), join(folder, 'README.md'));
  const packed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', '..'], {
    cwd: folder,
    encoding: 'utf8',
  });
  return {
    tarball: join(into, packed.trim().split('\n').at(-1)!),
    entries: entries.map(({ name, file }) => ({ name, bytes: bytesOf(code, file.replace(/\.ts$/, '.js')) })),
  };
}

/** The package's own `package.json`. */
function manifestOf({ name, version, license, engines, ...own }: PackageJson) {
  return {
    name,
    version,
    description: 'Emits events to Postbud, receives them, and tests what does, in a repository of its own.',
    license,
    type: 'module',
    sideEffects: false,
    engines,
    exports: Object.fromEntries(
      entriesOf({ name, version, license, engines, ...own }).map((entry) => {
        const path = `./${entry.file.replace(/\.ts$/, '')}`;
        return [`./${entry.name}`, { types: `${path}.d.ts`, default: `${path}.js` }];
      }),
    ),
    dependencies: { zod: own.dependencies['zod'] },
    peerDependencies: { '@electric-sql/pglite': own.devDependencies['@electric-sql/pglite'] },
    peerDependenciesMeta: { '@electric-sql/pglite': { optional: true } },
  };
}

/** The statements and their order, without the descriptions of tables from which Drizzle makes the next migration. */
function copyMigrations(root: URL, folder: string): void {
  const from = new URL('drizzle/migrations/', root);
  const statements = readdirSync(from).filter((name) => name.endsWith('.sql'));
  for (const name of [...statements, 'meta/_journal.json']) {
    cpSync(new URL(name, from), join(folder, 'drizzle/migrations', name));
  }
}

function write(folder: string, path: string, text: string): void {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
