import { readFile } from 'node:fs/promises';

import { serve } from 'srvx';

import { asksForThisMachine, NOT_LOCAL } from './local-names.ts';

const FILES: Readonly<Record<string, { readonly name: string; readonly type: string }>> = {
  '/': { name: 'index.html', type: 'text/html; charset=utf-8' },
  '/takk': { name: 'takk.html', type: 'text/html; charset=utf-8' },
  '/site.css': { name: 'site.css', type: 'text/css; charset=utf-8' },
  '/site.js': { name: 'site.js', type: 'text/javascript; charset=utf-8' },
};

/**
 * Serves the example page on a port of its own, and so from another origin, like a marketing site.
 *
 * @param api the origin of the functions, which the page's forms are sent to. As in a site's build, no visitor chooses it.
 */
export async function serveSite(
  port: number,
  api: string,
): Promise<{ url: string; close: () => Promise<void> }> {
  const server = serve({
    port,
    hostname: 'localhost',
    silent: true,
    fetch: async (request) => {
      const headers = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' };
      if (!asksForThisMachine(request.runtime?.node?.req))
        return new Response(NOT_LOCAL, { status: 421, headers });
      const file = FILES[new URL(request.url).pathname];
      if (!file) return new Response('Not found', { status: 404, headers });
      const content = await readFile(new URL(`site/${file.name}`, import.meta.url), 'utf8');
      return new Response(content.replaceAll('%API%', api), {
        headers: { ...headers, 'content-type': file.type },
      });
    },
  });
  await server.ready();
  return { url: `http://localhost:${new URL(server.url ?? '').port}`, close: () => server.close(true) };
}
