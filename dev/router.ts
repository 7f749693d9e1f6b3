import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';

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
 * Routes requests as the platform does: to the files of `public/`, to the files of `api/` by their paths, and through the rewrites of
 * `vercel.json`, which the platform's own library turns into routes.
 */
export function createRouter(root: URL): (request: Request) => Promise<Response | null> {
  const rewrites = readRewrites(root);
  const functions = functionFiles(root).map(functionRoute).toSorted(bySpecificity);
  const files = publicFiles(root);
  return async (request) => {
    const url = new URL(request.url);
    if (files.has(url.pathname)) return await fileResponse(new URL(`public${url.pathname}`, root));
    const direct = find(functions, url.pathname);
    const found = direct ?? find(functions, rewritten(rewrites, url.pathname));
    if (!found) return null;
    // The platform appends the path's parameters to the query, and keeps the path as it was.
    for (const [name, value] of Object.entries(found.parameters)) url.searchParams.append(name, value);
    const { default: handler } = functionFile.parse(await import(new URL(found.file, root).href));
    return await handler.fetch(url.href === request.url ? request : new Request(url, request));
  };
}

/** The paths that are files, and no function's. */
function publicFiles(root: URL): ReadonlySet<string> {
  const entries = readdirSync(new URL('public/', root), { recursive: true, withFileTypes: true });
  const folder = new URL('public', root).pathname;
  return new Set(
    entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => `${parentPath.replace(folder, '').replace(/\/$/, '')}/${name}`),
  );
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};

async function fileResponse(file: URL): Promise<Response> {
  const type = MEDIA_TYPES[extname(file.pathname)] ?? 'application/octet-stream';
  return new Response(await readFile(file), {
    headers: { 'content-type': type, 'cache-control': 'public, max-age=0, must-revalidate' },
  });
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
