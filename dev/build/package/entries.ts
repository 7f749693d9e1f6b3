import { readFileSync } from 'node:fs';

import { z } from 'zod';

/** What components elsewhere run: more than this repository, whose package.json names the version of its deployments. */
export const OLDEST_NODE = '20.19';

/** The parts of this repository's `package.json` that the package's own is made from. */
const packageJson = z.object({
  name: z.string(),
  version: z.string(),
  description: z.string(),
  license: z.string(),
  exports: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()),
  devDependencies: z.record(z.string(), z.string()),
});
export type PackageJson = z.output<typeof packageJson>;

/** @param root the project's folder. */
export function readPackageJson(root: URL): PackageJson {
  return packageJson.parse(JSON.parse(readFileSync(new URL('package.json', root), 'utf8')));
}

/** What a component may import from the package: `emit` from `lib/elsewhere/emit/emit.ts`, and so on. */
export function entriesOf({ exports }: PackageJson): { readonly name: string; readonly file: string }[] {
  return Object.entries(exports).map(([name, file]) => ({
    name: name.replace(/^\.\//, ''),
    file: file.replace(/^\.\//, ''),
  }));
}

/** Packages that a component installs itself, or with this one; all others are in the package's own files. */
export const INSTALLED = { zod: 'dependencies', '@electric-sql/pglite': 'devDependencies' } as const;
