import { SpanKind, context, trace } from '@opentelemetry/api';
import type { Attributes } from '@opentelemetry/api';

import { contextOf } from './continued-trace.ts';
import { endFailed, isTracing, sendSpans, startTracing, tracer } from './tracing.ts';

/** The parts of a request that its span shows: not its path, query and headers, which the caller chooses. */
export interface TracedRequest {
  readonly request: Request;
  /** As declared, for example `/webhooks/:provider`. */
  readonly route: string | undefined;
  readonly requestId: string;
  /** Whether to start a new trace and ignore the caller's. */
  readonly isAnonymous: boolean;
}

/**
 * Answers a request in a span that continues the caller's trace, unless the request is anonymous. The span ends with the
 * answer's headers, before a streamed body.
 *
 * Where nothing is traced, emitted events still carry the caller's trace.
 *
 * @param answer never rejects.
 */
export async function inRequestSpan(
  { request, route, requestId, isAnonymous }: TracedRequest,
  answer: () => Promise<Response>,
): Promise<Response> {
  const starting = startTracing();
  if (starting) await starting;
  const caller = isAnonymous ? null : contextOf(request.headers.get('traceparent'));
  if (!isTracing()) return caller ? await context.with(caller, answer) : await answer();
  const method = METHODS.has(request.method) ? request.method : '_OTHER';
  const attributes: Attributes = {
    'http.request.method': method,
    'url.scheme': new URL(request.url).protocol.slice(0, -1),
    'postbud.request.id': requestId,
    ...(route !== undefined && { 'http.route': route }),
  };
  const name = [method === '_OTHER' ? 'HTTP' : method, route].filter(Boolean).join(' ');
  const parent = caller ?? context.active();
  const span = tracer().startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
  const response = await context.with(trace.setSpan(parent, span), answer);
  span.setAttribute('http.response.status_code', response.status);
  // A refusal (4xx) is the caller's failure, not this server's.
  if (response.status >= 500) endFailed(span, `${response.status}`);
  else span.end();
  sendSpans();
  return response;
}

/** The methods of the semantic conventions; any other word is the caller's own. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);
