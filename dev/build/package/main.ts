import { statSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

import { writePackage } from './write.ts';

/** `npm run package`: writes the package that components in other repositories install. */
const root = new URL('../../../', import.meta.url);
const { tarball, entries } = await writePackage(root, fileURLToPath(new URL('dist/', root)));
const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(0)} kB`.padStart(8);
for (const { name, bytes } of entries) console.log(`  postbud/${name.padEnd(8)} ${kilobytes(bytes)}`);
console.log(`\n${relative(fileURLToPath(root), tarball)}, ${kilobytes(statSync(tarball).size).trim()}`);
