import { getTransformedRoutes } from '@vercel/routing-utils';
import type { Route } from '@vercel/routing-utils';

import type { FunctionFile } from './functions.ts';
import type { VercelJson } from './vercel-json.ts';

/** `config.json` of the build's output. @see https://vercel.com/docs/build-output-api/configuration */
export interface OutputConfig {
  readonly version: 3;
  readonly routes: readonly Route[];
  readonly crons: VercelJson['crons'];
}

/**
 * Writes the platform's routing table, as its own build would; `npm run check:vercel` compares the two.
 *
 * The platform's own library converts headers and rewrites. The rest follows its convention for a folder `api/`.
 */
export function outputConfig(
  { headers, rewrites, crons }: VercelJson,
  functions: readonly FunctionFile[],
): OutputConfig {
  const { routes, error } = getTransformedRoutes({ headers, rewrites });
  if (error) throw new Error(`vercel.json: ${error.message}`);
  return {
    version: 3,
    routes: [
      ...(routes ?? []),
      ...functions.flatMap(dynamicRoute),
      { src: '^/api(/.*)?$', status: 404 },
      { handle: 'error' },
      { status: 404, src: '^(?!/api).*$', dest: '/404.html' },
      { handle: 'miss' },
      { src: String.raw`^/api/(.+)(?:\.(?:ts))$`, dest: '/api/$1', check: true },
    ],
    crons,
  };
}

/** The route of a file such as `[name].ts`: the value of `name` goes into the query. */
function dynamicRoute({ name }: FunctionFile): Route[] {
  const parameters = Array.from(name.matchAll(/\[(\w+)\]/g), ([, parameter]) => parameter!);
  if (parameters.length === 0) return [];
  const query = parameters.map((parameter, index) => `${parameter}=$${index + 1}`).join('&');
  return [{ src: `^/${name.replaceAll(/\[\w+\]/g, '([^/]+)')}$`, dest: `/${name}?${query}`, check: true }];
}
