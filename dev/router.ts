import { readdirSync, readFileSync } from 'node:fs';

import { getTransformedRoutes } from '@vercel/routing-utils';
import { z } from 'zod';

const vercelJson = z.object({
  rewrites: z.array(z.object({ source: z.string(), destination: z.string() })).default([]),
});
const rewriteRoute = z.object({ src: z.string(), dest: z.string() });

/** What a function file exports: a Web-standard handler. */
const functionFile = z.object({
  default: z.object({ fetch: z.custom<(request: Request) => Promise<Response>>() }),
});

interface FunctionRoute {
  readonly pattern: RegExp;
  readonly parameters: readonly string[];
  readonly file: string;
}

/**
 * Routes requests as the platform does: to the files of `api/` by their paths, and through the rewrites of
 * `vercel.json`, which the platform's own library turns into routes.
 */
export function createRouter(root: URL): (request: Request) => Promise<Response | null> {
  const rewrites = readRewrites(root);
  const functions = functionFiles(root).map(functionRoute).toSorted(bySpecificity);
  return async (request) => {
    const url = new URL(request.url);
    const direct = find(functions, url.pathname);
    const found = direct ?? find(functions, rewritten(rewrites, url.pathname));
    if (!found) return null;
    // The platform appends the path's parameters to the query, and keeps the path as it was.
    for (const [name, value] of Object.entries(found.parameters)) url.searchParams.append(name, value);
    const { default: handler } = functionFile.parse(await import(new URL(found.file, root).href));
    return await handler.fetch(url.href === request.url ? request : new Request(url, request));
  };
}

function readRewrites(root: URL): { src: RegExp; dest: string }[] {
  const { rewrites } = vercelJson.parse(JSON.parse(readFileSync(new URL('vercel.json', root), 'utf8')));
  const { routes, error } = getTransformedRoutes({ rewrites });
  if (error) throw new Error(`vercel.json: ${error.message}`);
  return (routes ?? []).flatMap((route) => {
    const rewrite = rewriteRoute.safeParse(route);
    return rewrite.success ? [{ src: new RegExp(rewrite.data.src), dest: rewrite.data.dest }] : [];
  });
}

function rewritten(rewrites: readonly { src: RegExp; dest: string }[], pathname: string): string {
  const rewrite = rewrites.find(({ src }) => src.test(pathname));
  return rewrite ? pathname.replace(rewrite.src, rewrite.dest) : pathname;
}

function functionFiles(root: URL): string[] {
  return readdirSync(new URL('api/', root), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `api/${file.replaceAll('\\', '/')}`);
}

function functionRoute(file: string): FunctionRoute {
  const path = file.replace(/\.ts$/, '').replace(/\/index$/, '');
  const parameters = Array.from(path.matchAll(/\[(\w+)\]/g), ([, name]) => name!);
  return { pattern: new RegExp(`^/${path.replaceAll(/\[\w+\]/g, '([^/]+)')}$`), parameters, file };
}

/** Files with a name of their own before those that stand for many. */
function bySpecificity(one: FunctionRoute, other: FunctionRoute): number {
  return one.parameters.length - other.parameters.length;
}

function find(functions: readonly FunctionRoute[], pathname: string) {
  for (const { pattern, parameters, file } of functions) {
    const match = pattern.exec(pathname);
    if (match)
      return {
        file,
        parameters: Object.fromEntries(parameters.map((name, index) => [name, match[index + 1]!])),
      };
  }
  return null;
}
