import { readdirSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { parseArgs } from 'node:util';

import { serve } from 'srvx';
import type { ServerRequest } from 'srvx';

import type { OutputConfig } from '../build/routes.ts';
import type { FunctionSettings } from '../build/vercel-json.ts';
import { asksForThisMachine, NOT_LOCAL } from '../local-names.ts';
import { fileResponse, pathsOf } from '../platform/files.ts';
import { isForbidden, loadFunction, urlFor } from '../platform/function-file.ts';
import { createRouting } from '../platform/routing.ts';
import { startCrons } from './crons.ts';
import { provideRequestContext } from './request-context.ts';

/**
 * Serves a build's output as the platform does: its routes, its files, and its functions, each imported at its first
 * request, with the context, the headers and the limits that the platform gives them.
 *
 * It is bundled into one file and runs beside a copy of the output, outside the project, so that a module that is
 * missing from a bundle is missing here too.
 *
 * `node server.mjs --port 0 [--neon host:port] [--beside url] [--crons]`; it ends when its input does.
 */
const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    /** The target of connections to Neon's databases. */
    neon: { type: 'string' },
    /** The server of `/dev/…`, which is not part of the output. */
    beside: { type: 'string' },
    crons: { type: 'boolean', default: false },
  },
});

const output = new URL('output/', import.meta.url);
const config = readJson('config.json') as OutputConfig;
const names = readdirSync(new URL('functions/', output), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.func'))
  .map((path) => path.slice(0, -'.func'.length));
const statics = new URL('static/', output);
const destinationOf = createRouting(config.routes, { files: pathsOf(statics), functions: new Set(names) });
const background = provideRequestContext();
if (values.neon !== undefined) redirectNeon(values.neon);

const server = serve({
  port: Number(values.port),
  hostname: 'localhost',
  silent: true,
  // The server handles signals itself.
  gracefulShutdown: false,
  fetch: async (request) => {
    if (isForbidden(request)) return platformError(405, 'INVALID_REQUEST_METHOD');
    const url = new URL(request.url);
    if (values.beside !== undefined && url.pathname.startsWith('/dev/')) {
      if (!asksForThisMachine(request.runtime?.node?.req)) return new Response(NOT_LOCAL, { status: 421 });
      return await fetch(new URL(url.pathname + url.search, values.beside), forwardedInit(request));
    }
    const destination = destinationOf(url.pathname);
    switch (destination.kind) {
      case 'file':
        return await fileResponse(statics, destination);
      case 'function':
        return await invoke(destination.name, request, urlFor(request, destination.query));
      case 'nothing':
        return platformError(404, 'NOT_FOUND');
    }
  },
});
await server.ready();
const url = `http://localhost:${new URL(server.url ?? '').port}`;
console.log(`The artefact is at ${url}`);
if (values.crons) startCrons(config.crons, url, process.env['CRON_SECRET'] ?? '');
process.stdin.once('end', () => void end()).resume();
process.once('SIGTERM', () => void end());

/** Work after an answer gets half a second, as on the platform. */
async function end(): Promise<void> {
  await Promise.race([background.settled(), new Promise((resolve) => setTimeout(resolve, 500))]);
  process.exit();
}

/** The platform's limit for a request's body. */
const BODY_LIMIT_BYTES = 4.5 * 1024 * 1024;

async function invoke(name: string, request: ServerRequest, asked: URL): Promise<Response> {
  if (Number(request.headers.get('content-length') ?? 0) > BODY_LIMIT_BYTES)
    return platformError(413, 'FUNCTION_PAYLOAD_TOO_LARGE');
  const { handler, maxDuration = 300, supportsCancellation } = settingsOf(name);
  const init = { ...forwardedInit(request), headers: headersOf(request) };
  const invoked = new Request(asked, supportsCancellation ? { ...init, signal: request.signal } : init);
  try {
    const handle = await loadFunction(new URL(`functions/${name}.func/${handler}`, output));
    const tooLong = new Promise<Response>((resolve) => {
      setTimeout(resolve, maxDuration * 1000, platformError(504, 'FUNCTION_INVOCATION_TIMEOUT')).unref();
    });
    return await Promise.race([background.run(() => handle(invoked)), tooLong]);
  } catch (error) {
    console.error(error);
    return platformError(500, 'FUNCTION_INVOCATION_FAILED');
  }
}

function settingsOf(name: string) {
  const settings = readJson(`functions/${name}.func/.vc-config.json`);
  return settings as FunctionSettings & { readonly handler: string };
}

/** Replaces headers about the caller, as the platform does. */
function headersOf(request: ServerRequest): Headers {
  const headers = new Headers(request.headers);
  const ip = request.ip ?? '127.0.0.1';
  const { host, protocol } = new URL(request.url);
  for (const name of ['x-forwarded-for', 'x-real-ip', 'x-vercel-forwarded-for']) headers.set(name, ip);
  headers.set('x-forwarded-host', host);
  headers.set('x-forwarded-proto', protocol.slice(0, -1));
  headers.set('x-vercel-id', `fra1::${crypto.randomUUID()}`);
  return headers;
}

function forwardedInit(request: ServerRequest): RequestInit {
  const { method, headers } = request;
  const incoming = request.runtime?.node?.req;
  if (!incoming || method === 'GET' || method === 'HEAD') return { method, headers };
  return { method, headers, body: ReadableStream.from(bytesOf(incoming)), duplex: 'half' };
}

/**
 * A body that may be left unread: the rest is discarded, so that the answer and the next request can pass. With Node's
 * own stream, a chunk that arrives after the function stopped reading would crash the process.
 */
async function* bytesOf(incoming: Readable): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of incoming.iterator({ destroyOnReturn: false })) yield chunk as Uint8Array;
  } finally {
    incoming.resume();
  }
}

function platformError(status: number, code: string): Response {
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-vercel-error': code };
  return new Response(`${code}\n`, { status, headers });
}

/** Redirects connections to Neon's hosts to the local proxy. */
function redirectNeon(address: string): void {
  globalThis.WebSocket = class extends WebSocket {
    constructor(...[url, protocols]: ConstructorParameters<typeof WebSocket>) {
      super(/^wss:\/\/[^/]+\.neon\.tech\//.test(String(url)) ? `ws://${address}/` : url, protocols);
    }
  };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(new URL(path, output), 'utf8'));
}
