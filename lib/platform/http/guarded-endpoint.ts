import { randomUUID } from 'node:crypto';

import type { z } from 'zod';

import { InvalidConfiguration } from '../config.ts';
import { FUNCTION_LIFE_MS, withinLife } from '../lifetime.ts';
import { log, logError } from '../log.ts';
import { inRequestSpan } from '../telemetry/request.ts';
import { publicTypes } from './body.ts';
import { corsHeaders, preflightResponse, requireOrigin } from './cors.ts';
import type { Cors } from './cors.ts';
import { Problem, problemResponse } from './problem.ts';
import { readContent, validated } from './validated.ts';
import { countVisit } from './visit.ts';
import type { Visit, VisitorLimits } from './visit.ts';

/** The methods and guards of an endpoint, and the handler of requests that pass them. */
export type EndpointDeclaration<Body> = DeclarationWithBody<Body> | DeclarationWithoutBody;

interface DeclarationWithBody<Body> extends Guards {
  readonly body: BodyDeclaration<Body>;
  readonly handle: Handle<Body>;
}

interface DeclarationWithoutBody extends Guards {
  readonly body?: undefined;
  readonly handle: Handle<undefined>;
}

interface Guards {
  /**
   * The path as declared, for example `/webhooks/:provider`. Logs and traces name requests by it, since the actual
   * path is the caller's and may contain anything.
   */
  readonly route?: string;
  /** `GET` implies `HEAD`. An endpoint with a body has only `POST`. */
  readonly methods: readonly ('GET' | 'POST')[];
  /**
   * Callers do not identify themselves, and their data may be stored. So the request gets an id and a trace of our own,
   * whatever `x-request-id` and `traceparent` say: both end up in the audit trail.
   *
   * Other endpoints keep the caller's id, if it is a UUID, and trace, so that a provider or an operator finds the request
   * in our logs. Those store data only for callers with a secret or a token.
   */
  readonly isAnonymous?: boolean;
  /** The function's `maxDuration`, if not the usual one; see `lib/platform/lifetime.ts`. */
  readonly lifeMs?: number;
  /** The origins whose pages may call. Without it answers have no CORS headers, and `OPTIONS` is a 405. */
  readonly cors?: () => Cors;
  /** The limits of each visitor. */
  readonly visitorLimits?: () => VisitorLimits;
  /** Runs before all other guards. @throws Problem to refuse the request. */
  readonly guard?: (request: Request) => void;
  readonly problemAnswer?: ProblemAnswer;
}

/** Writes a problem for people, instead of as `application/problem+json`. */
export type ProblemAnswer = (
  problem: Problem,
  requestId: string,
  request: Request,
) => Response | Promise<Response>;

interface BodyDeclaration<Body> {
  readonly schema: z.ZodType<Body>;
  /** The longest accepted body, as sent. */
  readonly limitBytes: number;
  /** Also accepts `application/x-www-form-urlencoded` and `multipart/form-data`, as an object of strings. */
  readonly forms?: boolean;
}

/** May throw: a `Problem` becomes the answer, any other error a 500 without details. */
export type Handle<Body> = (request: Request, context: RequestContext<Body>) => Promise<Response>;

interface RequestContext<Body> {
  /** Appears in the answer's headers, in its problem and in every log line about the request. */
  readonly requestId: string;
  /** The parsed body. The request's stream has been read. */
  readonly body: Body;
  /** Stands for the caller's address and can be stored; empty for endpoints without visitor limits. */
  readonly visitor: string;
  /** The request as its visitor's limits counted it. */
  readonly visit: Visit;
}

/** The default export of a file in `api/`, which the platform calls. */
export interface Endpoint {
  fetch(request: Request): Promise<Response>;
}

/**
 * Makes a platform function from methods, guards and a handler.
 *
 * `fetch` always answers and never rejects. Every answer has an `x-request-id`, `x-content-type-options: nosniff` and,
 * unless the handler sets another, `cache-control: no-store`. Every request leaves one log line and a span. The guards
 * run before the handler in this order: the declaration's own, 405, 403, 415, 413, 429, 400.
 */
export function guardedEndpoint<Body>(declaration: DeclarationWithBody<Body>): Endpoint;
export function guardedEndpoint(declaration: DeclarationWithoutBody): Endpoint;
export function guardedEndpoint<Body>(declaration: EndpointDeclaration<Body>): Endpoint {
  return {
    async fetch(request) {
      const startedAt = performance.now();
      const { route, isAnonymous = false, lifeMs = FUNCTION_LIFE_MS } = declaration;
      const requestId = isAnonymous ? randomUUID() : requestIdOf(request.headers);
      const answerInSpan = async () => {
        const guarded = new Headers();
        const response = await answer(declaration, request, requestId, guarded);
        log('info', 'request', {
          method: request.method,
          ...(route === undefined ? { path: pathOf(request.url) } : { route }),
          status: response.status,
          durationMs: Math.round(performance.now() - startedAt),
          requestId,
        });
        return withCommonHeaders(response, request.method, requestId, guarded);
      };
      return await withinLife(lifeMs, () =>
        inRequestSpan({ request, route, requestId, isAnonymous }, answerInSpan),
      );
    },
  };
}

/** @param guarded receives the headers that guards add to any answer. */
async function answer<Body>(
  declaration: EndpointDeclaration<Body>,
  request: Request,
  requestId: string,
  guarded: Headers,
): Promise<Response> {
  try {
    const { visitorLimits } = declaration;
    const methods = methodsOf(declaration);
    // Before the origins are read: the answer differs by origin, also if their variable is wrong.
    if (declaration.cors) guarded.set('vary', 'Origin');
    const cors = declaration.cors?.();
    if (cors === 'any') guarded.delete('vary');
    if (cors)
      for (const [name, value] of Object.entries(corsHeaders(cors, request))) guarded.set(name, value);
    declaration.guard?.(request);
    requireMethod(methods, request.method);
    if (request.method === 'OPTIONS') return preflightResponse(methods, request);
    if (cors) requireOrigin(cors, request, declaration.body?.forms);
    if (!declaration.body) {
      const visit = visitorLimits ? await countVisit(visitorLimits(), request, guarded) : UNCOUNTED;
      const { visitor } = visit;
      return await declaration.handle(request, { requestId, visitor, visit, body: undefined });
    }
    const { schema, limitBytes, forms } = declaration.body;
    const content = await readContent(request, forms ? publicTypes : ['application/json'], limitBytes);
    const visit = visitorLimits ? await countVisit(visitorLimits(), request, guarded) : UNCOUNTED;
    const body = await validOf(visit, () => validated(content, schema));
    return await declaration.handle(request, { requestId, visitor: visit.visitor, visit, body });
  } catch (error) {
    return await problemAnswer(declaration, problemOf(error, requestId), requestId, request);
  }
}

/** Falls back to `application/problem+json` when the declaration's own form fails. */
async function problemAnswer(
  declaration: Guards,
  problem: Problem,
  requestId: string,
  request: Request,
): Promise<Response> {
  try {
    const own = await declaration.problemAnswer?.(problem, requestId, request);
    return own ?? problemResponse(problem, requestId);
  } catch (error) {
    logError('a problem could not be written as a page', error, { requestId });
    return problemResponse(problem, requestId);
  }
}

function methodsOf({ methods, cors }: Guards): readonly string[] {
  const own = methods.flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : name));
  return cors ? [...own, 'OPTIONS'] : own;
}

function requireMethod(allowed: readonly string[], method: string): void {
  if (allowed.includes(method)) return;
  throw new Problem('method_not_allowed', {
    detail: `${method} is not allowed here. Use ${allowed.join(' or ')}.`,
    headers: { allow: allowed.join(', ') },
  });
}

const UNCOUNTED: Visit = {
  visitor: '',
  giveBackInvalid: async () => undefined,
  takeBudget: async () => {
    throw new Error('an endpoint without limits of its visitors has no budget');
  },
};

/** @throws Problem as `validate` does, once the visit is given back. */
async function validOf<Body>(visit: Visit, validate: () => Body): Promise<Body> {
  try {
    return validate();
  } catch (error) {
    await visit.giveBackInvalid();
    throw error;
  }
}

/** Correcting a variable takes a deployment. */
const MISCONFIGURED_RETRY_SECONDS = 60;

function problemOf(error: unknown, requestId: string): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidConfiguration) {
    // Its message never repeats the value.
    log('error', 'an environment variable is invalid', {
      variable: error.variable,
      detail: error.message,
      requestId,
    });
    return new Problem('misconfigured', { retryAfterSeconds: MISCONFIGURED_RETRY_SECONDS });
  }
  logError('a request failed', error, { requestId });
  return new Problem('internal_error');
}

/**
 * The id that the caller or the platform gave the request, if a machine made it: it ends in logs and, as the correlation
 * id of a webhook's event, in the audit trail, which cannot forget a name.
 */
function requestIdOf(headers: Headers): string {
  const [own, platforms] = [headers.get('x-request-id') ?? '', headers.get('x-vercel-id') ?? ''];
  if (UUID.test(own)) return own;
  return VERCEL_ID.test(platforms) ? platforms : randomUUID();
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The regions that a request passed, and what Vercel's edge counts it by. */
const VERCEL_ID = /^(?:[a-z]{3}\d::){1,4}[a-z0-9]{1,8}-\d{10,16}-[0-9a-f]{4,16}$/;

/** Without the query, and cut: both the query and the length of a URL are the caller's. */
function pathOf(url: string): string {
  return new URL(url).pathname.slice(0, 200);
}

/**
 * Copies the response, since the headers of some responses are immutable. A stream passes through unread. The answer's
 * own rate limit headers win over those of a guard.
 */
function withCommonHeaders(
  response: Response,
  method: string,
  requestId: string,
  guarded: Headers,
): Response {
  const headers = new Headers(response.headers);
  for (const [name, value] of guarded) {
    if (name === 'vary') headers.append(name, value);
    else if (!headers.has(name)) headers.set(name, value);
  }
  headers.set('x-request-id', requestId);
  headers.set('x-content-type-options', 'nosniff');
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  const body = method === 'HEAD' ? null : response.body;
  return new Response(body, { status: response.status, statusText: response.statusText, headers });
}
