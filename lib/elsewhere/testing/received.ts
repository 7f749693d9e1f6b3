import type { TopicName } from '../../bus/catalog/catalog.ts';
import type { BusEvent } from '../../bus/subscribers/subscriber.ts';

/** One event that a subscriber was handed, and what the bus recorded of it. */
interface Handed<Name extends TopicName> {
  readonly subscriber: string;
  readonly event: BusEvent<Name>;
  readonly deliveryId: string;
  /** Counted from 1; from 1 again after a replay. */
  readonly attempt: number;
  readonly replayed: boolean;
  /**
   * A `failed` event is handed over again at its retry, one that `waited` when its handler asked for it. One that is
   * `not_counted` is handed over again as if it had not been: another event made its transaction roll back, or the
   * batch ended before it.
   */
  readonly outcome: 'delivered' | 'failed' | 'waited' | 'dead_lettered' | 'not_counted';
  /** What the handler threw, or an error with the bus's `code`, such as `timeout` or `not_taken`; null without one. */
  readonly error: Error | null;
}

/** What a subscriber was handed of these topics. */
export type Received<Name extends TopicName = TopicName> = Name extends TopicName ? Handed<Name> : never;
