import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { DAY, HOUR } from '../../platform/time.ts';
import { PRUNE_LOCK } from './locks.ts';

export interface PruneOptions {
  readonly db: Database;
  /** Delivered events older than this are deleted. */
  readonly keepMs?: number;
  /** When to start no further batch, in milliseconds since the epoch. */
  readonly until: number;
  /** After how long a statement gives up; never by default. */
  readonly statementLimitMs?: number;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/** How many rows were deleted. */
export interface Pruned {
  readonly events: number;
  readonly deliveries: number;
}

/** A month: as far back as a replay may reach, and enough to check a month's statements against. */
export const KEEP_MS = 30 * DAY;

/** Dedupe keys that one call deletes at most; the next one deletes others. */
const KEYS = 10_000;

/** Events of one transaction; with three times as many deliveries it takes about 50 ms. */
const BATCH = 1000;

/**
 * Deletes events that are past retention and that every subscriber received, with their deliveries.
 *
 * Dead letters stay, with their events and the event's other deliveries, and so do webhook receipts and the operator log.
 * No lane moves, because everything deleted lies behind its head. Any number may run at once; all but one do nothing.
 *
 * The deleted events are counted by topic and day, so that the preview of a backfill can say what it can't reach.
 *
 * Dedupe keys of timers are deleted as long after their use, unless the timer is still set. So are errors that neither a
 * dead letter has nor an incident that is open or was closed later. `pruneAll` (lib/components/prune.ts) goes on with what
 * components keep.
 *
 * @throws the driver's error.
 */
export async function prune(options: PruneOptions): Promise<Pruned> {
  const total = { events: 0, deliveries: 0 };
  let isLastPass = false;
  while (Date.now() < options.until) {
    const batch = await pruneBatch(options);
    if (!batch) break;
    total.events += batch.events;
    total.deliveries += batch.deliveries;
    // What comes before the place where an earlier call stopped has a pass of its own.
    isLastPass ||= batch.begins_anew;
    if (batch.is_end && isLastPass) break;
  }
  await pruneOlder(options, PRUNE_ERRORS);
  await pruneOlder(options, PRUNE_KEYS);
  await pruneOlder({ ...options, keepMs: HOURS_KEPT_MS }, PRUNE_HOURS);
  await pruneOlder({ ...options, keepMs: MINUTES_KEPT_MS }, PRUNE_MINUTES);
  await pruneOlder({ ...options, keepMs: DAY }, PRUNE_HALTS);
  return total;
}

/** The overview shows a day; the week before it is kept for queries by hand. */
const HOURS_KEPT_MS = 8 * DAY;

/** The hour in which the overview's day began is read by the minute. */
const MINUTES_KEPT_MS = DAY + HOUR;

interface Batch extends Pruned {
  readonly begins_anew: boolean;
  /** Whether there are no more. */
  readonly is_end: boolean;
}

/** @returns null where another process prunes. */
async function pruneBatch(options: PruneOptions): Promise<Batch | null> {
  return await within(options, async (tx, values) => {
    const [lock] = await run<{ is_held: boolean }>(tx, { text: LOCK, values: [] });
    if (!lock!.is_held) return null;
    const [batch] = await run<Batch>(tx, { text: PRUNE, values });
    return batch!;
  });
}

/** Runs a statement of pruning, which says by `OLDEST` what is past retention, in a transaction of its own. */
export async function pruneOlder(options: PruneOptions, text: string): Promise<void> {
  await within(options, async (tx, values) => await run(tx, { text, values }));
}

/** Runs statements in a transaction. Their parameters are those of `OLDEST`. */
async function within<Result>(
  { db, keepMs = KEEP_MS, now, statementLimitMs = 0 }: PruneOptions,
  body: (tx: Transaction, values: readonly unknown[]) => Promise<Result>,
): Promise<Result> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx, statementLimitMs);
    return await body(tx, [keepMs, now?.toISOString() ?? null]);
  });
}

/** The SQL of the moment from which on all is kept. */
export const OLDEST = `coalesce($2::text::timestamptz, clock_timestamp()) - $1::float8 * interval '1 millisecond'`;

/** The name, of no topic, under which \`pruned_events\` has the day from which all pruned events are counted. */
export const COUNTED_SINCE = '';

const LOCK = `select pg_try_advisory_xact_lock(${PRUNE_LOCK}, 0) as is_held`;

// Ids are UUIDv7, so they sort by time. Examined events that are not delivered stay, and the next batch begins after
// them, whichever process it is of: else so many of them could come first that no call got any further.
const PRUNE = `
  with clock as materialized (
    select ${OLDEST} as oldest
  ),
  began as materialized (
    select max(day) as day, (array_agg(reached))[1] as after from pruned_events where topic = '${COUNTED_SINCE}'
  ),
  seen as materialized (
    -- By subqueries, so that the index gives them in their order, and ends.
    select id, state, created_at from events
    where id > (select coalesce(after, '00000000-0000-0000-0000-000000000000') from began)
      and id < (
        select (lpad(to_hex((extract(epoch from oldest) * 1000)::bigint), 12, '0') || repeat('f', 20))::uuid from clock
      )
    order by id limit ${BATCH}
  ),
  reached as materialized (
    select case when count(*) = ${BATCH} then (select id from seen order by id desc limit 1) end as id from seen
  ),
  old as materialized (
    select id from clock, seen
    where state = 'delivered' and created_at < clock.oldest
      and not exists (select from awaiting_fan_out where event_id = seen.id)
  ),
  delivery as (
    delete from deliveries using old
    where event_id between (select id from seen order by id limit 1)
      and (select id from seen order by id desc limit 1) and event_id = old.id
    returning 1
  ),
  event as (
    delete from events using old where events.id = old.id returning topic, created_at
  ),
  counted as (
    insert into pruned_events (topic, day, events, reached)
    select topic, (created_at at time zone 'utc')::date, count(*), null from event group by 1, 2
    union all
    select '${COUNTED_SINCE}', coalesce(day, (clock_timestamp() at time zone 'utc')::date), 0, id from began, reached
    on conflict (topic, day) do update set events = pruned_events.events + excluded.events, reached = excluded.reached
  )
  select (select count(*)::int from event) as events, (select count(*)::int from delivery) as deliveries,
    after is null as begins_anew, id is null as is_end
  from began, reached`;

// Errors have no time of their own: they go after their incidents. A row that a settlement has
// locked is about to be used again.
const PRUNE_ERRORS = `
  with unused as (
    select key from error_groups
    where dead_lettered = 0 and not exists (
      select from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind)
          = (error_groups.topic, error_groups.subscriber, error_groups.kind) and error_group in (key, '')
        and coalesce(closed_at, 'infinity') >= ${OLDEST}
    )
    order by key for update skip locked
  )
  delete from error_groups using unused where error_groups.key = unused.key and dead_lettered = 0`;

// The event has the key from the release of its timer on.
const PRUNE_KEYS = `
  delete from timer_dedupe_keys where ctid = any (array(
    select ctid from timer_dedupe_keys
    where at < ${OLDEST}
      and not exists (select from timers where timers.id = timer_id)
    limit ${KEYS}
  ))`;

const PRUNE_HOURS = `delete from throughput where hour < ${OLDEST}`;

const PRUNE_MINUTES = `delete from throughput_minutes where minute < ${OLDEST}`;

// Those of dead letters that an older release dealt with: while there is any halt, claims cost more. One
// that is made again is of that moment.
const PRUNE_HALTS = `
  delete from halts where halted_at < ${OLDEST} and not exists (
    select from deliveries
    where deliveries.lane_id = halts.lane_id and deliveries.position = halts.position
      and state = 'dead_lettered' and dismissed_at is null
  )`;
