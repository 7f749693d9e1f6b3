import { SpanKind, context, trace } from '@opentelemetry/api';
import type { Span } from '@opentelemetry/api';

import type { LogBatch, LogFields, LogLevel } from '../log.ts';
import { contextOf } from './trace.ts';
import { endFailed, isTracing, safeKind, tracer } from './tracing.ts';

/** One attempt to deliver an event to a subscriber. */
export interface NamedAttempt {
  readonly topic: string;
  readonly subscriber: string;
  readonly eventId: string;
  readonly deliveryId: string;
  /** Counted from 1. */
  readonly attempt: number;
  /** The event's. */
  readonly traceparent: string | null;
}

/** How an attempt ended. */
export interface AttemptEnd {
  readonly outcome: 'delivered' | 'waited' | 'failed' | 'dead_lettered' | 'lease_lost';
  readonly durationMs: number;
  /** The error's code, else its class; null where there was none. */
  readonly kind: string | null;
}

/** Whether attempts at an event are part of a trace. Asked before all else, since most of the time they are not. */
export function isTraced({ traceparent }: Pick<NamedAttempt, 'traceparent'>): boolean {
  return traceparent !== null || isTracing();
}

/** An attempt that is traced, or leaves a line in the log. One that is never ended leaves neither. */
export class ObservedAttempt {
  readonly #attempt: NamedAttempt;
  readonly #lines: LogBatch | undefined;
  readonly #span: Span | null;

  /** Begins. @param lines takes the line of it, where one is wanted. */
  constructor(attempt: NamedAttempt, lines: LogBatch | undefined) {
    this.#attempt = attempt;
    this.#lines = lines;
    this.#span = spanOf(attempt);
  }

  /** Hands the event over. What is emitted meanwhile is caused by this attempt. */
  within<Result>(hand: () => Result): Result {
    if (!this.#span) return hand();
    return context.with(trace.setSpan(context.active(), this.#span), hand);
  }

  /** @param end null: it was cut off, and counts as not tried. */
  end(end: AttemptEnd | null): void {
    if (end) this.#lines?.add(LEVELS[end.outcome], 'delivery', this.#told(end));
    if (!this.#span) return;
    this.#span.setAttribute('postbud.delivery.outcome', end?.outcome ?? 'not_tried');
    if (end?.outcome === 'failed' || end?.outcome === 'dead_lettered') {
      endFailed(this.#span, safeKind(end.kind));
    } else this.#span.end();
  }

  /** Which it was and how it went, and nothing of what was delivered. */
  #told({ outcome, durationMs, kind }: AttemptEnd): LogFields {
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
 * Begins the span of an attempt; null where there is no trace to be part of.
 *
 * It is a child of the span that recorded the event, so that one trace tells all that a request has led to, through
 * all the events on the way, and so that whether it is kept was decided once, where it began. The relay's tick, under
 * which it runs, is linked: as its parent it would tie together, by the thousand, events that have nothing in common
 * but the moment. Only the attempts at an event without a trace are children of the tick.
 *
 * @see https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/#consumer-spans
 */
function spanOf(attempt: NamedAttempt): Span | null {
  const { topic, subscriber, eventId, deliveryId } = attempt;
  const event = contextOf(attempt.traceparent);
  if (!event && !isTracing()) return null;
  const tick = trace.getSpanContext(context.active());
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
      links: event && tick ? [{ context: tick }] : [],
    },
    event ?? context.active(),
  );
}
