import { readdirSync } from 'node:fs';

import type { FunctionSettings, VercelJson } from './vercel-json.ts';

/** A file of `api/`, which the platform turns into a function. */
export interface FunctionFile {
  /** From the project's folder: `api/webhooks/[provider].ts`. */
  readonly file: string;
  /** The same without its ending, as the build's output names it. */
  readonly name: string;
  readonly settings: FunctionSettings;
}

/** The functions of a project, in the order of their names. */
export function functionsOf(root: URL, { functions }: Pick<VercelJson, 'functions'>): FunctionFile[] {
  return readdirSync(new URL('api', root), { recursive: true, encoding: 'utf8' })
    .map((path) => `api/${path}`)
    .filter((file) => file.endsWith('.ts') && !HIDDEN.test(file))
    .toSorted()
    .map((file) => ({ file, name: file.replace(/\.ts$/, ''), settings: settingsOf(file, functions) }));
}

/** Files and folders that begin like this are not functions. */
const HIDDEN = /\/[._]/;

function settingsOf(file: string, functions: VercelJson['functions']): FunctionSettings {
  const [, settings] = Object.entries(functions).find(([pattern]) => patternOf(pattern).test(file)) ?? [];
  return settings ?? {};
}

/** Our patterns contain only stars: two stand for any folders, one for a part of a name. */
function patternOf(glob: string): RegExp {
  const source = glob
    .replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll(/\*\*\/|\*/g, (stars) => (stars === '*' ? '[^/]*' : '(.*/)?'));
  return new RegExp(`^${source}$`);
}
