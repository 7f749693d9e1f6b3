import { randomUUID } from 'node:crypto';

import type { z } from 'zod';

import { InvalidConfiguration } from '../config.ts';
import { FUNCTION_LIFE_MS, withinLife } from '../lifetime.ts';
import { log, logError } from '../log.ts';
import { countVisit } from './visit.ts';
import type { Visit, VisitorLimits } from './visit.ts';
import { inRequestSpan } from '../telemetry/request.ts';
import { mediaTypes } from './body.ts';
import { corsHeaders, preflightResponse, requireOrigin } from './cors.ts';
import type { Cors } from './cors.ts';
import { Problem, problemResponse } from './problem.ts';
import { readContent, validated } from './validated.ts';

/** What an endpoint is: its methods, its guards, and the one capability that answers what passes them. */
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
   * The path as it is declared, for example `/webhooks/:provider`: what requests are told apart by in logs and traces,
   * since what callers write into a path may be anything.
   */
  readonly route?: string;
  /** `HEAD` comes with `GET`. One that declares a body has `POST` alone. */
  readonly methods: readonly ('GET' | 'POST')[];
  /**
   * Nobody is asked who they are, and what they send may be kept: the request's id and its trace are our own, whatever
   * the caller writes into `x-request-id` or `traceparent`, since they end in the audit trail.
   *
   * Elsewhere they are the caller's, so that a provider or an operator finds a request again in our logs: what is kept
   * there comes from one who has a secret or a token. Health keeps nothing.
   */
  readonly isAnonymous?: boolean;
  /** How long the platform lets the function live, if not as long as most; see `lib/lifetime.ts`. */
  readonly lifeMs?: number;
  /** Whose pages may call and read the answers. Without it no answer has a CORS header, and `OPTIONS` is a 405. */
  readonly cors?: () => Cors;
  /** How often one visitor may call. */
  readonly visitorLimits?: () => VisitorLimits;
  /** Refuses a request before all other guards: for its path, or where it comes from. @throws Problem */
  readonly guard?: (request: Request) => void;
  readonly problemAnswer?: ProblemAnswer;
}

/** Writes problems in another form than `application/problem+json`, for people. */
export type ProblemAnswer = (problem: Problem, requestId: string, request: Request) => Response;

interface BodyDeclaration<Body> {
  readonly schema: z.ZodType<Body>;
  /** The longest body that is taken, as sent. */
  readonly limitBytes: number;
  /** Takes `application/x-www-form-urlencoded` besides JSON: the fields as an object of strings. */
  readonly forms?: boolean;
}

/** May throw: a `Problem` is answered as it stands, anything else as a 500 that says nothing. */
export type Handle<Body> = (request: Request, context: RequestContext<Body>) => Promise<Response>;

interface RequestContext<Body> {
  /** On the answer, in its problem if it is one, and in every log line about the request. */
  readonly requestId: string;
  /** As the schema parsed it. The request's own was read. */
  readonly body: Body;
  /** Stands for the caller's address and can be kept; empty where no visitors are told apart. */
  readonly visitor: string;
  /** How the request was counted. */
  readonly visit: Visit;
}

/** What the platform calls: the default export of a file in `api/`. */
export interface Endpoint {
  fetch(request: Request): Promise<Response>;
}

/**
 * Makes a function of the platform out of a declaration.
 *
 * It always answers: `fetch` never rejects. Every answer has an `x-request-id`, `x-content-type-options: nosniff` and,
 * unless the handler decides otherwise, `cache-control: no-store`; every request leaves one line in the log, and a span.
 * The guards come before the handler in this order: the declaration's own, 405, 403, 415, 413, 429, 400.
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
        return finished(response, request.method, requestId, guarded);
      };
      return await withinLife(lifeMs, () =>
        inRequestSpan({ request, route, requestId, isAnonymous }, answerInSpan),
      );
    },
  };
}

/** @param guarded takes the headers that a guard puts on whatever the answer turns out to be. */
async function answer<Body>(
  declaration: EndpointDeclaration<Body>,
  request: Request,
  requestId: string,
  guarded: Headers,
): Promise<Response> {
  try {
    const { visitorLimits } = declaration;
    const methods = methodsOf(declaration);
    const cors = declaration.cors?.();
    if (cors)
      for (const [name, value] of Object.entries(corsHeaders(cors, request))) guarded.set(name, value);
    declaration.guard?.(request);
    requireMethod(methods, request.method);
    if (request.method === 'OPTIONS') return preflightResponse(methods);
    if (cors) requireOrigin(cors, request);
    if (!declaration.body) {
      const visit = visitorLimits ? await countVisit(visitorLimits(), request, guarded) : UNCOUNTED;
      const { visitor } = visit;
      return await declaration.handle(request, { requestId, visitor, visit, body: undefined });
    }
    const { schema, limitBytes, forms } = declaration.body;
    const content = await readContent(request, forms ? mediaTypes : ['application/json'], limitBytes);
    const visit = visitorLimits ? await countVisit(visitorLimits(), request, guarded) : UNCOUNTED;
    const body = await validOf(visit, () => validated(content, schema));
    return await declaration.handle(request, { requestId, visitor: visit.visitor, visit, body });
  } catch (error) {
    return problemAnswer(declaration, problemOf(error, requestId), requestId, request);
  }
}

/** Where the declaration's own way of writing it fails, there is still the usual one. */
function problemAnswer(declaration: Guards, problem: Problem, requestId: string, request: Request): Response {
  try {
    return declaration.problemAnswer?.(problem, requestId, request) ?? problemResponse(problem, requestId);
  } catch (error) {
    logError('a problem could not be written', error, { requestId });
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
  giveBackPart: async () => undefined,
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

/** Nobody is going to correct a wrong variable within seconds. */
const MISCONFIGURED_RETRY_SECONDS = 60;

function problemOf(error: unknown, requestId: string): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidConfiguration) {
    log('error', 'the environment has a wrong value', { variable: error.variable, requestId });
    return new Problem('misconfigured', { retryAfterSeconds: MISCONFIGURED_RETRY_SECONDS });
  }
  logError('a request failed', error, { requestId });
  return new Problem('internal_error');
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

/**
 * A copy, since the headers of some responses cannot be changed. A stream passes through unread. What the answer itself
 * says of a limit goes before what a guard said earlier.
 */
function finished(response: Response, method: string, requestId: string, guarded: Headers): Response {
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
