import { SpanKind, context, trace } from '@opentelemetry/api';
import type { Attributes } from '@opentelemetry/api';

import { endFailed, isTracing, sendSpans, startTracing, tracer } from './tracing.ts';
import { contextOf } from '../trace-context.ts';

/** A request as it is told from others: without its path, its query and its headers, which are the caller's own. */
export interface TracedRequest {
  readonly request: Request;
  /** As it is declared, for example `/webhooks/:provider`. */
  readonly route: string | undefined;
  readonly requestId: string;
  /** Whether it begins a trace of its own, whatever the caller says. */
  readonly isAnonymous: boolean;
}

/**
 * Answers a request in a span that goes on with the caller's trace, if the caller is believed. The span ends with the answer's headers: what is
 * streamed after them is not part of it.
 *
 * Where nothing is traced, the caller's trace is still that of what is emitted here.
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
  // A refusal is the caller's failure, not this server's.
  if (response.status >= 500) endFailed(span, `${response.status}`);
  else span.end();
  sendSpans();
  return response;
}

/** Those that the convention knows; any other word is the caller's own. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);
