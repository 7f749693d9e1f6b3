import { SpanKind, context, trace } from '@opentelemetry/api';

import { classOf, endFailed, isTracing, tracer } from './tracing.ts';

/**
 * Records an event in a span of its own. While `record` runs, `traceparent()` is that span's, so that the event keeps it
 * and its deliveries continue the trace.
 *
 * @param record gets a function to call with the event's id.
 * @throws what `record` throws.
 * @see https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
 */
export async function inSendSpan<Result>(
  topic: string,
  record: (sent: (eventId: string) => void) => Promise<Result>,
): Promise<Result> {
  if (!isTracing()) return await record(() => undefined);
  const span = tracer().startSpan(`send ${topic}`, {
    kind: SpanKind.PRODUCER,
    attributes: {
      'messaging.system': 'postbud',
      'messaging.operation.type': 'send',
      'messaging.operation.name': 'send',
      'messaging.destination.name': topic,
    },
  });
  const sent = (eventId: string) => void span.setAttribute('messaging.message.id', eventId);
  try {
    const result = await context.with(trace.setSpan(context.active(), span), () => record(sent));
    span.end();
    return result;
  } catch (error) {
    endFailed(span, classOf(error));
    throw error;
  }
}
