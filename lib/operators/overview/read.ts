import { catalog, isTopicName, topics as catalogTopics } from '../../catalog/catalog.ts';
import type { Database } from '../../db/connect.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { MINUTE, SECOND, instantOf, instantOrNull } from '../../time.ts';
import { findOverview } from './found.ts';
import type { Found, FoundTotal } from './found.ts';

/** How many are in each state that still needs something; the delivered ones are done. */
export interface Counts {
  readonly pending: number;
  readonly failing: number;
  readonly deadLettered: number;
}

/** The bus at one moment. Instants are ISO 8601 in UTC, by the database's clock; all counts are exact. */
export interface Overview {
  readonly generatedAt: string;
  readonly relay: RelayHealth;
  /** Events; an event's state is the worst of its deliveries. */
  readonly totals: Counts & {
    readonly deliveries: Counts;
    readonly deliveredLast24h: number;
    /** Of those delivered in the last 24 hours, how many were at the first attempt. */
    readonly firstAttemptLast24h: number;
  };
  /** Deliveries of the last 24 hours, hour by hour, the oldest first. */
  readonly hours: Hours;
  /** The error that most dead letters share; null when there are none. */
  readonly worstError: WorstError | null;
  /** Every topic of the catalog, in its order; then those that it does not have and that still hold something. */
  readonly topics: readonly TopicOverview[];
}

export interface RelayHealth {
  /** `stalled`: no relay has looked for work for longer than two runs of the cron. */
  readonly state: 'running' | 'stalled' | 'never_run';
  readonly lastPassAt: string | null;
  /** Whether this deployment relays. A preview does not, unless `RELAY=on`: another one may, on the same database. */
  readonly runsHere: boolean;
  /** Age of the oldest delivery that is due and attached; 0 when none is. */
  readonly lagSeconds: number;
}

/** 24 numbers each. */
export interface Hours {
  readonly delivered: readonly number[];
  readonly deadLettered: readonly number[];
}

export interface WorstError {
  readonly group: string;
  readonly kind: string;
  readonly message: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
  /** When the subscription last delivered anything; null when it never has. */
  readonly lastDeliveredAt: string | null;
}

/** A topic with its events by state, and below it its subscribers with their deliveries. */
export interface TopicOverview extends Counts {
  readonly topic: string;
  /** Empty where the catalog does not have the topic. */
  readonly producer: string;
  /** Whether this release's catalog has the topic. Its events are fanned out in any case. */
  readonly inCatalog: boolean;
  /** Of the deliveries that could be handed over now: not those that wait for a retry, or behind one. Null: none. */
  readonly oldestDueAgeSeconds: number | null;
  readonly nextRetryAt: string | null;
  /** Events that have no deliveries yet; part of `pending`, and of each subscriber's. */
  readonly awaitingFanOut: number;
  /**
   * Since when a producer's open transaction holds back the topic's events; null when none does. Only told once it has
   * lasted longer than a transaction should.
   */
  readonly heldBackSince: string | null;
  readonly hours: Hours;
  readonly subscribers: readonly SubscriberOverview[];
}

export interface SubscriberOverview extends Counts {
  readonly subscriber: string;
  /** Whether this release's catalog lists it for the topic. Where it does not, its deliveries wait for one that does. */
  readonly inCatalog: boolean;
  /** The payload version that its next event is written in, where that is newer than this release can read. */
  readonly neededVersion: number | null;
  /** Whether it has a handler or an endpoint. Its deliveries wait otherwise, and flow when it is attached. */
  readonly attached: boolean;
  readonly paused: boolean;
  /** The pause that holds it back: of this topic alone, or of the subscriber as a whole. */
  readonly pause: Pause | null;
  readonly oldestDueAgeSeconds: number | null;
  readonly nextRetryAt: string | null;
  readonly lastDeliveredAt: string | null;
  readonly lastFailedAt: string | null;
}

interface Pause {
  /** Null: all its topics. */
  readonly topic: string | null;
  readonly pausedAt: string;
  readonly pausedBy: string;
  readonly reason: string;
}

/** The cron calls once a minute: two calls have been missed. */
const STALLED_AFTER_MS = 2 * MINUTE;

/**
 * Tells how much is where, and what waits for what: for every topic of the catalog and each of its subscribers.
 *
 * One statement, whose cost does not grow with the number of deliveries: counts are kept, not counted.
 *
 * @param attached who is attached in this process, which is who a relay here would deliver to.
 * @param now overrides the database's clock in tests.
 * @param runsHere whether this deployment relays.
 */
export async function readOverview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
  runsHere = true,
): Promise<Overview> {
  const handled = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  return overviewOf(await findOverview(db, handled, now), handled, runsHere);
}

function overviewOf(found: Found, handled: ReadonlySet<string>, runsHere: boolean): Overview {
  const topics = topicsOf(found, handled);
  const subscribers = topics.flatMap((topic) => topic.subscribers);
  const ages = topics.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0);
  const { worst } = found;
  const worstTotal = found.totals.find(
    ({ topic, subscriber }) => topic === worst?.topic && subscriber === worst.subscriber,
  );
  return {
    generatedAt: instantOf(found.now),
    relay: { ...relayState(found), runsHere, lagSeconds: Math.max(0, ...ages) },
    totals: {
      ...sumOf(topics),
      deliveries: sumOf(subscribers),
      deliveredLast24h: sum(found.hours, ({ delivered }) => delivered),
      firstAttemptLast24h: sum(found.hours, ({ first_attempt: first }) => first),
    },
    hours: hoursOf(found.hours),
    worstError: worst && { ...worst, lastDeliveredAt: instantOrNull(worstTotal?.last_delivered ?? null) },
    topics,
  };
}

function relayState({ now, last_pass: lastPass }: Found): Pick<RelayHealth, 'state' | 'lastPassAt'> {
  if (lastPass === null) return { state: 'never_run', lastPassAt: null };
  const state = now - lastPass > STALLED_AFTER_MS ? 'stalled' : 'running';
  return { state, lastPassAt: instantOf(lastPass) };
}

function topicsOf(found: Found, handled: ReadonlySet<string>): TopicOverview[] {
  const totals = byKey(found.totals);
  const waits = byKey(found.waits);
  const pauses = byKey(found.pauses);
  const awaiting = byKey(found.awaiting);
  const unlisted = unlistedOf(found);
  const subscriberOf = (topic: string, subscriber: string): SubscriberOverview => {
    const key = `${topic} ${subscriber}`;
    const pause = pauses.get(key) ?? pauses.get(` ${subscriber}`) ?? null;
    const attached = handled.has(key);
    const flows = attached && !pause;
    const total = totals.get(key);
    const waiting = awaiting.get(key);
    const wait = waits.get(key);
    const dueSince = flows ? earliest(wait?.due_since, waiting?.oldest) : null;
    return {
      subscriber,
      inCatalog: !unlisted.get(topic)?.has(subscriber),
      neededVersion: wait?.needed_version ?? null,
      ...countsOf(total, waiting?.events ?? 0),
      attached,
      paused: pause !== null,
      pause: pause && {
        topic: pause.topic || null,
        pausedAt: instantOf(pause.at),
        pausedBy: pause.by,
        reason: pause.reason,
      },
      oldestDueAgeSeconds: dueSince === null ? null : tenths(Math.max(0, (found.now - dueSince) / SECOND)),
      nextRetryAt: flows ? instantOrNull(wait?.next_retry ?? null) : null,
      lastDeliveredAt: instantOrNull(total?.last_delivered ?? null),
      lastFailedAt: instantOrNull(total?.last_failed ?? null),
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
      ...countsOf(totals.get(`${topic} `), waiting?.events ?? 0),
      oldestDueAgeSeconds: greatest(rows.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds)),
      nextRetryAt:
        rows
          .map(({ nextRetryAt }) => nextRetryAt)
          .filter((at) => at !== null)
          .toSorted()[0] ?? null,
      awaitingFanOut: waiting?.events ?? 0,
      heldBackSince: instantOrNull(waiting?.held_back_since ?? null),
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

/** By topic, the subscribers that still hold something and that the catalog does not list for it. */
function unlistedOf({ totals, awaiting }: Found): Map<string, Set<string>> {
  const holding = [
    ...totals.filter((row) => row.pending !== 0 || row.failing !== 0 || row.dead_lettered !== 0),
    ...awaiting,
  ];
  const unlisted = new Map<string, Set<string>>();
  for (const { topic, subscriber } of holding) {
    const listed: readonly string[] = isTopicName(topic) ? catalog[topic].subscribers : [];
    if (isTopicName(topic) && (subscriber === '' || listed.includes(subscriber))) continue;
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

/** @param awaiting events that have no deliveries yet. */
function countsOf(total: FoundTotal | undefined, awaiting: number): Counts {
  const { pending = 0, failing = 0, dead_lettered: deadLettered = 0 } = total ?? {};
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
    delivered[23 - row.ago]! += row.delivered;
    deadLettered[23 - row.ago]! += row.dead_lettered;
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
