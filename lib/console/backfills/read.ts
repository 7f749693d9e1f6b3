import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { backfills } from '../../../drizzle/schema.ts';
import { topicText } from '../../bus/deliveries/operations/replay-request.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';

const record = z.object({
  backfillId: z.uuid(),
  topic: shape.topic,
  subscriber: z.string(),
  since: shape.instant.meta({ description: 'The events since then.' }),
  requestedAt: shape.instant,
  requestedBy: z.string(),
  reason: z.string().nullable(),
  perMinute: z.int().positive().nullable().meta({ description: 'Null: as fast as the database can.' }),
  matched: shape.count.meta({ description: 'Deliveries that were missing when it began.' }),
  written: shape.count.meta({ description: 'Deliveries written so far.' }),
  endedAt: shape.instant.nullable().meta({ description: 'Null while it is under way.' }),
  stopped: z
    .object({ by: z.string(), reason: z.string().nullable() })
    .nullable()
    .meta({ description: 'Who ended it before everything was written.' }),
});

export const backfillList = z
  .object({
    generatedAt: shape.instant,
    items: z.array(record.meta({ id: 'BackfillRecord' })),
    nextCursor: z.uuid().nullable(),
  })
  .meta({ id: 'BackfillList', description: 'Backfills, newest first.' });

export const backfillProgress = z
  .object({
    generatedAt: shape.instant,
    ...record.shape,
    begunAt: shape.instant.nullable().meta({
      description: 'When the first were written; null while relays finish what they claimed before.',
    }),
    nextAt: shape.instant.nullable().meta({ description: 'When the next deliveries may be written.' }),
    attached: z.boolean(),
    paused: z.boolean(),
    progress: z.object({ ...shape.counts, delivered: shape.count, isMore: z.boolean() }).meta({
      description:
        'The written deliveries by state. `delivered` includes those that an operator dismissed. With `isMore` they are too many to be counted, and `pending` includes newer events that wait.',
    }),
  })
  .meta({ id: 'BackfillProgress', description: 'A backfill and the states of its deliveries now.' });

export type BackfillRecord = z.output<typeof record>;
export type BackfillList = z.output<typeof backfillList>;
export type BackfillProgress = z.output<typeof backfillProgress>;

export const listQuery = z.object({
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  limit: shape.pageLimit,
  cursor: z.uuid('expected a cursor from an earlier answer, or none').optional(),
});

export type ListQuery = z.output<typeof listQuery>;

/** Lists backfills page by page, newest first. */
export async function readBackfills(db: Database, query: ListQuery): Promise<BackfillList> {
  const { topic = null, subscriber = null, limit, cursor = null } = query;
  const [row] = await run<{ found: { now: number; items: FoundBackfill[] } }>(driverOf(db), {
    text: LIST,
    values: [topic, subscriber, cursor, limit + 1],
  });
  const { now, items } = row!.found;
  const kept = items.slice(0, limit);
  return {
    generatedAt: instantOf(now),
    items: kept.map(recordOf),
    nextCursor: items.length > limit ? (kept.at(-1)?.id ?? null) : null,
  };
}

/** Reads one backfill and counts the states of its deliveries. @returns null for an unknown one. */
export async function readBackfill(
  db: Database,
  attached: readonly AttachedSubscriber[],
  backfillId: string,
): Promise<BackfillProgress | null> {
  const [row] = await run<{ found: FoundProgress }>(driverOf(db), { text: PROGRESS, values: [backfillId] });
  if (!row) return null;
  const { now, backfill, paused, waiting, failing, dead_lettered: dead } = row.found;
  const { topic, subscriber, written, ended_at: endedAt } = backfill;
  const isMore = row.found.pending + failing > COUNTED;
  const pending = isMore ? Math.min(waiting, written - failing) : row.found.pending;
  return {
    generatedAt: instantOf(now),
    ...recordOf(backfill),
    begunAt: instantOrNull(backfill.begun_at),
    nextAt: endedAt === null ? instantOrNull(backfill.next_at) : null,
    attached: attached.some(({ name, handlers }) => name === subscriber && handlers.has(topic)),
    paused,
    progress: {
      pending,
      failing,
      deadLettered: dead,
      delivered: Math.max(0, written - pending - failing - dead),
      isMore,
    },
  };
}

/** Reads what a backfill was requested for, and how far it is. */
export async function readRequest(
  db: Database,
  backfillId: string,
): Promise<Omit<BackfillRecord, 'backfillId' | 'requestedAt' | 'requestedBy' | 'reason' | 'stopped'>> {
  const [row] = await db.select().from(backfills).where(eq(backfills.id, backfillId));
  const { topic, subscriber, since, matched, written, perMinute, endedAt } = row!;
  const instants = { since: instantOf(since), endedAt: instantOrNull(endedAt) };
  return { topic, subscriber, matched, written, perMinute, ...instants };
}

/** Times are epoch milliseconds. */
interface FoundBackfill {
  readonly id: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly since: number;
  readonly requested_at: number;
  readonly requested_by: string;
  readonly reason: string | null;
  readonly per_minute: number | null;
  readonly matched: number;
  readonly written: number;
  readonly begun_at: number | null;
  readonly next_at: number;
  readonly ended_at: number | null;
  readonly stopped: BackfillRecord['stopped'];
}

interface FoundProgress {
  readonly now: number;
  readonly backfill: FoundBackfill;
  readonly paused: boolean;
  /** Everything pending of the subscription, newer events too. */
  readonly waiting: number;
  readonly pending: number;
  readonly failing: number;
  readonly dead_lettered: number;
}

function recordOf(found: FoundBackfill): BackfillRecord {
  const { topic, subscriber, reason, matched, written, stopped } = found;
  return {
    backfillId: found.id,
    topic,
    subscriber,
    since: instantOf(found.since),
    requestedAt: instantOf(found.requested_at),
    requestedBy: found.requested_by,
    reason,
    perMinute: found.per_minute,
    matched,
    written,
    endedAt: instantOrNull(found.ended_at),
    stopped,
  };
}

// A rename has a row, too, and a log of its own.

/** A stop is recorded with the moment at which it ended the backfill. */
const RECORD = `
  backfills.id, backfills.topic, backfills.subscriber, extract(epoch from since) * 1000 as since,
  extract(epoch from requested_at) * 1000 as requested_at, requested_by, backfills.reason, per_minute, matched, written,
  extract(epoch from begun_at) * 1000 as begun_at, extract(epoch from next_at) * 1000 as next_at, extract(epoch from ended_at) * 1000 as ended_at, (
    select json_build_object('by', operator, 'reason', stop.reason) from operator_actions as stop
    where at = ended_at and action = 'stop_backfill' and stop.topic = backfills.topic
      and stop.subscriber = backfills.subscriber limit 1
  ) as stopped`;

const LIST = `
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'items', (
    select coalesce(json_agg(item), '[]') from (
      select ${RECORD} from backfills
      where renamed_from is null and ($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
        and ($3::text is null or (requested_at, id) < (
          select requested_at, id from backfills where id = $3::text::uuid
        ))
      order by requested_at desc, id desc limit $4::int
    ) as item
  )) as found`;

/** What a page that asks each second may count: it takes 0.1 s. */
const COUNTED = 100_000;

// Backfilled deliveries come before all newer ones, so those that are open lie between the head of their lane and the
// position at which the backfill ends.
const PROGRESS = `
  with asked as materialized (
    select until, ${RECORD} from backfills where id = $1::uuid and renamed_from is null
  ),
  lane as materialized (
    select lanes.id, least(head, (select min(own.head) from lanes as own where own.home_id = lanes.id)) as settled_to
    from asked, lanes
    where lanes.topic = asked.topic and lanes.subscriber = asked.subscriber and home_id is null
  ),
  open as (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing
    from (
      select state from asked, lane, lateral (
        select state from deliveries
        where lane_id = lane.id and position > settled_to and position <= asked.until and backfilled
          and state in ('pending', 'failing')
      ) as unfinished
      limit ${COUNTED + 1}
    ) as counted
  ),
  dead as (
    select count(*) as count from (
      select from asked, error_groups join deliveries on error_group = key
      where error_groups.topic = asked.topic and error_groups.subscriber = asked.subscriber and backfilled
        and position <= asked.until
      limit ${COUNTED + 1}
    ) as counted
  )
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000,
    'backfill', to_json(asked),
    'paused', exists (
      select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic)
    ),
    'waiting', (
      select coalesce(sum(pending), 0) from backlog
      where backlog.topic = asked.topic and backlog.subscriber = asked.subscriber
    ),
    'pending', open.pending, 'failing', open.failing, 'dead_lettered', dead.count) as found
  from asked, open, dead`;
