import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

import { bundle } from './bundle.ts';
import type { Bundle } from './bundle.ts';
import { functionsOf } from './functions.ts';
import type { FunctionFile } from './functions.ts';
import { outputConfig } from './routes.ts';
import { readVercelJson } from './vercel-json.ts';

/** One function of the output. */
export interface BuiltFunction extends FunctionFile {
  readonly bundle: Bundle;
}

/** The platform's folder for the output of a build. */
export const OUTPUT = '.vercel/output/';

/**
 * Builds the project into `.vercel/output`, which the platform deploys without building.
 *
 * @returns the functions, in the order of their names.
 * @see https://vercel.com/docs/build-output-api
 */
export async function writeOutput(root: URL): Promise<BuiltFunction[]> {
  const vercelJson = readVercelJson(root);
  if (vercelJson.schedules || vercelJson.daemons)
    throw new Error('vercel.json: schedules and daemons are not part of this output; deploy from Git');
  const functions = functionsOf(root, vercelJson);
  const output = new URL(OUTPUT, root);
  rmSync(output, { recursive: true, force: true });
  write(output, 'config.json', json(outputConfig(vercelJson, functions)));
  const publicFiles = new URL('public/', root);
  if (existsSync(publicFiles))
    cpSync(fileURLToPath(publicFiles), fileURLToPath(new URL('static/', output)), { recursive: true });
  const bundles = await bundle(
    root,
    functions.map(({ file }) => file),
  );
  const built = functions.map((of, index) => ({ ...of, bundle: bundles[index]! }));
  for (const { name, settings, bundle } of built) {
    const folder = `functions/${name}.func/`;
    write(output, `${folder}${name}.mjs`, bundle.code);
    for (const [file, code] of Object.entries(bundle.beside))
      write(output, `${folder}${posix.dirname(name)}/${file}`, code);
    write(output, `${folder}.vc-config.json`, json(functionConfig(name, settings, vercelJson.regions)));
  }
  return built;
}

/** `.vc-config.json`. @see https://vercel.com/docs/build-output-api/primitives#node.js-config */
function functionConfig(name: string, settings: FunctionFile['settings'], regions?: readonly string[]) {
  return {
    runtime: 'nodejs24.x',
    handler: `${name}.mjs`,
    launcherType: 'Nodejs',
    // Our functions take a Request and return a Response, so they need no helpers on Node's objects.
    shouldAddHelpers: false,
    supportsResponseStreaming: true,
    ...settings,
    ...(regions && { regions }),
  };
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function write(output: URL, path: string, text: string): void {
  const file = `${fileURLToPath(output)}${path}`;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
