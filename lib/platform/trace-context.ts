import { context, trace as spans } from '@opentelemetry/api';
import type { SpanContext } from '@opentelemetry/api';

/** Gives the current `traceparent`; null outside of a trace. */
export function traceparent(): string | null {
  const span = activeSpan();
  return span && `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`;
}

/** Gives the id of the current trace, 32 hexadecimal digits; null outside of a trace. */
export function traceId(): string | null {
  return activeSpan()?.traceId ?? null;
}

function activeSpan(): SpanContext | null {
  const span = spans.getSpanContext(context.active());
  return span && spans.isSpanContextValid(span) ? span : null;
}
