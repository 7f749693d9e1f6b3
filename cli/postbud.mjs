#!/usr/bin/env node
// `npx postbud`: needs nothing but Node, because it first installs missing packages, as the npm scripts do.
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const calledFrom = process.cwd();
process.chdir(fileURLToPath(new URL('../', import.meta.url)));
await import('./install.mjs');
process.chdir(calledFrom);

const { main } = await import('./bundle.mjs')
  .then(async ({ bundledMain }) => await import(await bundledMain()))
  .catch(fromSources);
await main();

/** Where no bundle can be made: esbuild is missing, or its folder is not to be written to. */
async function fromSources() {
  // tsx's hooks slow every import down: the packages with the most modules are loaded before.
  await Promise.all([import('zod'), import('drizzle-orm/sql'), import('wrap-ansi')]);
  const { register } = await import('tsx/esm/api');
  register();
  return await import('./main.ts');
}
