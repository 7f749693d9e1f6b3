import { SpanStatusCode, trace } from '@opentelemetry/api';
import type { Span, Tracer } from '@opentelemetry/api';

import { readTelemetry } from '../config.ts';
import type { TracingSettings } from '../config.ts';
import { logError } from '../log.ts';

let starting: Promise<void> | null | undefined;
let flush: (() => void) | null = null;

/**
 * Starts tracing, once, if the environment names an endpoint for traces. Otherwise nothing of the SDK is loaded, and every
 * span is OpenTelemetry's no-op, which passes on its context.
 *
 * @returns a promise that never rejects: requests are served even if tracing fails to start. Null when there is nothing to
 *   wait for.
 */
export function startTracing(): Promise<void> | null {
  if (starting !== undefined) return starting;
  const { tracing } = readTelemetry();
  starting = tracing ? start(tracing) : null;
  return starting;
}

async function start(tracing: TracingSettings): Promise<void> {
  try {
    const { exportTraces } = await import('./export.ts');
    flush = exportTraces(tracing);
  } catch (error) {
    logError('tracing is off: the exporter could not start', error);
  }
}

/** Whether spans are recorded. */
export function isTracing(): boolean {
  return flush !== null;
}

/** Sends the spans that have ended, in the time that the platform leaves after an answer. Returns at once. */
export function sendSpans(): void {
  flush?.();
}

export function tracer(): Tracer {
  return trace.getTracer('postbud');
}

/**
 * Ends a span as failed. It shows only the kind of the error, because a message may hold personal data.
 *
 * @param kind a class, a code or a status.
 */
export function endFailed(span: Span, kind: string): void {
  span.setAttribute('error.type', kind);
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

/** Gives an error's kind if it looks like a name, else `other`: a handler may throw anything, under any name. */
export function safeKind(kind: string | null): string {
  return kind !== null && /^[\w.:-]{1,100}$/.test(kind) ? kind : 'other';
}

/** Gives the class of a thrown value, as a kind. */
export function classOf(error: unknown): string {
  return error instanceof Error ? safeKind(error.name) : 'other';
}
