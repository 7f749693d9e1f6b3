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

/** Events of one transaction, which takes about 50 ms. */
const BATCH = 1000;

/**
 * Deletes events that are past retention and that every subscriber received, with their deliveries.
 *
 * Dead letters stay, with their events and the event's other deliveries, and so do webhook receipts and the operator log.
 * No lane moves, because everything deleted lies behind all heads of its stream. The newest place of a stream stays without its
 * event, so that the next one comes after it. Any number may run at once; all but one do nothing.
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
  await pruneOlder({ ...options, keepMs: MINUTES_KEPT_MS }, PRUNE_MINUTES);
  return total;
}

/** The overview shows a day. */
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
    const [batch] = await run<Batch & { places: unknown }>(tx, { text: PRUNE, values });
    // In newer snapshots, which have what is left.
    if (batch!.events > 0) await run(tx, { text: PRUNE_JOURNAL, values: [batch!.places] });
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
const COUNTED_SINCE = '';

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
    select id, created_at from events
    where id > (select coalesce(after, '00000000-0000-0000-0000-000000000000') from began)
      and id < (
        select (lpad(to_hex((extract(epoch from oldest) * 1000)::bigint), 12, '0') || repeat('f', 20))::uuid from clock
      )
    order by id limit ${BATCH}
  ),
  reached as materialized (
    select case when count(*) = ${BATCH} then (select id from seen order by id desc limit 1) end as id from seen
  ),
  place as materialized (
    select stream, position, event_id from log
    where event_id between (select id from seen order by id limit 1) and (select id from seen order by id desc limit 1)
      and event_id in (select id from seen)
  ),
  behind as materialized (
    -- Up to here all lanes of a stream have come.
    select stream, coalesce((
        select min(head) from lanes, lateral (
          select head from journal where lane = lanes.id order by head desc, number desc limit 1
        ) as newest where lanes.stream = touched.stream
      ), 9223372036854775807) as position, (
        select position from log where log.stream = touched.stream order by position desc limit 1
      ) as tail
    from (select distinct stream from place) as touched
  ),
  old as materialized (
    select place.*, tail from clock, seen join place on event_id = seen.id join behind using (stream)
    where created_at < clock.oldest and place.position <= behind.position and not exists (
      select from lanes join exceptions on lane = lanes.id
      where lanes.stream = place.stream and exceptions.position = place.position and (is_open or dead_lettered_at is not null)
    )
  ),
  delivery as materialized (
    select old.*, lanes.id as lane
    from old join lanes using (stream) left join exceptions on lane = lanes.id and exceptions.position = old.position
    where lane is not null or subscriber = any ((
      select subscribers from audiences
      where audiences.stream = old.stream and audiences.position <= old.position order by audiences.position desc limit 1
    )::text[])
  ),
  exception as (
    delete from exceptions using delivery where exceptions.lane = delivery.lane and exceptions.position = delivery.position
  ),
  newest_place as (
    update log set event_id = null from old where log.stream = old.stream and log.position = tail and old.position = tail
  ),
  gone_place as (
    -- With what an earlier call has left of the newest one before them.
    delete from log using old
    where log.stream = old.stream and log.position < tail
      and (log.position = old.position or log.position = old.position - 1 and log.event_id is null)
  ),
  event as (
    delete from events using old where events.id = old.event_id returning topic, created_at
  ),
  counted as (
    insert into pruned_events (topic, day, events, reached)
    select topic, (created_at at time zone 'utc')::date, count(*), null from event group by 1, 2
    union all
    select '${COUNTED_SINCE}', coalesce(day, (clock_timestamp() at time zone 'utc')::date), 0, id from began, reached
    on conflict (topic, day) do update set events = pruned_events.events + excluded.events, reached = excluded.reached
  )
  select (select count(*)::int from event) as events, (select count(*)::int from delivery) as deliveries,
    after is null as begins_anew, id is null as is_end, (
      select json_agg(json_build_object('stream', stream, 'from', first, 'to', last))::text
      from (select stream, min(position) as first, max(position) as last from old group by stream) as range
    ) as places
  from began, reached`;

// What says when deliveries were made goes with the last of their places, once the cron has read it; an audience with its range.
const PRUNE_JOURNAL = `
  with pruned as materialized (
    select stream, "from" as first, coalesce((
        select position from log where log.stream = pruned.stream and position > "to" order by position limit 1
      ), "to" + 1) as next, (
        select position from log where log.stream = pruned.stream and event_id is not null order by position limit 1
      ) as oldest
    from json_to_recordset($1::text::json) as pruned(stream int, "from" bigint, "to" bigint)
  ),
  settled as (
    delete from journal using pruned, lanes join lane_totals on lane = lanes.id
    where lanes.stream = pruned.stream and journal.lane = lanes.id and journal.head >= pruned.first and journal.head < pruned.next
      and (journal.head, journal.number) <= (lane_totals.head, lane_totals.number)
      and (journal.head, journal.number) < (
        select newest.head, newest.number from journal as newest where newest.lane = lanes.id
        order by newest.head desc, newest.number desc limit 1
      )
      and not exists (
        select from log where log.stream = pruned.stream and position between coalesce(journal.first, journal.head) and journal.head
      )
  )
  delete from audiences using pruned
  where audiences.stream = pruned.stream and audiences.position < (
    select newer.position from audiences as newer
    where newer.stream = pruned.stream and newer.position <= coalesce(oldest, pruned.next)
    order by newer.position desc limit 1
  )`;

// Errors have no time of their own: they go after their incidents. A row that a settlement has locked is about to be used
// again, and one that it has just used has a dead letter in the next snapshot.
const PRUNE_ERRORS = `
  with unused as (
    select key from error_groups
    where not exists (select from exceptions where error_group = key) and not exists (
      select from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind)
          = (error_groups.topic, error_groups.subscriber, error_groups.kind) and error_group in (key, '')
        and coalesce(closed_at, 'infinity') >= ${OLDEST}
    )
    order by key for update skip locked
  )
  delete from error_groups using unused where error_groups.key = unused.key`;

// The event has the key from the release of its timer on.
const PRUNE_KEYS = `
  delete from timer_dedupe_keys where ctid = any (array(
    select ctid from timer_dedupe_keys
    where at < ${OLDEST}
      and not exists (select from timers where timers.id = timer_id)
    limit ${KEYS}
  ))`;

const PRUNE_MINUTES = `delete from throughput_minutes where minute < ${OLDEST}`;
