import * as z from 'zod';

import { catalog, isTopicName, subscribersOf, topics as catalogTopics } from '../../bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { MINUTE, SECOND, instantOf, instantOrNull } from '../../platform/time.ts';
import { openIncidentFields } from '../incidents/open.ts';
import type { OpenIncidents } from '../incidents/open.ts';
import { heedlessOf, outage } from '../incidents/outage.ts';
import { shapesOf } from '../kit/fields.ts';
import { pause } from '../kit/pauses.ts';
import { preparedOf, preparedTransaction } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';
import type { Counts } from '../kit/shapes.ts';
import { countFields, findOverview, lastFields } from './found.ts';
import type { Found } from './found.ts';
import { oldSnapshot, oldSnapshotOf } from './old-snapshot.ts';

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

const oldestAge = z
  .number()
  .nonnegative()
  .nullable()
  .meta({ description: 'Age of the oldest delivery that is due; null if none is.' });

const subscriberOverview = z
  .object({
    subscriber: z.string(),
    inCatalog: z.boolean().meta({
      description:
        'Whether this release’s catalog lists the subscriber. Otherwise its deliveries wait for a release that does.',
    }),
    neededVersion: z.int().positive().nullable().meta({
      description: 'The payload version of its next event, if this release cannot read it yet.',
    }),
    ...shapesOf(countFields),
    attached: z.boolean().meta({
      description: 'Whether the subscriber has a handler or an endpoint. Otherwise its deliveries wait.',
    }),
    paused: z.boolean(),
    pause: pause.nullable(),
    outage: outage.nullable().meta({ description: 'While the subscriber does not answer.' }),
    haltedLanes: shape.count.meta({
      description: 'Lanes, or ordering keys in them, that wait until a dead letter is replayed or dismissed.',
    }),
    oldestDueAgeSeconds: oldestAge,
    nextRetryAt: shape.instant.nullable(),
    ...shapesOf(lastFields),
  })
  .meta({
    id: 'SubscriberOverview',
    description: 'A subscriber of a topic, with its deliveries by state.',
  });

export const topicOverview = z
  .object({
    topic: shape.topic,
    producer: z.string().meta({ description: 'Empty if the catalog does not have the topic.' }),
    inCatalog: z.boolean().meta({ description: 'Whether this release’s catalog has the topic.' }),
    ...shapesOf(countFields),
    oldestDueAgeSeconds: oldestAge,
    nextRetryAt: shape.instant.nullable(),
    awaitingPlace: shape.count.meta({
      description: 'Events that wait for their places in the order; included in `pending`.',
    }),
    heldBackSince: shape.instant.nullable().meta({
      description: 'The time since which a producer’s open transaction has held back the topic’s events.',
    }),
    heldBackBy: preparedTransaction.nullable().meta({
      description: 'The transaction that holds them back, if it is prepared and was never ended.',
    }),
    hours,
    subscribers: z.array(subscriberOverview),
  })
  .meta({ id: 'TopicOverview', description: 'A topic with its events by state, and its subscribers.' });

export const overview = z.object({
  generatedAt: shape.instant,
  relay: z.object({
    state: z
      .enum(['running', 'stalled', 'never_run'])
      .meta({ description: '`stalled`: no relay has claimed for two minutes.' }),
    lastPassAt: shape.instant.nullable(),
    runsHere: z
      .boolean()
      .meta({ description: 'Whether this deployment relays; a preview does not, unless `RELAY=on`.' }),
    lagSeconds: z.number().nonnegative().meta({ description: 'Age of the oldest delivery that is due.' }),
  }),
  totals: z
    .object({
      ...shapesOf(countFields),
      deliveries: z.object(shapesOf(countFields)).meta({ id: 'Counts' }),
      deliveredLast24h: shape.count,
      replaysLast24h: z.object({ delivered: shape.count, deadLettered: shape.count }).meta({
        description:
          'How many of these had been replayed, and how many replayed ones died again; approximate.',
      }),
      deliveredShareLast24h: z.number().min(0).max(1).nullable().meta({
        description:
          'The share of delivered ones among those delivered and dead-lettered, without replays. Null if there were none.',
      }),
    })
    .meta({ description: 'Events by state, and their deliveries by state.' }),
  hours,
  ...openIncidentFields,
  oldestSnapshot: oldSnapshot.nullable().meta({
    description: 'Who holds the oldest snapshot of the database, once it is older than five minutes.',
  }),
  topics: z.array(topicOverview).meta({
    description: 'Every topic in the order of the catalog, then unlisted topics with unfinished deliveries.',
  }),
});

export type Overview = z.output<typeof overview>;
export type BusCounts = Omit<Overview, keyof OpenIncidents>;
export type Hours = z.output<typeof hours>;
export type TopicOverview = z.output<typeof topicOverview>;
export type SubscriberOverview = z.output<typeof subscriberOverview>;

/** The cron calls once a minute, so two calls were missed. */
export const STALLED_AFTER_MS = 2 * MINUTE;

/**
 * Counts the events and deliveries in each state by topic and subscriber, with the reasons why they wait.
 *
 * One statement whose cost does not grow with the number of deliveries, but with that of lanes and exceptions.
 *
 * @param attached the subscribers attached in this process: a relay here would deliver to them.
 * @param now overrides the database's clock in tests.
 * @param runsHere whether this deployment relays.
 */
export async function readOverview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
  runsHere = true,
): Promise<BusCounts> {
  const handled = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  return overviewOf(await findOverview(db, handled, now), handled, heedlessOf(attached), runsHere);
}

/** @param heedless the subscriptions of `handled` that do not wait while their subscriber does not answer. */
function overviewOf(
  found: Found,
  handled: ReadonlySet<string>,
  heedless: ReadonlySet<string>,
  runsHere: boolean,
): BusCounts {
  const topics = topicsOf(found, handled, heedless);
  const subscribers = topics.flatMap((topic) => topic.subscribers);
  const ages = topics.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0);
  return {
    generatedAt: instantOf(found.now),
    relay: { ...relayState(found), runsHere, lagSeconds: Math.max(0, ...ages) },
    totals: {
      ...sumOf(topics),
      deliveries: sumOf(subscribers),
      deliveredLast24h: sum(found.hours, ({ delivered }) => delivered),
      ...shareOf(found),
    },
    hours: hoursOf(found.hours),
    oldestSnapshot: oldSnapshotOf(found.oldest_snapshot),
    topics,
  };
}

function shareOf({ hours: found, replays }: Found) {
  // Replays are written a few seconds after the deliveries are counted.
  const delivered = Math.max(0, sum(found, (hour) => hour.delivered) - replays.delivered);
  const dead = Math.max(0, sum(found, (hour) => hour.dead_lettered) - replays.deadLettered);
  return {
    replaysLast24h: replays,
    deliveredShareLast24h: delivered + dead === 0 ? null : delivered / (delivered + dead),
  };
}

/** Tells whether a relay runs. Both are epoch milliseconds. @param lastPass null: none ever ran. */
export function relayState({
  now,
  last_pass: lastPass,
}: Pick<Found, 'now' | 'last_pass'>): Pick<Overview['relay'], 'state' | 'lastPassAt'> {
  if (lastPass === null) return { state: 'never_run', lastPassAt: null };
  const state = now - lastPass > STALLED_AFTER_MS ? 'stalled' : 'running';
  return { state, lastPassAt: instantOf(lastPass) };
}

function topicsOf(
  found: Found,
  handled: ReadonlySet<string>,
  heedless: ReadonlySet<string>,
): TopicOverview[] {
  const totals = byKey(found.totals);
  const waits = byKey(found.waits);
  const pauses = byKey(found.pauses);
  const awaiting = byKey(found.awaiting);
  const silent = new Map(found.outages.map(({ subscriber, ...facts }) => [subscriber, facts]));
  const unlisted = unlistedOf(found);
  const subscriberOf = (topic: string, subscriber: string): SubscriberOverview => {
    const key = `${topic} ${subscriber}`;
    const { pause: held = null } = pauses.get(key) ?? pauses.get(` ${subscriber}`) ?? {};
    const attached = handled.has(key);
    const down = heedless.has(key) ? null : (silent.get(subscriber) ?? null);
    const flows = attached && !held && !down;
    const waiting = awaiting.get(key);
    const total = totals.get(key);
    const counts = countsOf(total, waiting?.events);
    const nextProbe = attached && !held && counts.pending + counts.failing > 0 ? down?.nextProbeAt : null;
    const wait = waits.get(key);
    const dueSince = flows ? earliest(wait?.due_since, waiting?.oldest) : null;
    return {
      subscriber,
      inCatalog: !unlisted.get(topic)?.has(subscriber),
      neededVersion: wait?.needed_version ?? null,
      ...counts,
      attached,
      paused: held !== null,
      pause: held,
      outage: down,
      haltedLanes: total?.halted ?? 0,
      oldestDueAgeSeconds: dueSince === null ? null : tenths(Math.max(0, (found.now - dueSince) / SECOND)),
      nextRetryAt: flows ? instantOrNull(wait?.next_retry ?? null) : (nextProbe ?? null),
      lastDeliveredAt: total?.lastDeliveredAt ?? null,
      lastFailedAt: total?.lastFailedAt ?? null,
    };
  };
  const topicOf = (topic: string, listed: readonly string[]): TopicOverview => {
    const rows = [...listed, ...[...(unlisted.get(topic) ?? [])].toSorted()].map((name) =>
      subscriberOf(topic, name),
    );
    const waiting = awaiting.get(`${topic} `);
    return {
      topic,
      producer: isTopicName(topic) ? catalog[topic].producer : '',
      inCatalog: isTopicName(topic),
      ...countsOf(totals.get(`${topic} `), waiting?.events),
      oldestDueAgeSeconds: greatest(rows.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds)),
      nextRetryAt:
        rows
          .map(({ nextRetryAt }) => nextRetryAt)
          .filter((at) => at !== null)
          .toSorted()[0] ?? null,
      awaitingPlace: waiting?.events ?? 0,
      heldBackSince: instantOrNull(waiting?.held_back?.since ?? null),
      heldBackBy: preparedOf(waiting?.held_back),
      hours: hoursOf(found.hours.filter((hour) => hour.topic === topic)),
      subscribers: rows,
    };
  };
  return [
    ...catalogTopics().map(([topic, { subscribers }]) => topicOf(topic, subscribers)),
    ...[...unlisted.keys()]
      .filter((topic) => !isTopicName(topic))
      .toSorted()
      .map((topic) => topicOf(topic, [])),
  ];
}

/** By topic, the unlisted subscribers that still have unfinished deliveries. */
function unlistedOf({ totals, awaiting }: Found): Map<string, Set<string>> {
  const holding = [
    ...totals.filter((row) => row.pending !== 0 || row.failing !== 0 || row.deadLettered !== 0),
    ...awaiting,
  ];
  const unlisted = new Map<string, Set<string>>();
  for (const { topic, subscriber } of holding) {
    if (subscriber === '' ? isTopicName(topic) : subscribersOf(topic).includes(subscriber)) continue;
    const names = unlisted.get(topic) ?? new Set();
    // An empty name stands for the topic's events.
    unlisted.set(topic, subscriber === '' ? names : names.add(subscriber));
  }
  return unlisted;
}

function tenths(seconds: number): number {
  return Math.round(seconds * 10) / 10;
}

function byKey<Row extends { topic: string; subscriber: string }>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [`${row.topic} ${row.subscriber}`, row]));
}

/** @param awaiting events that wait for their places. */
function countsOf(total: Counts | undefined, awaiting = 0): Counts {
  const { pending = 0, failing = 0, deadLettered = 0 } = total ?? {};
  return { pending: pending + awaiting, failing, deadLettered };
}

function sumOf(rows: readonly Counts[]): Counts {
  return {
    pending: sum(rows, ({ pending }) => pending),
    failing: sum(rows, ({ failing }) => failing),
    deadLettered: sum(rows, ({ deadLettered }) => deadLettered),
  };
}

function sum<Row>(rows: readonly Row[], of: (row: Row) => number): number {
  return rows.reduce((total, row) => total + of(row), 0);
}

function hoursOf(rows: Found['hours']): Hours {
  const delivered = Array.from({ length: 24 }, () => 0);
  const deadLettered = Array.from({ length: 24 }, () => 0);
  for (const row of rows) {
    const index = Math.max(0, 23 - row.ago);
    delivered[index]! += row.delivered;
    deadLettered[index]! += row.dead_lettered;
  }
  return { delivered, deadLettered };
}

function earliest(...times: readonly (number | null | undefined)[]): number | null {
  const known = times.filter((time) => time !== null && time !== undefined);
  return known.length > 0 ? Math.min(...known) : null;
}

function greatest(ages: readonly (number | null)[]): number | null {
  const known = ages.filter((age) => age !== null);
  return known.length > 0 ? Math.max(...known) : null;
}
