import { z } from 'zod';

import type { OutputConfig } from '../build/routes.ts';

/**
 * The kinds of routes in this project. An unknown kind is an error, so that routing cannot differ from the platform's.
 */
const route = z.union([
  z.strictObject({ handle: z.enum(['filesystem', 'error', 'miss']) }),
  z.strictObject({ src: z.string(), headers: z.record(z.string(), z.string()), continue: z.literal(true) }),
  z.strictObject({ src: z.string(), dest: z.string(), check: z.literal(true) }),
  z.strictObject({ src: z.string(), status: z.literal(404), dest: z.string().optional() }),
]);

/** The targets of routes: paths of files, and names of functions such as `api/webhooks/[provider]`. */
export interface Places {
  readonly files: ReadonlySet<string>;
  readonly functions: ReadonlySet<string>;
}

/** The target of a path. */
export type Destination =
  | { readonly kind: 'file'; readonly path: string; readonly headers: Readonly<Record<string, string>> }
  | {
      readonly kind: 'function';
      readonly name: string;
      /** Parameters that the routes append to the query. */
      readonly query: URLSearchParams;
    }
  | { readonly kind: 'nothing' };

interface Rule {
  readonly src: RegExp;
  /** Undefined if nothing is here, regardless of later rules. */
  readonly dest: string | undefined;
}

/** Headers that the platform adds to answers of these paths. */
interface HeaderRule {
  readonly src: RegExp;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Follows the routes of a build's output: finds the file or function at the path itself, else at the first rule that
 * names one. A rule that names neither changes the path for later rules.
 *
 * @see https://vercel.com/docs/build-output-api/configuration#routes
 */
export function createRouting(
  routes: OutputConfig['routes'],
  places: Places,
): (pathname: string) => Destination {
  const { filesystem: rules, miss, headers } = phasesOf(routes);
  const at = (path: string) => placeAt(path, places) ?? follow(path, miss, (other) => placeAt(other, places));
  return (pathname) => {
    const query = new URLSearchParams();
    let path = pathname;
    let place = at(path);
    for (const { src, dest } of rules) {
      if (place) break;
      if (!src.test(path)) continue;
      if (dest === undefined) return { kind: 'nothing' };
      const [to = '', search] = path.replace(src, dest).split('?');
      for (const [name, value] of new URLSearchParams(search)) query.append(name, value);
      path = to;
      place = at(path);
    }
    if (!place) return { kind: 'nothing' };
    if (place.kind === 'function') return { ...place, query };
    const fitting = headers.filter(({ src }) => src.test(pathname)).map((rule) => rule.headers);
    return { ...place, headers: Object.assign({}, ...fitting) as Record<string, string> };
  };
}

function phasesOf(routes: OutputConfig['routes']) {
  const phases: Record<'filesystem' | 'error' | 'miss', Rule[]> = { filesystem: [], error: [], miss: [] };
  const headers: HeaderRule[] = [];
  let rules: Rule[] | undefined;
  for (const one of routes.map((raw) => route.parse(raw))) {
    if ('handle' in one) rules = phases[one.handle];
    else if ('headers' in one) headers.push({ src: new RegExp(one.src, 'i'), headers: one.headers });
    else if (!rules) throw new Error(`unsupported route before the files: ${one.src}`);
    // Case-insensitive, as on the platform.
    else rules.push({ src: new RegExp(one.src, 'i'), dest: one.dest });
  }
  return { ...phases, headers };
}

type Place =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'function'; readonly name: string };

function placeAt(path: string, { files, functions }: Places): Place | undefined {
  if (files.has(path)) return { kind: 'file', path };
  const name = [path.slice(1), `${path.slice(1)}/index`].find((candidate) => functions.has(candidate));
  return name === undefined ? undefined : { kind: 'function', name };
}

function follow<Found>(
  path: string,
  rules: readonly Rule[],
  find: (path: string) => Found | undefined,
): Found | undefined {
  for (const { src, dest } of rules) {
    const found = dest !== undefined && src.test(path) ? find(path.replace(src, dest)) : undefined;
    if (found) return found;
  }
  return undefined;
}
