import { SpanKind, context, trace } from '@opentelemetry/api';
import type { Span } from '@opentelemetry/api';

import type { LogBatch, LogFields, LogLevel } from '../log.ts';
import { contextOf } from './continued-trace.ts';
import { endFailed, isTracing, safeKind, tracer } from './tracing.ts';

/** One attempt to deliver an event to a subscriber. */
export interface NamedAttempt {
  readonly topic: string;
  readonly subscriber: string;
  readonly eventId: string;
  readonly deliveryId: string;
  /** Counted from 1. */
  readonly attempt: number;
  /** The event's trace context. */
  readonly traceparent: string | null;
}

/** How an attempt ended. */
export interface AttemptEnd {
  readonly outcome: 'delivered' | 'waited' | 'failed' | 'dead_lettered' | 'lease_lost';
  readonly durationMs: number;
  /** The error's code, or its class; null without an error. */
  readonly kind: string | null;
}

/** Whether the attempts of an event are part of a trace. Checked first, because mostly they are not. */
export function isTraced({ traceparent }: Pick<NamedAttempt, 'traceparent'>): boolean {
  return traceparent !== null || isTracing();
}

/** Begins to observe an attempt. @param lines collects its log line, where the relay is logged. */
export function observeAttempt(attempt: NamedAttempt, lines: LogBatch | undefined): ObservedAttempt {
  return new ObservedAttempt(attempt, lines, startSpan(attempt));
}

/** An attempt that is traced, or writes a line to the log. An attempt that is never ended does neither. */
export class ObservedAttempt {
  readonly #attempt: NamedAttempt;
  readonly #lines: LogBatch | undefined;
  readonly #span: Span | null;

  constructor(attempt: NamedAttempt, lines: LogBatch | undefined, span: Span | null) {
    this.#attempt = attempt;
    this.#lines = lines;
    this.#span = span;
  }

  /** Calls the handler in the attempt's span, so that the events it emits belong to the same trace. */
  within<Result>(hand: () => Result): Result {
    if (!this.#span) return hand();
    return context.with(trace.setSpan(context.active(), this.#span), hand);
  }

  /** @param end null for an attempt that was cut off and does not count. */
  end(end: AttemptEnd | null): void {
    if (end) this.#lines?.add(LEVELS[end.outcome], 'delivery', this.#lineOf(end));
    if (!this.#span) return;
    this.#span.setAttribute('postbud.delivery.outcome', end?.outcome ?? 'not_tried');
    if (end?.outcome === 'failed' || end?.outcome === 'dead_lettered') {
      endFailed(this.#span, safeKind(end.kind));
    } else this.#span.end();
  }

  /** The attempt and its outcome, and nothing of the event's payload. */
  #lineOf({ outcome, durationMs, kind }: AttemptEnd): LogFields {
    const { topic, subscriber, eventId, deliveryId, attempt } = this.#attempt;
    return {
      topic,
      subscriber,
      eventId,
      deliveryId,
      attempt,
      outcome,
      kind: kind === null ? undefined : safeKind(kind),
      durationMs: Math.round(durationMs),
      traceId: this.#span?.spanContext().traceId,
    };
  }
}

const LEVELS: Readonly<Record<AttemptEnd['outcome'], LogLevel>> = {
  delivered: 'info',
  waited: 'info',
  failed: 'warn',
  lease_lost: 'warn',
  dead_lettered: 'error',
};

/**
 * Starts the span of an attempt; null where there is no trace to be part of.
 *
 * Its parent is the span that recorded the event. One trace then shows everything that a request has led to, through
 * all events on the way, and whether the trace is sampled was decided once, at its root. The span of the relay is
 * linked: as a parent it would join thousands of unrelated events that were delivered at the same time. Only attempts
 * of an event without a trace have it as their parent.
 *
 * @see https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/#consumer-spans
 */
function startSpan(attempt: NamedAttempt): Span | null {
  const { topic, subscriber, eventId, deliveryId } = attempt;
  const event = contextOf(attempt.traceparent);
  if (!event && !isTracing()) return null;
  const relay = trace.getSpanContext(context.active());
  return tracer().startSpan(
    `process ${topic}`,
    {
      kind: SpanKind.CONSUMER,
      attributes: {
        'messaging.system': 'postbud',
        'messaging.operation.type': 'process',
        'messaging.operation.name': 'process',
        'messaging.destination.name': topic,
        'messaging.consumer.group.name': subscriber,
        'messaging.message.id': eventId,
        'postbud.delivery.id': deliveryId,
        'postbud.delivery.attempt': attempt.attempt,
      },
      links: event && relay ? [{ context: relay }] : [],
    },
    event ?? context.active(),
  );
}
