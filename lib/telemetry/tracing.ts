import { SpanStatusCode, trace } from '@opentelemetry/api';
import type { Span, Tracer } from '@opentelemetry/api';

import { readObserved } from '../config.ts';
import type { TracingSettings } from '../config.ts';
import { logError } from '../log.ts';

let starting: Promise<void> | null | undefined;
let flush: (() => void) | null = null;

/**
 * Begins to trace, if the environment names a place to send traces to. That is found out once; without one nothing of
 * the SDK is loaded, and every span is OpenTelemetry's own no-op, which hands on the context that it is given.
 *
 * @returns what to wait for, which never rejects: what can't be traced is served all the same. Null: nothing.
 */
export function startTracing(): Promise<void> | null {
  if (starting !== undefined) return starting;
  const { tracing } = readObserved();
  starting = tracing ? start(tracing) : null;
  return starting;
}

async function start(tracing: TracingSettings): Promise<void> {
  try {
    const { exportTraces } = await import('./export.ts');
    flush = exportTraces(tracing);
  } catch (error) {
    logError('nothing is traced: the exporter could not start', error);
  }
}

/** Whether spans are recorded. */
export function isTracing(): boolean {
  return flush !== null;
}

/** Sends the spans that have ended, in what time the platform leaves after an answer. Returns at once. */
export function sendSpans(): void {
  flush?.();
}

export function tracer(): Tracer {
  return trace.getTracer('postbud');
}

/**
 * Ends the span of what failed. Of an error it tells the kind and no more: its message may hold what a person wrote.
 *
 * @param kind a class, a code or a status.
 */
export function endFailed(span: Span, kind: string): void {
  span.setAttribute('error.type', kind);
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

/** The kind of an error, if it is a name and nothing else: a handler may throw anything, under any name. */
export function safeKind(kind: string | null): string {
  return kind !== null && /^[\w.:-]{1,100}$/.test(kind) ? kind : 'other';
}

/** The class of what was thrown, as a kind. */
export function classOf(error: unknown): string {
  return error instanceof Error ? safeKind(error.name) : 'other';
}
