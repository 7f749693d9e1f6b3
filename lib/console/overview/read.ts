import * as z from 'zod';

import { catalog, isTopicName, subscribersOf, topics as catalogTopics } from '../../bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { openIncidentFields } from '../incidents/read.ts';
import type { OpenIncidents } from '../incidents/read.ts';
import { shapesOf } from '../kit/fields.ts';
import { STALLED_AFTER_MS } from '../kit/limits.ts';
import { heedlessOf, outage, pause } from '../kit/pauses.ts';
import type { Counts } from '../kit/shapes.ts';
import * as shape from '../kit/shapes.ts';
import { countFields, dueFields, findOverview, laneFields, placeFields } from './found.ts';
import type { Found, FoundSubscription } from './found.ts';
import { oldSnapshotWords } from './snapshot.ts';

export const subscriberState = z.enum(['outage', 'failing', 'paused', 'delivering', 'unattached']).meta({
  id: 'SubscriberState',
  description:
    'The first that applies: `unattached`, `paused` (all its topics), `outage`, `failing` (a delivery waits for a retry, a dead letter halts a lane, or the newest outcome of every topic is a failure), `delivering`.',
});
export type SubscriberState = z.output<typeof subscriberState>;

interface StateFacts extends Pick<Counts, 'failing' | 'deadLettered'> {
  readonly isAttached: boolean;
  /** Whether all its topics are. */
  readonly isPaused: boolean;
  readonly isSilent: boolean;
  /** Whether a dead letter halts one of its lanes. */
  readonly isHalted: boolean;
  /** Whether the newest outcome is a failure. */
  readonly isRefusing: boolean;
  readonly lastDeliveredAt: string | null;
}

export function stateOf(facts: StateFacts): SubscriberState {
  const { isAttached, isPaused, isSilent, isHalted, failing, deadLettered, lastDeliveredAt } = facts;
  if (!isAttached) return 'unattached';
  if (isPaused) return 'paused';
  if (isSilent) return 'outage';
  if (failing > 0 || isHalted) return 'failing';
  // Of one that has delivered before, a refusal is settled when its dead letter is.
  if (facts.isRefusing && (deadLettered > 0 || lastDeliveredAt === null)) return 'failing';
  return 'delivering';
}

export const shownTopics = z.enum(['attention', 'all']);

const hours = z
  .object({
    delivered: z.array(shape.count).length(24),
    deadLettered: z.array(shape.count).length(24),
  })
  .meta({
    id: 'Hours',
    description:
      'Deliveries of the last 24 hours, hour by hour, the oldest first. The last hour is not over; the first number also has the part of the hour before it that is within the 24 hours.',
  });

const subscriberOverview = z
  .object({
    subscriber: z.string(),
    inCatalog: z
      .boolean()
      .describe(
        'Whether this release’s catalog lists the subscriber. Otherwise its deliveries wait for a release that does.',
      ),
    ...shapesOf({ ...countFields, ...dueFields, ...laneFields }),
    attached: z
      .boolean()
      .describe('Whether the subscriber has a handler or an endpoint. Otherwise its deliveries wait.'),
    paused: z.boolean(),
    pause: pause.nullable(),
    outage: outage.nullable().describe('While the subscriber does not answer.'),
    state: subscriberState,
  })
  .meta({
    id: 'SubscriberOverview',
    description: 'A subscriber of a topic, with its deliveries by state.',
  });

export const topicOverview = z
  .object({
    topic: shape.topic,
    producer: z.string().describe('Empty if the catalog does not have the topic.'),
    inCatalog: z.boolean().describe('Whether this release’s catalog has the topic.'),
    ...shapesOf({ ...countFields, ...dueFields, ...placeFields }),
    subscribers: z.array(subscriberOverview),
  })
  .meta({ id: 'TopicOverview', description: 'A topic with its events by state, and its subscribers.' });

export const overview = z.object({
  generatedAt: shape.instant,
  relay: z.object({
    state: z
      .enum(['running', 'stalled', 'never_run'])
      .describe('`stalled`: no relay has claimed for two minutes.'),
    lastPassAt: shape.instant.nullable(),
    runsHere: z.boolean().describe('Whether this deployment relays; a preview does not, unless `RELAY=on`.'),
    lagSeconds: z.number().nonnegative().describe('Age of the oldest delivery that is due.'),
  }),
  totals: z
    .object({
      ...shapesOf(countFields),
      deliveries: z.object(shapesOf(countFields)).meta({ id: 'Counts' }),
      deliveredLast24h: shape.count,
    })
    .describe('Events by state, and their deliveries by state.'),
  hours,
  ...openIncidentFields,
  oldestSnapshot: z
    .string()
    .nullable()
    .describe(
      'Who holds the oldest snapshot of the database, for which Postgres keeps all rows that are dead since, and how to end it; once it is older than five minutes.',
    ),
  show: shownTopics.describe('Whether the page lists quiet topics, too.'),
  topics: z
    .array(topicOverview)
    .describe('Every topic in the order of the catalog, then unlisted topics with unfinished deliveries.'),
});

export type Overview = z.output<typeof overview>;
export type BusCounts = Omit<Overview, keyof OpenIncidents | 'show'>;
export type TopicOverview = z.output<typeof topicOverview>;
export type SubscriberOverview = z.output<typeof subscriberOverview>;

/**
 * Counts the events and deliveries in each state by topic and subscriber, with the reasons why they wait.
 *
 * @param attached the subscribers attached in this process: a relay here would deliver to them.
 * @param now overrides the database's clock in tests.
 * @param runsHere whether this deployment relays.
 * @param only the one topic that is counted; null: all.
 */
export async function readOverview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
  runsHere = true,
  only: string | null = null,
): Promise<BusCounts> {
  const found = await findOverview(db, attached, now, only);
  const topics = topicsOf(found, attached, only);
  const { generatedAt, hours: byHour } = found;
  return {
    generatedAt,
    relay: {
      ...relayState(found),
      runsHere,
      lagSeconds: Math.max(0, ...topics.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0)),
    },
    totals: {
      ...sumOf(topics),
      deliveries: sumOf(topics.flatMap(({ subscribers }) => subscribers)),
      deliveredLast24h: sum(byHour.delivered),
    },
    hours: byHour,
    oldestSnapshot: oldSnapshotWords(found.oldestSnapshot),
    topics,
  };
}

/** Tells whether a relay runs. */
function relayState({ generatedAt, lastPassAt }: Found): Pick<Overview['relay'], 'state' | 'lastPassAt'> {
  if (lastPassAt === null) return { state: 'never_run', lastPassAt };
  const isStalled = Date.parse(generatedAt) - Date.parse(lastPassAt) > STALLED_AFTER_MS;
  return { state: isStalled ? 'stalled' : 'running', lastPassAt };
}

/** The catalog's topics in its order, then others that something is left of; and so the subscribers of each. */
function topicsOf(
  found: Found,
  attached: readonly AttachedSubscriber[],
  only: string | null,
): TopicOverview[] {
  const subscriptionOf = subscriptionsOf(found, attached);
  const known = new Map(found.topics.map((row) => [row.topic, row]));
  const left = found.subscriptions.filter(hasLeft);
  const others = [...found.topics.filter(hasLeft), ...left]
    .map(({ topic }) => topic)
    .filter((topic) => !isTopicName(topic));
  const all = new Set([...catalogTopics().map(([topic]) => topic), ...others.toSorted()]);
  const names = only === null ? all : [only];
  return Array.from(names, (topic) => {
    const listed = subscribersOf(topic);
    const unlisted = left
      .filter((row) => row.topic === topic && !listed.includes(row.subscriber))
      .map(({ subscriber }) => subscriber);
    const subscribers = [...listed, ...unlisted.toSorted()].map((name) => subscriptionOf(topic, name));
    const ages = subscribers.flatMap(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? []);
    const [nextRetryAt = null] = subscribers.flatMap(({ nextRetryAt: at }) => at ?? []).toSorted();
    return {
      ...known.get(topic)!,
      producer: isTopicName(topic) ? catalog[topic].producer : '',
      inCatalog: isTopicName(topic),
      oldestDueAgeSeconds: ages.length === 0 ? null : Math.max(...ages),
      nextRetryAt,
      subscribers,
    };
  });
}

/** Whether something of it still needs something. */
export function hasLeft({ pending, failing, deadLettered }: Counts): boolean {
  return pending !== 0 || failing !== 0 || deadLettered !== 0;
}

/** Makes a function that says how a subscription is, of what was found of it and of its subscriber. */
function subscriptionsOf(
  { subscriptions, pauses, outages }: Found,
  attached: readonly AttachedSubscriber[],
): (topic: string, subscriber: string) => SubscriberOverview {
  const known = new Map(subscriptions.map((row) => [`${row.topic} ${row.subscriber}`, row]));
  const heedless = heedlessOf(attached);
  return (topic, subscriber) => {
    const { topic: _, ...row } = known.get(`${topic} ${subscriber}`)!;
    const isOf = (one: { readonly subscriber: string }) => one.subscriber === subscriber;
    const isAttached = attached.some(({ name, handlers }) => name === subscriber && handlers.has(topic));
    const held = pauses.findLast((one) => isOf(one) && (one.topic ?? topic) === topic);
    const silent = heedless.has(`${topic} ${subscriber}`) ? undefined : outages.find(isOf);
    const flows = isAttached && !held && !silent;
    const isProbed = isAttached && !held && row.pending + row.failing > 0;
    return {
      ...row,
      inCatalog: subscribersOf(topic).includes(subscriber),
      attached: isAttached,
      paused: held !== undefined,
      pause: held ? withoutName(held) : null,
      outage: silent ? withoutName(silent) : null,
      state: stateOf({
        ...row,
        isAttached,
        isPaused: held !== undefined,
        isSilent: silent !== undefined,
        isHalted: row.haltedLanes > 0,
        isRefusing: isRefusing(row),
      }),
      oldestDueAgeSeconds: flows ? row.oldestDueAgeSeconds : null,
      nextRetryAt: flows ? row.nextRetryAt : (isProbed && silent?.nextProbeAt) || null,
    };
  };
}

/** Whether the newest outcome of a subscription is a failure. */
export function isRefusing({
  lastDeliveredAt,
  lastFailedAt,
}: Pick<FoundSubscription, 'lastDeliveredAt' | 'lastFailedAt'>): boolean {
  return (lastFailedAt ?? '') > (lastDeliveredAt ?? '');
}

export function withoutName<Of>(one: Of & { readonly subscriber: string }) {
  const { subscriber: _, ...of } = one;
  return of;
}

export function sumOf(rows: readonly Counts[]): Counts {
  return {
    pending: sum(rows.map(({ pending }) => pending)),
    failing: sum(rows.map(({ failing }) => failing)),
    deadLettered: sum(rows.map(({ deadLettered }) => deadLettered)),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
