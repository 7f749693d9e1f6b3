import type { z } from 'zod';

/**
 * One kind of event, as its producer promises it and its subscribers read it.
 *
 * A row of the catalog. Everything typed about the bus (topic names, payloads, who may subscribe, what `emit`
 * accepts) derives from these rows; nothing else repeats them.
 */
export interface Topic<
  Payload extends z.ZodType = z.ZodType,
  Producer extends string = string,
  Subscribers extends readonly [string, ...string[]] = readonly [string, ...string[]],
> {
  /** The component that states the fact. */
  readonly producer: Producer;
  /** The components that are handed every event of this topic, each independently of the others. */
  readonly subscribers: Subscribers;
  /** One sentence: what has happened when this event exists. */
  readonly description: string;
  /** What an event carries. Checked by `emit` before anything is stored. */
  readonly payload: Payload;
  /** A payload that fits, for documents and tests. */
  readonly example: z.input<Payload>;
  /** Counts breaking changes of `payload`, from 1. */
  readonly version: number;
  /** Whether the platform's owner fixed this topic; the others are ours. */
  readonly listed: boolean;
  /**
   * Narrows the lane from the whole topic to the events that share this key: each subscriber is then handed the
   * events of one key in order, and different keys do not wait for one another.
   *
   * A method and not a property, because only a method's parameter lets every row pass as a plain `Topic`.
   */
  orderingKey?(payload: z.output<Payload>): string;
  /** The ordering key in words for the catalog page, for example `bookingId`. Set exactly when `orderingKey` is. */
  readonly orderedBy?: string;
}

/** Declares a topic; an identity function that ties `example` and `orderingKey` to `payload`. */
export function topic<
  Payload extends z.ZodType,
  Producer extends string,
  const Subscribers extends readonly [string, ...string[]],
>(row: Topic<Payload, Producer, Subscribers>): Topic<Payload, Producer, Subscribers> {
  return row;
}
