import { ROOT_CONTEXT, context, trace as spans } from '@opentelemetry/api';
import type { Context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';

// Set even where nothing is traced, so that the events of a request carry the caller's trace. Set here, in what only the
// bus's own functions import: a component elsewhere that emits has a manager of its own, or none.
context.setGlobalContextManager(new AsyncLocalStorageContextManager());

/** Version, trace id, span id and flags; a later version may have more behind them. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

const SAMPLED = 0x01;

/**
 * Reads a W3C `traceparent`.
 *
 * @returns a context that continues only this trace; null for a missing or malformed header.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export function contextOf(text: string | null): Context | null {
  const [, version, trace, span, flags, more] = TRACEPARENT.exec(text ?? '') ?? [];
  if (trace === undefined || span === undefined || flags === undefined) return null;
  if (version === '00' && more !== undefined) return null;
  const traceFlags = Number.parseInt(flags, 16) & SAMPLED;
  return spans.setSpanContext(ROOT_CONTEXT, { traceId: trace, spanId: span, traceFlags, isRemote: true });
}
