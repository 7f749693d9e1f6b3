import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};

/** The URL paths of the files of a folder. */
export function pathsOf(folder: URL): ReadonlySet<string> {
  if (!existsSync(folder)) return new Set();
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return new Set(
    entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => `/${relative(fileURLToPath(folder), join(parentPath, name))}`),
  );
}

/** A file of that folder, as the platform serves it. @param headers that `vercel.json` gives it. */
export async function fileResponse(
  folder: URL,
  { path, headers }: { readonly path: string; readonly headers: Readonly<Record<string, string>> },
): Promise<Response> {
  const type = MEDIA_TYPES[extname(path)] ?? 'application/octet-stream';
  return new Response(await readFile(new URL(path.slice(1), folder)), {
    headers: { ...headers, 'content-type': type, 'cache-control': 'public, max-age=0, must-revalidate' },
  });
}
