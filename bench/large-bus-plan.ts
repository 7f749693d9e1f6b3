import { topics as catalogTopics } from '../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../lib/bus/catalog/catalog.ts';
import { errorGroupOf } from '../lib/bus/deliveries/error-group.ts';
import { isIdentifier } from '../lib/components/identifiers/identifier.ts';

// What a large event bus has: its topics, where deliveries are open, and which are dead letters. Everything follows from
// the event's number, so that every run is the same.

/** Their deliveries wait. */
export const UNATTACHED: ReadonlySet<string> = new Set(['reporting', 'intelligence']);

/** Subscriptions whose whole topic waits behind one failing delivery. */
const BLOCKED: ReadonlySet<string> = new Set([
  'booking.approved payments',
  'booking.completed invoicing',
  'payment.captured ledger',
  'payment.captured accounting',
  'payment.refunded bookings',
  'ledger.entry.posted accounting',
  'invoice.issued ledger',
  'user.signed_up notifications',
  'message.posted notifications',
  'season.application.submitted audit',
]);

/** Ordering keys of each topic that has them. */
const KEYS: Readonly<Partial<Record<TopicName, number>>> = { 'user.profile.updated': 4350 };
const OTHER_KEYS = 365;

/** One key in this many of a keyed topic waits behind a failing delivery. */
const BLOCKED_KEYS = 4;

/** So many events are a round: each topic has its share of them, and each round is the same. */
export const ROUND = 10_000;

/** Of all deliveries: those that are pending or failing, and the dead letters. */
const OPEN_SHARE = 0.09;
const DEAD_SHARE = 0.01;

export const HISTORY_DAYS = 90;

/** Dead letters in the previewed group, as in the design. */
export const PREVIEWED = 1204;

/** The topics with the two largest groups. */
export const LARGEST_GROUPS = { topics: ['booking.created', 'booking.cancelled'] } as const;

interface PlannedTopic {
  readonly topic: string;
  /** Events of a round. */
  readonly weight: number;
  /** 1: the topic is one order. */
  readonly keys: number;
  readonly ordered: boolean;
  readonly producer: string;
  readonly version: number;
  readonly subscribers: readonly string[];
  /** JSON text, with `NUMBER` behind each id in it. */
  readonly payload: string;
}

/** From the `cut`-th event of the topic on, deliveries of every `every`-th key are open. */
interface PlannedSubscription {
  readonly topic: string;
  readonly subscriber: string;
  readonly attached: boolean;
  /** Events of the topic. */
  readonly events: number;
  readonly every: number;
  cut: number | null;
}

/** Every `step`-th event from `start` on, until `stop`, is a dead letter of the subscription. */
interface Grave {
  readonly topic: string;
  readonly subscriber: string;
  readonly group: string;
  readonly kind: string;
  readonly groupMessage: string;
  readonly message: string;
  readonly start: number;
  readonly stop: number;
  readonly step: number;
}

export interface Plan {
  readonly topics: readonly PlannedTopic[];
  readonly subscriptions: readonly PlannedSubscription[];
  readonly graves: readonly Grave[];
}

/** Plans so many rounds. */
export function plan(rounds: number): Plan {
  const topics = plannedTopics();
  const deliveries =
    rounds * topics.reduce((total, { weight, subscribers }) => total + weight * subscribers.length, 0);
  return {
    topics,
    subscriptions: plannedSubscriptions(topics, rounds, deliveries * OPEN_SHARE),
    graves: plannedGraves(topics, rounds, Math.round(deliveries * DEAD_SHARE)),
  };
}

/** Maps an event's number in its round to its topic, and to its rank among the topic's events of that round. */
export function slots(topics: readonly PlannedTopic[]): { slot: number; topic: string; rank: number }[] {
  const owners = topics.flatMap(({ topic, weight }) => Array.from({ length: weight }, () => topic));
  const ranks = new Map<string, number>();
  return owners.map((_, slot) => {
    // Coprime to the number of slots, so each comes up once, well mixed.
    const topic = owners[(slot * 7919) % ROUND]!;
    const rank = ranks.get(topic) ?? 0;
    ranks.set(topic, rank + 1);
    return { slot, topic, rank };
  });
}

function plannedTopics(): PlannedTopic[] {
  const rows = catalogTopics();
  const total = rows.reduce((sum, _, index) => sum + share(index), 0);
  const topics = rows.map(([topic, row], index) => ({
    topic,
    weight: Math.floor((ROUND * share(index)) / total),
    keys: row.orderedBy === undefined ? 1 : (KEYS[topic] ?? OTHER_KEYS),
    ordered: row.orderedBy !== undefined,
    producer: row.producer,
    version: row.version,
    subscribers: row.subscribers,
    payload: JSON.stringify(numbered(row.example)),
  }));
  const rest = ROUND - topics.reduce((sum, { weight }) => sum + weight, 0);
  return topics.map((row, index) => (index === 0 ? { ...row, weight: row.weight + rest } : row));
}

/** Stands for a part of the event's number, so that ids differ as they do in reality. */
export const NUMBER = '~~';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

function numbered(value: unknown): unknown {
  if (typeof value === 'string') return isIdentifier(value) && !UUID.test(value) ? value + NUMBER : value;
  if (Array.isArray(value)) return value.map(numbered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, numbered(inner)]));
}

/** Gives the first topics of the catalog most of the events: a few topics are busy, most are not. */
function share(index: number): number {
  return 1 / (index + 5);
}

/** Plans where deliveries are open. @param open about how many are pending or failing. */
function plannedSubscriptions(
  topics: readonly PlannedTopic[],
  rounds: number,
  open: number,
): PlannedSubscription[] {
  const planned = topics.flatMap(({ topic, subscribers, weight, ordered }) =>
    subscribers.map((subscriber): PlannedSubscription => {
      const attached = !UNATTACHED.has(subscriber);
      const every = attached && ordered ? BLOCKED_KEYS : 1;
      return { topic, subscriber, attached, events: weight * rounds, every, cut: null };
    }),
  );
  // Behind the heads of whole topics, behind the first of keys, and for unattached subscribers.
  const isBlocked = ({ topic, subscriber }: PlannedSubscription) => BLOCKED.has(`${topic} ${subscriber}`);
  openIn(planned.filter(isBlocked), open * 0.35);
  openIn(
    planned.filter(({ every }) => every > 1),
    open * 0.05,
  );
  openIn(
    planned.filter(({ attached }) => !attached),
    open * 0.6,
  );
  return planned;
}

/** Leaves so many deliveries open, in each the same share. */
function openIn(planned: readonly PlannedSubscription[], open: number): void {
  const all = planned.reduce((total, { events, every }) => total + events / every, 0);
  for (const row of planned) row.cut = Math.ceil(row.events * (1 - Math.min(1, open / all)));
}

const KINDS: readonly (readonly [kind: string, message: string])[] = [
  ['timeout', 'no answer within 10000 ms (request req_48213a)'],
  ['http_503', 'the subscriber answered 503: Service Unavailable'],
  ['TypeError', "Cannot read properties of undefined (reading 'amountMinor')"],
  ['http_422', 'the subscriber answered 422: unknown account acc_99120'],
  ['ECONNREFUSED', 'connect ECONNREFUSED 10.2.0.14:8443'],
];

/** 40 groups in 20 unblocked subscriptions; the first two hold two fifths of all. */
function plannedGraves(topics: readonly PlannedTopic[], rounds: number, dead: number): Grave[] {
  const isLargest = (topic: string) => LARGEST_GROUPS.topics.some((largest) => largest === topic);
  const flowing = topics
    .filter(
      ({ topic, ordered, subscribers }) =>
        !ordered && subscribers.length > 1 && !subscribers.some((name) => BLOCKED.has(`${topic} ${name}`)),
    )
    .toSorted((one, other) => Number(isLargest(other.topic)) - Number(isLargest(one.topic)))
    .slice(0, 20);
  const places = [0, 1].flatMap((half) => flowing.map((topic) => ({ topic, half })));
  const large = Math.round(dead * 0.21);
  const rest = Math.max(0, dead - 2 * large - PREVIEWED);
  const shares = places.slice(3).reduce((total, _, index) => total + share(index), 0);
  return places.map(({ topic: { topic, weight, subscribers }, half }, index) => {
    const count =
      index < 2 ? large : index === 2 ? PREVIEWED : Math.floor((rest * share(index - 3)) / shares) || 1;
    const subscriber = subscribers.find((name) => !UNATTACHED.has(name))!;
    const [kind, message] = KINDS[(index + half) % KINDS.length]!;
    const { key, message: groupMessage } = errorGroupOf(topic, subscriber, kind, message);
    // Some were dead-lettered in an outage this morning, others one by one over months; two groups alternate.
    const events = weight * rounds;
    const wanted = (events / HISTORY_DAYS) * [30, 60, 10, 0.5, 3, 80][index % 6]!;
    const step = 2 * Math.max(1, Math.floor(wanted / count / 2));
    const stop = events - (events % 2) + half - 1;
    const start = stop - Math.min(count, Math.floor(stop / step)) * step;
    return { topic, subscriber, group: key, kind, groupMessage, message, start, stop, step };
  });
}
