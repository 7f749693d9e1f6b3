import type { BusEvent, PreviousEvent } from '../../bus/subscribers/subscriber.ts';

/** Writes an event as a CloudEvent. @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md */
export function cloudEvent(event: BusEvent, previous: PreviousEvent | null = null) {
  return {
    specversion: '1.0',
    id: event.id,
    source: `/postbud/${event.producer}`,
    type: event.topic,
    time: event.createdAt.toISOString(),
    datacontenttype: 'application/json',
    sequence: String(event.seq),
    schemaversion: event.version,
    correlationid: event.correlationId,
    ...(event.orderingKey && { partitionkey: event.orderingKey }),
    ...(event.causationId && { causationid: event.causationId }),
    ...(event.traceparent && { traceparent: event.traceparent }),
    ...(event.erased && { erased: true }),
    ...(previous && previousOf(previous)),
    data: event.payload,
  };
}

function previousOf({ id, wasSkipped }: PreviousEvent) {
  return { previousid: id, ...(wasSkipped && { previousskipped: true }) };
}

/** Most bytes that the attributes of `previousOf` add to a document. */
export const PREVIOUS_BYTES = 80;

/** Documents of events, which are measured before they are sent. */
export class Documents {
  readonly #known = new WeakMap<BusEvent, string>();

  of(event: BusEvent, previous: PreviousEvent | null = null): string {
    const document = this.#known.get(event) ?? JSON.stringify(cloudEvent(event));
    this.#known.set(event, document);
    // Known only once the batch is made up.
    return previous ? `${JSON.stringify(previousOf(previous)).slice(0, -1)},${document.slice(1)}` : document;
  }
}
