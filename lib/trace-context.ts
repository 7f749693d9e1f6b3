import { ROOT_CONTEXT, context, trace as spans } from '@opentelemetry/api';
import type { Context, SpanContext } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';

// Also where nothing is traced: a caller's trace goes on to the events that its request leads to.
context.setGlobalContextManager(new AsyncLocalStorageContextManager());

/** Version, trace id, span id and flags; a later version may have more behind them. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

const SAMPLED = 0x01;

/**
 * Reads a W3C `traceparent`.
 *
 * @returns a context that goes on with it, and with nothing else; null for one that is missing or malformed.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export function contextOf(text: string | null): Context | null {
  const [, version, trace, span, flags, more] = TRACEPARENT.exec(text ?? '') ?? [];
  if (trace === undefined || span === undefined || flags === undefined) return null;
  if (version === '00' && more !== undefined) return null;
  const traceFlags = Number.parseInt(flags, 16) & SAMPLED;
  return spans.setSpanContext(ROOT_CONTEXT, { traceId: trace, spanId: span, traceFlags, isRemote: true });
}

/** The `traceparent` of what goes on here; null outside all traces. */
export function traceparent(): string | null {
  const span = activeSpan();
  return span && `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`;
}

/** The id of the trace that what goes on here is part of, 32 hexadecimal digits; null outside all traces. */
export function traceId(): string | null {
  return activeSpan()?.traceId ?? null;
}

function activeSpan(): SpanContext | null {
  const span = spans.getSpanContext(context.active());
  return span && spans.isSpanContextValid(span) ? span : null;
}
