import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { previewBackfill } from '../../bus/deliveries/operations/backfill.ts';
import { COUNTED_SINCE, KEEP_MS } from '../../bus/deliveries/prune.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, MINUTE, SECOND } from '../../platform/time.ts';
import { computed, count, field, instantSql, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { isAttached, othersOf } from '../kit/subscription.ts';
import { backfillRequest, sinceOf } from './request.ts';
import type { ParsedBackfillRequest } from './request.ts';

const day = z.iso.date();

const prunedFields = {
  events: count('coalesce(sum(events), 0)'),
  firstDay: field(day.nullable().meta({ description: 'Days of creation, in UTC.' }), 'min(day)'),
  lastDay: field(day.nullable(), 'max(day)'),
  uncountedBefore: computed(
    day.nullable().meta({
      description:
        'Events of days before this one may have been pruned too: nobody counted them then. Null if all are counted.',
    }),
  ),
};

const heldFields = {
  paused: field(
    z.boolean(),
    "exists (select from pauses where subscriber = $2::text and topic in ('', $1::text))",
  ),
  underWay: field(
    z
      .uuid()
      .nullable()
      .meta({ description: 'A backfill of the subscription that has not ended; it has to end first.' }),
    `(
      select id from backfills
      where topic = $1::text and subscriber = $2::text and ended_at is null
    )`,
  ),
  pruned: field(
    z
      .object(shapesOf(prunedFields))
      .meta({ description: 'Events since then that were pruned, so that no backfill can reach them.' }),
    `(
      select ${jsonOf(prunedFields)}
      from pruned_events where topic = $1::text and day >= ($3::timestamptz at time zone 'utc')::date
    )`,
  ),
};

export const backfillPreview = z
  .object({
    generatedAt: shape.instant,
    request: z
      .object(backfillRequest.shape)
      .partial()
      .meta({ description: 'The request to send, with an instant as `since`, and with `expectedCount`.' }),
    backfillId: z
      .uuid()
      .meta({ description: 'An id for the backfill, so that sending the request twice writes once.' }),
    topic: shape.topic,
    subscriber: z.string(),
    since: shape.instant,
    matched: shape.count.meta({ description: 'Missing deliveries.' }),
    oldestAt: shape.instant.nullable().meta({ description: 'When the oldest of their events was recorded.' }),
    newestAt: shape.instant.nullable(),
    perMinute: z.int().positive().nullable().meta({ description: 'Null: as fast as the database can.' }),
    estimatedSeconds: shape.count.meta({ description: 'About how long the writing takes.' }),
    newerDelivered: shape.count.meta({
      description:
        'Newer events that the subscriber was handed already: the backfilled ones can’t come before them any more.',
    }),
    newerWaiting: shape.count.meta({
      description: 'Newer events that wait for the subscriber: they come after the backfilled ones.',
    }),
    others: shape.count.meta({ description: 'Number of other subscribers of the topic. They get nothing.' }),
    attached: z.boolean(),
    ...shapesOf(heldFields),
  })
  .meta({
    id: 'BackfillPreview',
    description: 'The effect that a backfill would have. Nothing was written.',
  });

export type BackfillPreview = z.output<typeof backfillPreview>;

/** Deliveries written in a second without a pace: 100,000 took 15 s on two cores that had other things to do. */
const WRITTEN_PER_SECOND = 5000;

/** Previews a backfill: which deliveries are missing, what is lost, and what would wait meanwhile. Changes nothing. */
export async function readPreview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  asked: ParsedBackfillRequest,
): Promise<BackfillPreview> {
  const { topic, subscriber, perMinute = null } = asked;
  const sinceAt = sinceOf(asked.since, Date.now());
  const since = sinceAt.toISOString();
  const missing = await previewBackfill(db, { topic, subscriber, since: sinceAt });
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: PREVIEW,
    values: [topic, subscriber, since],
  });
  const { countedSince, pruned, ...found } = row!.found;
  const { dryRun: _, reason: __, backfillId, ...request } = asked;
  const { matched, oldestAt, newestAt, alreadyDelivered, waiting } = missing;
  return {
    ...found,
    request: { ...request, since, expectedCount: matched },
    backfillId: backfillId ?? uuidv7(),
    topic,
    subscriber,
    since,
    matched,
    oldestAt,
    newestAt,
    perMinute,
    estimatedSeconds: Math.ceil(
      perMinute === null ? matched / WRITTEN_PER_SECOND : (matched / perMinute) * (MINUTE / SECOND),
    ),
    newerDelivered: alreadyDelivered,
    newerWaiting: waiting,
    others: othersOf(asked),
    attached: isAttached(asked, attached),
    pruned: {
      ...pruned,
      uncountedBefore: uncountedBefore(sinceAt.getTime(), Date.parse(found.generatedAt), countedSince),
    },
  };
}

/** Only days past retention can lack events, and only those before counting began lack a count. */
function uncountedBefore(sinceMs: number, now: number, countedSince: string | null): string | null {
  const retainedFrom = instantOf(now - KEEP_MS).slice(0, 10);
  const uncounted = countedSince !== null && countedSince < retainedFrom ? countedSince : retainedFrom;
  return instantOf(sinceMs).slice(0, 10) < uncounted ? uncounted : null;
}

interface Found extends Row<typeof heldFields> {
  readonly generatedAt: string;
  /** The day on which counting began; null if nothing was pruned since. */
  readonly countedSince: string | null;
}

const PREVIEW = `
  select ${jsonOf(heldFields, {
    generatedAt: instantSql('clock_timestamp()'),
    countedSince: `(select day from pruned_events where topic = '${COUNTED_SINCE}')`,
  })} as found`;
