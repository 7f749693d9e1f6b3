import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { bytesOf, codeOf } from './code.ts';
import { entriesOf, INSTALLED, OLDEST_NODE, readPackageJson } from './entries.ts';
import type { PackageJson } from './entries.ts';
import { typesOf } from './types.ts';
import { vectors } from './vectors.ts';

/** Where the package may be published, and the name that it has there. */
export interface Registry {
  readonly name: string;
  readonly url: string;
}

export interface BuiltPackage {
  readonly name: string;
  /** The path of the tarball. */
  readonly tarball: string;
  /** The entries, and the bytes that importing each loads from the package. */
  readonly entries: readonly { readonly name: string; readonly bytes: number }[];
}

/**
 * Writes the package that components in other repositories install: the entries as JavaScript and types, and the
 * database's tables and functions for `postbud/testing`.
 *
 * @param root the project's folder.
 * @param into the folder to write to. The package is also there as a folder, `package`.
 * @param registry null makes a private package, which npm does not publish.
 */
export async function writePackage(
  root: URL,
  into: string,
  registry: Registry | null = null,
): Promise<BuiltPackage> {
  const packageJson = readPackageJson(root);
  const name = registry?.name ?? packageJson.name;
  const entries = entriesOf(packageJson);
  const files = entries.map(({ file }) => file);
  const installed = Object.keys(INSTALLED);
  const folder = join(into, 'package');
  rmSync(folder, { recursive: true, force: true });
  const code = await codeOf(root, files, installed);
  const naming = (text: string) => text.replaceAll(OWN_NAME, name);
  for (const { path, code: text } of code) write(folder, path, naming(text));
  for (const { path, text } of typesOf(root, files, installed)) write(folder, path, naming(text));
  copySchema(root, folder);
  write(folder, 'package.json', `${JSON.stringify(manifestOf(root, packageJson, registry), null, 2)}\n`);
  cpSync(new URL('dev/build/package/LICENSE', root), join(folder, 'LICENSE'));
  const document = (from: string) => naming(readFileSync(new URL(from, root), 'utf8'));
  write(folder, 'README.md', document('dev/build/package/README.md'));
  write(folder, 'CHANGELOG.md', document('docs/changelog.md'));
  // Its links to the bus's other documents would lead nowhere.
  write(
    folder,
    'docs/elsewhere.md',
    document('docs/elsewhere.md')
      .replaceAll(LINK_TO_DOCUMENT, '$1')
      .replaceAll('(#postbud', `(#${name.replaceAll(/[@/]/g, '')}`),
  );
  write(folder, 'vectors.json', `${JSON.stringify({ vectors }, null, 2)}\n`);
  const packed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', '..'], {
    cwd: folder,
    encoding: 'utf8',
  });
  return {
    name,
    tarball: join(into, packed.trim().split('\n').at(-1)!),
    entries: entries.map(({ name, file }) => ({ name, bytes: bytesOf(code, file.replace(/\.ts$/, '.js')) })),
  };
}

/** The name of this package where it is imported, installed or titled, and nowhere else that `postbud` stands. */
const OWN_NAME = /(?<=^# |["'`*[ ])postbud(?=\/(?:emit|outbox|receive|catalog|testing)\b| package\b|`|$)/gm;

const LINK_TO_DOCUMENT = /\[([^\]]+)\]\((?!#|https?:)[^)]+\)/g;

/** The package's own `package.json`. */
function manifestOf(root: URL, packageJson: PackageJson, registry: Registry | null) {
  const { name, version, license, ...own } = packageJson;
  const { stdout } = spawnSync('git', ['config', '--get', 'remote.origin.url'], {
    cwd: root,
    encoding: 'utf8',
  });
  // A clone of a folder has that folder's path, which says nothing elsewhere.
  const origin = /^(?:https|ssh|git):\/\/\S+|^git@\S+/.exec(stdout ?? '')?.[0];
  return {
    ...(registry === null
      ? { name, private: true }
      : { name: registry.name, publishConfig: { registry: registry.url, access: 'restricted' } }),
    version,
    description: 'Emits events to Postbud, receives them, and tests what does, in a repository of its own.',
    license,
    ...(origin !== undefined && { repository: { type: 'git', url: origin } }),
    type: 'module',
    sideEffects: false,
    engines: { node: `>=${OLDEST_NODE}` },
    exports: Object.fromEntries(
      entriesOf(packageJson).map((entry) => {
        const path = `./${entry.file.replace(/\.ts$/, '')}`;
        return [`./${entry.name}`, { types: `${path}.d.ts`, default: `${path}.js` }];
      }),
    ),
    dependencies: { zod: own.dependencies['zod'] },
    peerDependencies: { '@electric-sql/pglite': own.devDependencies['@electric-sql/pglite'] },
    peerDependenciesMeta: { '@electric-sql/pglite': { optional: true } },
  };
}

/** The statements and their order, without the description of the tables from which Drizzle makes the next migration. */
function copySchema(root: URL, folder: string): void {
  for (const path of ['migrations', 'functions'])
    cpSync(new URL(`drizzle/${path}`, root), join(folder, 'drizzle', path), {
      recursive: true,
      filter: (name) => !name.endsWith('_snapshot.json'),
    });
}

function write(folder: string, path: string, text: string): void {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
