import { isTopicName, subscribersOf } from '../catalog/catalog.ts';

/** An operator's action that is not possible as things are. `code` says why, the message what to do. */
export class NotActedOn extends Error {
  readonly code: Code;

  /** @param message by default that of the code, if it has one. */
  constructor(code: Code, message: string = REASONS[code] ?? code) {
    super(message);
    this.name = 'NotActedOn';
    this.code = code;
  }
}

type Code =
  | 'not_found'
  | 'not_first'
  | 'not_waiting'
  | 'not_broken'
  | 'halted'
  | 'under_way'
  | 'paused'
  | 'outage'
  | 'count_changed'
  | 'backfill_under_way'
  | 'no_such_subscription'
  | 'replay_refused'
  | 'still_listed'
  | 'name_taken';

const REASONS: Readonly<Partial<Record<Code, string>>> = {
  not_found: 'Unknown delivery.',
  not_first: 'An earlier delivery in this lane is unfinished. Reload to see which delivery holds the lane.',
  not_waiting: 'This delivery is not waiting for a retry: it is due now, delivered or dead-lettered.',
  under_way: 'A relay is delivering this lane at the moment. Try again in a few seconds.',
};

/** The number of matching deliveries has changed since the operator saw it. */
export class CountChanged extends NotActedOn {
  readonly expected: number;
  readonly matched: number;

  /** @param action what was not done: `replayed`. */
  constructor(expected: number, matched: number, action: string) {
    const match = matched === 1 ? 'delivery matches' : 'deliveries match';
    super('count_changed', `Nothing was ${action}: ${matched} ${match}, not ${expected}. Preview it again.`);
    this.expected = expected;
    this.matched = matched;
  }
}

/**
 * This release's catalog does not list a subscription, so no relay of it would deliver.
 *
 * @param subscription for example `accounting for payment.captured`.
 * @param consequence a sentence.
 */
export function notListed(subscription: string, consequence = 'Nothing was replayed.'): NotActedOn {
  return new NotActedOn(
    'no_such_subscription',
    `This release’s catalog does not list ${subscription}: ask a release that does, or list it again. ${consequence}`,
  );
}

/** @throws NotActedOn `no_such_subscription` when the catalog does not have the topic, or the topic not the subscriber. */
export function requireListed(
  { topic, subscriber }: { readonly topic?: string | undefined; readonly subscriber?: string | undefined },
  consequence?: string,
): void {
  if (topic === undefined) return;
  if (!isTopicName(topic)) throw notListed(`the topic ${topic}`, consequence);
  if (subscriber !== undefined && !subscribersOf(topic).includes(subscriber))
    throw notListed(`${subscriber} for ${topic}`, consequence);
}
