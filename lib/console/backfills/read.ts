import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { backfills } from '../../../drizzle/schema.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf } from '../../platform/time.ts';
import {
  computed,
  count,
  field,
  instant,
  instantOrNull,
  instantSql,
  jsonOf,
  shapesOf,
  text,
  textOrNull,
} from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { isAttached } from '../kit/subscription.ts';

const recordFields = {
  backfillId: field(z.uuid(), 'backfills.id'),
  topic: text('backfills.topic'),
  subscriber: text('backfills.subscriber'),
  since: instant('since', 'The events since then.'),
  requestedAt: instant('requested_at'),
  requestedBy: text('requested_by'),
  reason: textOrNull('backfills.reason'),
  perMinute: field(
    z.int().positive().nullable().meta({ description: 'Null: as fast as the database can.' }),
    'per_minute',
  ),
  matched: count('matched', 'Deliveries that were missing when it began.'),
  written: count('written', 'Deliveries written so far.'),
  endedAt: instantOrNull('ended_at', 'Null while it is under way.'),
  // A stop is recorded with the moment at which it ended the backfill.
  stopped: field(
    z
      .object({ by: z.string(), reason: z.string().nullable() })
      .nullable()
      .meta({ description: 'Who ended it before everything was written.' }),
    `(
    select json_build_object('by', operator, 'reason', stop.reason) from operator_actions as stop
    where at = ended_at and action = 'stop_backfill' and stop.topic = backfills.topic
      and stop.subscriber = backfills.subscriber limit 1
  )`,
  ),
};
const record = z.object(shapesOf(recordFields));

const stateFields = {
  begunAt: instantOrNull(
    'begun_at',
    'When the first were written; null while relays finish what they claimed before.',
  ),
  nextAt: instantOrNull(
    'case when ended_at is null then next_at end',
    'When the next deliveries may be written.',
  ),
  attached: computed(z.boolean()),
  paused: field(
    z.boolean(),
    `exists (
      select from pauses where pauses.subscriber = asked.subscriber and pauses.topic in ('', asked.topic)
    )`,
  ),
};

export const backfillProgress = z
  .object({
    generatedAt: shape.instant,
    ...record.shape,
    ...shapesOf(stateFields),
    progress: z.object({ ...shape.counts, delivered: shape.count, isMore: z.boolean() }).meta({
      description:
        'The written deliveries by state. `delivered` includes those that an operator dismissed. With `isMore` they are too many to be counted, and `pending` includes newer events that wait.',
    }),
  })
  .meta({ id: 'BackfillProgress', description: 'A backfill and the states of its deliveries now.' });

type BackfillRecord = z.output<typeof record>;
export type BackfillProgress = z.output<typeof backfillProgress>;

/** Reads one backfill and counts the states of its deliveries. @returns null for an unknown one. */
export async function readBackfill(
  db: Database,
  attached: readonly AttachedSubscriber[],
  backfillId: string,
): Promise<BackfillProgress | null> {
  const [row] = await run<{ found: FoundProgress }>(driverOf(db), { text: PROGRESS, values: [backfillId] });
  if (!row) return null;
  const { record: recorded, open, waiting, deadLettered, ...found } = row.found;
  const { written } = recorded;
  const { failing } = open;
  const isMore = open.pending + failing > COUNTED;
  const pending = isMore ? Math.min(waiting, written - failing) : open.pending;
  const delivered = Math.max(0, written - pending - failing - deadLettered);
  return {
    ...found,
    ...recorded,
    attached: isAttached(recorded, attached),
    progress: { pending, failing, deadLettered, delivered, isMore },
  };
}

/** Reads what a backfill was requested for, and how far it is. */
export async function readRequest(
  db: Database,
  backfillId: string,
): Promise<Omit<BackfillRecord, 'backfillId' | 'requestedAt' | 'requestedBy' | 'reason' | 'stopped'>> {
  const [row] = await db.select().from(backfills).where(eq(backfills.id, backfillId));
  const { topic, subscriber, since, matched, written, perMinute, endedAt } = row!;
  const instants = { since: instantOf(since), endedAt: endedAt && instantOf(endedAt) };
  return { topic, subscriber, matched, written, perMinute, ...instants };
}

interface FoundProgress extends Row<typeof stateFields> {
  readonly generatedAt: string;
  readonly record: BackfillRecord;
  readonly open: { readonly pending: number; readonly failing: number };
  readonly deadLettered: number;
  /** Everything pending of the subscription, newer events too. */
  readonly waiting: number;
}

/** What a page that asks each second may count: it takes 0.1 s. */
const COUNTED = 100_000;

// What it has written are exceptions of the subscription.
const PROGRESS = `
  with asked as materialized (
    select topic, subscriber, begun_at, next_at, ended_at, ${jsonOf(recordFields)} as record
    from backfills where id = $1::uuid
  ),
  lane as materialized (
    select lanes.id from asked join lanes on lanes.topic = asked.topic and lanes.subscriber = asked.subscriber
  ),
  open as (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing
    from (
      select state from lane join exceptions on exceptions.lane = lane.id where is_open and backfilled limit ${COUNTED + 1}
    ) as counted
  ),
  dead as (
    select count(*) as count from (
      select from asked join error_groups on error_groups.topic = asked.topic and error_groups.subscriber = asked.subscriber
        join exceptions on error_group = key
      where backfilled limit ${COUNTED + 1}
    ) as counted
  )
  select ${jsonOf(stateFields, {
    generatedAt: instantSql('clock_timestamp()'),
    record: 'record',
    open: 'to_json(open)',
    deadLettered: 'dead.count',
    waiting: `(
      select coalesce(sum(pending), 0) from subscription_counts as counts
      where counts.topic = asked.topic and counts.subscriber = asked.subscriber
    )`,
  })} as found
  from asked, open, dead`;
