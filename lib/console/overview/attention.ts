import type { SubscriberOverview, TopicOverview } from './read.ts';

/** A delivery that has been due for longer is late: the relay looks for work every few seconds. */
const LATE_SECONDS = 60;

export function isLate(oldestDueAgeSeconds: number | null): boolean {
  return oldestDueAgeSeconds !== null && oldestDueAgeSeconds > LATE_SECONDS;
}

/** Whether an operator should look: dead letters, failures, late deliveries, or a pause that makes deliveries wait. */
export function needsAttention(topic: TopicOverview): boolean {
  return (
    isTroubled(topic) ||
    topic.heldBackSince !== null ||
    topic.subscribers.some((one) => holdsBack(one) || isUnknownToRelease(one))
  );
}

/** Lists the subscribers with a row below their topic: troubled ones, and ones that wait to be attached. */
export function subscribersToShow(topic: TopicOverview): readonly SubscriberOverview[] {
  return topic.subscribers.filter(
    (one) => isTroubled(one) || holdsBack(one) || waitsForAttachment(one) || isUnknownToRelease(one),
  );
}

/** Whether this release's catalog lacks the subscription, or the payload version of its next event. */
function isUnknownToRelease({ inCatalog, neededVersion }: SubscriberOverview): boolean {
  return !inCatalog || neededVersion !== null;
}

/** Whether deliveries wait that only another release can deliver. */
export function waitsForRelease(subscriber: SubscriberOverview): boolean {
  return isUnknownToRelease(subscriber) && subscriber.pending > 0;
}

/** Whether deliveries wait for a handler or an endpoint, which is no trouble. */
export function waitsForAttachment({ inCatalog, attached, pending }: SubscriberOverview): boolean {
  return inCatalog && !attached && pending > 0;
}

type Troubles = Pick<TopicOverview, 'deadLettered' | 'failing' | 'oldestDueAgeSeconds'>;

function isTroubled({ deadLettered, failing, oldestDueAgeSeconds }: Troubles): boolean {
  return deadLettered > 0 || failing > 0 || isLate(oldestDueAgeSeconds);
}

/** Whether deliveries wait until someone ends a pause, or until the subscriber answers again. */
function holdsBack({ paused, outage, pending, failing }: SubscriberOverview): boolean {
  return (paused || outage !== null) && pending + failing > 0;
}

/** Counts the deliveries that wait behind a failing one or a halting dead letter, or for the end of a pause or an outage. */
function blockedOf({ subscribers }: TopicOverview): number {
  return subscribers
    .filter(
      ({ failing, paused, outage, haltedLanes }) => failing + haltedLanes > 0 || paused || outage !== null,
    )
    .reduce((sum, { pending, failing }) => sum + pending + failing, 0);
}

const BY = {
  blocked: blockedOf,
  dead: (topic: TopicOverview) => topic.deadLettered,
  failing: (topic: TopicOverview) => topic.failing,
  pending: (topic: TopicOverview) => topic.pending,
  oldest: (topic: TopicOverview) => topic.oldestDueAgeSeconds ?? 0,
};

/** The orders that the topics can be sorted in. */
export type Sort = keyof typeof BY | 'topic';

/** Those that operators choose, by the label of the column that shows it. */
export const ORDERS: Readonly<Record<string, Sort>> = {
  Topic: 'topic',
  Pending: 'pending',
  'Oldest due': 'oldest',
  Failing: 'failing',
  'Dead letters': 'dead',
};

export function sortOf(text: string | null): Sort {
  return Object.values(ORDERS).find((sort) => sort === text) ?? 'blocked';
}

/** Sorts the topics, the worst first: equals by what is blocked now, then by lateness, then by dead letters. */
export function sortTopics(topics: readonly TopicOverview[], by: Sort): readonly TopicOverview[] {
  if (by === 'topic') return topics.toSorted((one, other) => one.topic.localeCompare(other.topic, 'en'));
  const order = [BY[by], BY.blocked, BY.oldest, BY.dead];
  return topics.toSorted(
    (one, other) => order.map((rank) => rank(other) - rank(one)).find((difference) => difference !== 0) ?? 0,
  );
}

/** Finds the topics that delivered in the last day or have deliveries to make, the busiest first. */
export function activeTopics(topics: readonly TopicOverview[]): readonly TopicOverview[] {
  const activity = ({ hours, pending }: TopicOverview) =>
    pending + [...hours.delivered, ...hours.deadLettered].reduce((sum, number) => sum + number, 0);
  return topics
    .filter((topic) => activity(topic) > 0)
    .toSorted((one, other) => activity(other) - activity(one));
}

/** Finds the topics with the words in their own name, their producer's or a subscriber's. */
export function filterTopics(topics: readonly TopicOverview[], words: string): readonly TopicOverview[] {
  const wanted = words.trim().toLowerCase();
  return wanted === '' ? topics : topics.filter((topic) => searchWords(topic).includes(wanted));
}

/** The text that a filter searches, here and in the script. */
export function searchWords({ topic, producer, subscribers }: Searched): string {
  return [topic, producer, ...subscribers.map(({ subscriber }) => subscriber)].join(' ').toLowerCase();
}

interface Searched {
  readonly topic: string;
  readonly producer: string;
  readonly subscribers: readonly { readonly subscriber: string }[];
}
