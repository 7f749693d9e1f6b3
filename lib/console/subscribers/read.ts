import * as z from 'zod';

import { topicsOf } from '../../bus/subscribers/subscriber.ts';
import { backlogAgeOf } from '../../components/subscriber-health/backlog-ages.ts';
import { addHistograms, quantileMs } from '../../components/subscriber-health/buckets.ts';
import type { Database } from '../../platform/db/connect.ts';
import { DAY, HOUR, SECOND, instantOf } from '../../platform/time.ts';
import { gap, readGaps } from '../backfills/gaps.ts';
import { incident, incidentOf } from '../incidents/incident.ts';
import { shapesOf } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { subscriptionFields, subscriptionsIn } from '../kit/subscription.ts';
import type { Attachments } from '../kit/subscription.ts';
import { LISTED_LANES, heldLane, heldLaneOf } from '../held-lanes/held-lane.ts';
import { actionFields, findHealth, INCIDENTS, leftFields } from './found.ts';
import type { Found, FoundPeriod } from './found.ts';
import { readStandings, subscriberStanding } from './standing.ts';

export const spans = z.enum(['hours', 'days']);
export type Span = z.output<typeof spans>;

/** How long each interval of a span is, and how many there are. */
const SPANS: Readonly<Record<Span, { readonly everyMs: number; readonly number: number }>> = {
  hours: { everyMs: HOUR, number: 48 },
  days: { everyMs: DAY, number: 30 },
};

const times = z.object({ p50: z.number().nonnegative(), p95: z.number().nonnegative() }).nullable().meta({
  id: 'Times',
  description:
    'Milliseconds, estimated from buckets of which each is 1.4 times the one before it. Null where there was nothing to measure.',
});

const measured = {
  delivered: shape.count.meta({ description: 'First deliveries, without replays.' }),
  failedAttempts: shape.count.meta({
    description: 'Failed attempts, including the last one before a dead letter.',
  }),
  deadLettered: shape.count.meta({ description: 'Dead letters, without those of replays.' }),
  replays: z
    .object({ delivered: shape.count, deadLettered: shape.count })
    .meta({ description: 'What became of replayed deliveries.' }),
  deliveredInMs: times.meta({
    description:
      'Time from an event’s record, just before its commit, until it was delivered; without replays.',
  }),
  handlerMs: times.meta({ description: 'Time that the handler took, of all attempts.' }),
  backlogAgeSeconds: z.number().nonnegative().nullable().meta({
    description:
      'Age of the oldest unfinished delivery, sampled once a minute: the greatest. Null if there was none.',
  }),
};

const interval = z
  .object({ startsAt: shape.instant, ...measured })
  .meta({ id: 'HealthInterval', description: 'One hour, or one day of UTC.' });

const action = z
  .object(shapesOf(actionFields))
  .meta({ id: 'HealthAction', description: 'What an operator did to the subscriber’s deliveries.' });

export const subscriberHealth = z
  .object({
    generatedAt: shape.instant,
    items: z.tuple([subscriberStanding]).meta({ description: 'The subscriber as it is now.' }),
    waitsForSeconds: z.number().nonnegative().nullable().meta({
      description:
        'How long the delivery that waits longest has waited, also for a retry or the end of a pause. Null if none waits.',
    }),
    subscriber: z.string(),
    topic: shape.topic.nullable().meta({ description: 'Null: all its topics.' }),
    topics: z.array(shape.topic).meta({ description: 'The topics that it subscribes to, or did.' }),
    unlisted: z.array(z.object(shapesOf(leftFields))).meta({
      description: 'What is left in topics for which this release’s catalog does not list the subscriber.',
    }),
    subscriptions: z
      .array(z.object({ topic: shape.topic, ...subscriptionFields }))
      .meta({ description: 'The topics that this release’s catalog lists the subscriber for.' }),
    incidents: z
      .array(incident)
      .max(INCIDENTS)
      .meta({ description: 'What goes wrong with it now, and what is over with dead letters left.' }),
    heldLanes: z
      .array(heldLane)
      .max(LISTED_LANES)
      .meta({ description: 'Its lanes whose first delivery waits for a retry, by their next attempt.' }),
    span: spans,
    whole: z.object(measured).meta({ description: 'The whole span.' }),
    intervals: z.array(interval).meta({
      description: 'The oldest first. The last is not over. Hours and days are those of UTC.',
    }),
    actions: z.array(action).meta({ description: 'Newest first, at most 100.' }),
    gaps: z.array(gap).meta({ description: 'Its topics of which it lacks older events.' }),
  })
  .meta({ id: 'SubscriberHealth', description: 'A subscriber as it is now, and its health over time.' });

export type SubscriberHealth = z.output<typeof subscriberHealth>;
export type HealthInterval = z.output<typeof interval>;
export type HealthSubscription = SubscriberHealth['subscriptions'][number];
export type HealthAction = z.output<typeof action>;
type Measured = Omit<HealthInterval, 'startsAt'>;
export type Times = z.output<typeof times>;

export interface HealthRequest {
  readonly subscriber: string;
  /** All topics when left out. */
  readonly topic?: string | undefined;
  readonly span: Span;
  readonly attachments: Attachments;
}

/**
 * Reads how a subscriber is, how it did in the last 48 hours or 30 days, and what it lacks. The cost does not grow with the number
 * of deliveries.
 *
 * @param now overrides the database's clock in tests.
 * @returns null for a subscriber that neither the catalog nor any delivery names.
 */
export async function readSubscriberHealth(
  db: Database,
  { subscriber, topic, span, attachments }: HealthRequest,
  now?: Date,
): Promise<SubscriberHealth | null> {
  const listed = topicsOf(subscriber);
  const asked = listed.filter((name) => topic === undefined || name === topic);
  const [found, standings, waitsForMs, gaps] = await Promise.all([
    findHealth(db, { subscriber, topic: topic ?? '', listed, ...SPANS[span] }, now),
    readStandings(db, attachments.subscribers(), subscriber),
    backlogAgeOf(db, subscriber, now),
    readGaps(
      db,
      asked.map((name) => ({ topic: name, subscriber })),
    ),
  ]);
  const topics = [...new Set([...listed, ...found.topics])].toSorted();
  const [standing] = standings.items;
  if (!standing) return null;
  const subscriptionOf = subscriptionsIn(attachments);
  return {
    generatedAt: found.generatedAt,
    items: [standing],
    waitsForSeconds: waitsForMs === null ? null : tenths(waitsForMs / SECOND),
    subscriber,
    topic: topic ?? null,
    topics,
    unlisted: found.left.filter((left) => !listed.some((name) => name === left.topic)),
    subscriptions: listed.map((name) => ({ topic: name, ...subscriptionOf(name, subscriber) })),
    incidents: found.incidents.map((one) => incidentOf(one)),
    heldLanes: found.held.map((lane) => heldLaneOf(lane, attachments.subscribers())),
    span,
    whole: measuredOf(found.periods),
    intervals: intervalsOf(found, SPANS[span]),
    actions: [...found.actions],
    gaps,
  };
}

function intervalsOf({ from, periods }: Found, { everyMs, number }: (typeof SPANS)[Span]): HealthInterval[] {
  return Array.from({ length: number }, (_, index) => {
    const startsAt = from + index * everyMs;
    const within = periods.filter((one) => one.starts_at >= startsAt && one.starts_at < startsAt + everyMs);
    return { startsAt: instantOf(startsAt), ...measuredOf(within) };
  });
}

/** Adds up hours and days. */
function measuredOf(periods: readonly FoundPeriod[]): Measured {
  const sum = (of: (period: FoundPeriod) => number) =>
    periods.reduce((total, period) => total + of(period), 0);
  const ages = periods.flatMap(({ backlog_age_ms: age }) => age ?? []);
  return {
    delivered: sum(({ delivered }) => delivered),
    failedAttempts: sum(({ failed }) => failed),
    deadLettered: sum(({ dead_lettered: dead }) => dead),
    replays: {
      delivered: sum(({ replays_delivered: delivered }) => delivered),
      deadLettered: sum(({ replays_dead_lettered: dead }) => dead),
    },
    deliveredInMs: timesOf(periods.map(({ delivered_in: counts }) => counts)),
    handlerMs: timesOf(periods.map(({ handled_in: counts }) => counts)),
    backlogAgeSeconds: ages.length === 0 ? null : tenths(Math.max(...ages) / SECOND),
  };
}

function timesOf(histograms: readonly (readonly number[])[]): Times {
  const counts = addHistograms(histograms);
  const p50 = quantileMs(counts, 0.5);
  const p95 = quantileMs(counts, 0.95);
  return p50 === null || p95 === null ? null : { p50: tenths(p50), p95: tenths(p95) };
}

function tenths(number: number): number {
  return Math.round(number * 10) / 10;
}
