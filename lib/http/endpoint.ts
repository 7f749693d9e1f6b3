import { randomUUID } from 'node:crypto';

import { InvalidConfiguration } from '../config.ts';
import { log, logError } from '../log.ts';
import { methodNotAllowed, Problem, problemResponse, unavailable } from './problem.ts';

/** What an endpoint is: which methods it has, and the one capability that answers them. */
export interface EndpointDeclaration {
  /** `HEAD` comes with `GET`. */
  readonly methods: readonly ('GET' | 'POST')[];
  /** May throw: a `Problem` is answered as it stands, anything else as a 500 that says nothing. */
  readonly handle: (request: Request, context: RequestContext) => Promise<Response>;
}

interface RequestContext {
  /** On the answer, in its problem if it is one, and in every log line about the request. */
  readonly requestId: string;
}

/** What the platform calls: the default export of a file in `api/`. */
export interface Endpoint {
  fetch(request: Request): Promise<Response>;
}

/**
 * Makes a function of the platform out of a declaration.
 *
 * It always answers: `fetch` never rejects. Every answer has an `x-request-id` and, unless the handler decides
 * otherwise, `cache-control: no-store`; every request leaves one line in the log.
 */
export function endpoint(declaration: EndpointDeclaration): Endpoint {
  return {
    async fetch(request) {
      const startedAt = performance.now();
      const requestId = requestIdOf(request.headers);
      const response = await answer(declaration, request, requestId);
      log('info', 'request', {
        method: request.method,
        path: pathOf(request.url),
        status: response.status,
        durationMs: Math.round(performance.now() - startedAt),
        requestId,
      });
      return finished(response, request.method, requestId);
    },
  };
}

async function answer(
  declaration: EndpointDeclaration,
  request: Request,
  requestId: string,
): Promise<Response> {
  try {
    requireMethod(declaration.methods, request.method);
    return await declaration.handle(request, { requestId });
  } catch (error) {
    return problemResponse(problemOf(error, requestId), requestId);
  }
}

function requireMethod(methods: readonly string[], method: string): void {
  const allowed = methods.flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : name));
  if (!allowed.includes(method)) throw methodNotAllowed(allowed);
}

/** Nobody is going to correct a wrong variable within seconds. */
const MISCONFIGURED_RETRY_SECONDS = 60;

function problemOf(error: unknown, requestId: string): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidConfiguration) {
    log('error', 'the environment has a wrong value', { variable: error.variable, requestId });
    return unavailable('misconfigured', 'The server is not set up correctly.', MISCONFIGURED_RETRY_SECONDS);
  }
  logError('a request failed', error, { requestId });
  return new Problem(
    500,
    'internal_error',
    'Something went wrong here. The request id finds it in our logs.',
  );
}

/** What a proxy, a caller or the platform names the request, if it is safe to repeat in headers and logs. */
function requestIdOf(headers: Headers): string {
  const offered = [headers.get('x-request-id'), headers.get('x-vercel-id')];
  return offered.find((id) => id !== null && /^[A-Za-z0-9._:-]{1,128}$/.test(id)) ?? randomUUID();
}

/** Without the query, which is the caller's own and may hold anything; the length of a URL is the caller's too. */
function pathOf(url: string): string {
  return new URL(url).pathname.slice(0, 200);
}

/** A copy, since the headers of some responses cannot be changed. A stream passes through unread. */
function finished(response: Response, method: string, requestId: string): Response {
  const headers = new Headers(response.headers);
  headers.set('x-request-id', requestId);
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  const body = method === 'HEAD' ? null : response.body;
  return new Response(body, { status: response.status, statusText: response.statusText, headers });
}
