import type { SubscriberOverview, TopicOverview } from './read.ts';

/** A delivery that has been due for longer is late: the relay passes every few seconds. */
const LATE_SECONDS = 60;

export function isLate(oldestDueAgeSeconds: number | null): boolean {
  return oldestDueAgeSeconds !== null && oldestDueAgeSeconds > LATE_SECONDS;
}

/** Whether someone should look at it: dead letters, failures, lateness, or a pause that holds something back. */
export function needsAttention(topic: TopicOverview): boolean {
  return (
    isTroubled(topic) ||
    topic.heldBackSince !== null ||
    topic.subscribers.some((one) => holdsBack(one) || isForgotten(one))
  );
}

/** The subscribers to tell about below their topic, with those that merely wait to be attached. */
export function subscribersToTell(topic: TopicOverview): readonly SubscriberOverview[] {
  return topic.subscribers.filter(
    (one) => isTroubled(one) || holdsBack(one) || waitsForAttachment(one) || isForgotten(one),
  );
}

/** Dead letters and deliveries of a subscriber that the catalog does not list, or versions that it does not have. */
function isForgotten({ inCatalog, neededVersion }: SubscriberOverview): boolean {
  return !inCatalog || neededVersion !== null;
}

/** Whether deliveries wait that only another release can hand over. */
export function waitsForRelease(subscriber: SubscriberOverview): boolean {
  return isForgotten(subscriber) && subscriber.pending > 0;
}

/** Deliveries of a subscriber without handler or endpoint wait on purpose. */
export function waitsForAttachment({ inCatalog, attached, pending }: SubscriberOverview): boolean {
  return inCatalog && !attached && pending > 0;
}

type Troubles = Pick<TopicOverview, 'deadLettered' | 'failing' | 'oldestDueAgeSeconds'>;

function isTroubled({ deadLettered, failing, oldestDueAgeSeconds }: Troubles): boolean {
  return deadLettered > 0 || failing > 0 || isLate(oldestDueAgeSeconds);
}

/** Whether deliveries wait for someone to end a pause. */
export function holdsBack({ paused, pending }: SubscriberOverview): boolean {
  return paused && pending > 0;
}

const BY = {
  dead: (topic: TopicOverview) => topic.deadLettered,
  failing: (topic: TopicOverview) => topic.failing,
  pending: (topic: TopicOverview) => topic.pending,
  oldest: (topic: TopicOverview) => topic.oldestDueAgeSeconds ?? 0,
};

/** How the topics may be sorted. */
export type Sort = keyof typeof BY | 'topic';

export function sortOf(text: string | null): Sort {
  return text === 'failing' || text === 'pending' || text === 'oldest' || text === 'topic' ? text : 'dead';
}

/** The worst first; among equals those with more dead letters, then failures, then the later ones. */
export function sorted(topics: readonly TopicOverview[], by: Sort): readonly TopicOverview[] {
  if (by === 'topic') return topics.toSorted((one, other) => one.topic.localeCompare(other.topic, 'en'));
  const order = [BY[by], BY.dead, BY.failing, BY.oldest];
  return topics.toSorted(
    (one, other) => order.map((rank) => rank(other) - rank(one)).find((difference) => difference !== 0) ?? 0,
  );
}

/** The topics with the words in their name, producer or a subscriber. */
export function filtered(topics: readonly TopicOverview[], words: string): readonly TopicOverview[] {
  const wanted = words.trim().toLowerCase();
  return wanted === '' ? topics : topics.filter((topic) => searchWords(topic).includes(wanted));
}

/** What a filter looks through; the script looks through the same. */
export function searchWords({ topic, producer, subscribers }: Searched): string {
  return [topic, producer, ...subscribers.map(({ subscriber }) => subscriber)].join(' ').toLowerCase();
}

interface Searched {
  readonly topic: string;
  readonly producer: string;
  readonly subscribers: readonly { readonly subscriber: string }[];
}
