import { statSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { catalogVersions } from '../../descriptions.ts';
import { writePackage } from './write.ts';
import type { Registry } from './write.ts';

/**
 * `npm run package`: writes the package that components in other repositories install. With `--name` and `--registry` it
 * may be published there, and nowhere else.
 */
const root = new URL('../../../', import.meta.url);
requireOwnVersion();
const registry = readRegistry();
const { tarball, entries, name } = await writePackage(root, fileURLToPath(new URL('dist/', root)), registry);
const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(0)} kB`.padStart(8);
for (const entry of entries) console.log(`  ${name}/${entry.name.padEnd(8)} ${kilobytes(entry.bytes)}`);
const file = relative(process.cwd(), tarball);
console.log(`\n${file}, ${kilobytes(statSync(tarball).size).trim()}`);
console.log(
  registry === null
    ? 'Private: npm publish refuses it. For a registry of your own: npm run package -- --name @you/postbud --registry https://…'
    : `To publish it in ${registry.url}: npm publish ${file}`,
);

/** A version stands for one catalog. */
function requireOwnVersion(): void {
  const { kept, current } = catalogVersions();
  if (kept.fingerprint === current.fingerprint) return;
  fail(`The catalog is not that of version ${kept.version}: npm run descriptions gives it the next one.`);
}

function readRegistry(): Registry | null {
  const options = { name: { type: 'string' }, registry: { type: 'string' } } as const;
  const { values } = parseArgs({ options });
  const { name, registry: url } = values;
  if (name === undefined && url === undefined) return null;
  if (name === undefined || !/^@[a-z0-9][\w.-]*\/[a-z0-9][\w.-]*$/.test(name))
    return fail(
      `--name: expected a name in a scope of yours, for example @bergen/postbud, not ${name ?? 'none'}`,
    );
  if (url === undefined || !URL.canParse(url) || new URL(url).protocol !== 'https:')
    return fail(`--registry: expected its address, for example https://npm.example.no, not ${url ?? 'none'}`);
  return { name, url };
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
