import { ADD_TO_BACKLOG, ADD_TO_ERROR_GROUPS, ADD_TO_THROUGHPUT, EVENTS_MOVED, eventState } from './tally.ts';
import type { ErrorGroup } from './error-group.ts';
import type { Database, Transaction } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';

/** What to do with a lane once its outcomes are recorded. All times are epoch milliseconds of the database's clock. */
export interface LaneOutcome {
  readonly id: string;
  readonly token: string;
  /** The lane's head when this relay last read or wrote it. */
  readonly from: number;
  /** The lane's new head: all up to here is settled. */
  readonly to: number;
  /** When the delivery at the head may be tried again; null when nothing there waits. */
  readonly retryAtMs: number | null;
  /** Until when the relay keeps the lane; null to let it go. */
  readonly keepUntilMs: number | null;
  /** Claim one by one up to here; null to leave it as it is. */
  readonly carefulTo: number | null;
  /** The payload version that the next delivery needs a newer release for; null when this one can read it. */
  readonly neededVersion: number | null;
  readonly delivered: readonly DeliveredAttempt[];
  readonly unfinished: readonly UnfinishedAttempt[];
}

export interface DeliveredAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
}

/** An attempt that did not deliver. */
export interface UnfinishedAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
  /** `waited`: the handler asked for time, which is no attempt. */
  readonly outcome: 'failed' | 'waited';
  /** Null: this was the last attempt, the delivery is a dead letter. */
  readonly nextAttemptAtMs: number | null;
  /** The error's class or code. */
  readonly kind: string;
  readonly message: string;
  /** Set exactly when this was the last attempt. */
  readonly errorGroup: ErrorGroup | null;
}

export interface Settled {
  readonly delivered: number;
  readonly failed: number;
  readonly waited: number;
  readonly deadLettered: number;
  /** The lanes that this relay still held; nothing of the others was changed. */
  readonly held: ReadonlySet<string>;
}

/**
 * A prepared statement is soon planned for good, and for small settlements that is a loop over all pairs of deliveries
 * and stretches: 2,500 deliveries of one lane took it a second, 18,000 sixteen. Larger ones are planned each time, for
 * 2 ms or so, which so many pay.
 */
const PREPARED_UP_TO = 64;

/**
 * Records outcomes and lets the lanes go (or keeps them), in one statement of its own.
 *
 * A lane whose token is no longer this relay's is passed over with all its outcomes. Running it twice changes nothing
 * the second time, so it may be repeated when the connection broke.
 *
 * @param now overrides the database's clock in tests; ISO 8601.
 */
export async function settle(
  db: Database,
  lanes: readonly LaneOutcome[],
  now: string | null,
): Promise<Settled> {
  const delivered = lanes.flatMap((lane) => stretchesOf(lane));
  const unfinished = lanes.flatMap((lane) =>
    lane.unfinished.map((attempt) => unfinishedRow(lane.id, attempt)),
  );
  const outcomes = lanes.reduce((sum, lane) => sum + lane.delivered.length + lane.unfinished.length, 0);
  const [row] = await run<Omit<Settled, 'held'> & { held: string }>(driverOf(db), {
    ...(outcomes <= PREPARED_UP_TO && { name: 'settle' }),
    text: SETTLE,
    values: [
      JSON.stringify(lanes.map(laneRow)),
      arrayLiteral(delivered.map(({ lane }) => lane)),
      arrayLiteral(delivered.map(({ positions }) => `"${arrayLiteral(positions)}"`)),
      arrayLiteral(delivered.map(({ atMs }) => atMs)),
      arrayLiteral(delivered.map(({ durationMs }) => durationMs)),
      JSON.stringify(unfinished),
      now,
    ],
  });
  const { held, ...counts } = row!;
  return { ...counts, held: new Set(held.split(',')) };
}

/** This relay no longer holds the lane: another one has taken over what it was doing. */
export class LeaseLost extends Error {
  readonly code = 'lease_lost';

  constructor() {
    super('the lease on the lane ran out and another relay has taken it');
    this.name = 'LeaseLost';
  }
}

/**
 * Records deliveries as delivered inside the transaction of their handlers, and keeps the lane.
 *
 * @param to the lane's new head.
 * @throws LeaseLost when another relay has the lane; the transaction must then be rolled back.
 */
export async function settleInTransaction(
  tx: Transaction,
  lane: { readonly id: string; readonly token: string; readonly from: number },
  to: number,
  delivered: readonly DeliveredAttempt[],
): Promise<void> {
  const times = delivered.map(inWholeMs);
  const [row] = await run<{ settled: number }>(tx, {
    name: 'settle_one',
    text: SETTLE_ONE,
    values: [
      lane.id,
      lane.token,
      lane.from,
      to,
      arrayLiteral(delivered.map(({ position }) => position)),
      arrayLiteral(times.map(({ atMs }) => atMs)),
      arrayLiteral(times.map(({ durationMs }) => durationMs)),
    ],
  });
  if (row?.settled !== delivered.length) throw new LeaseLost();
}

/** Deliveries of a lane with the same times, to the millisecond: the database finds and writes them together. */
interface Stretch {
  readonly lane: string;
  readonly positions: number[];
  readonly atMs: number;
  readonly durationMs: number;
}

function stretchesOf({ id, delivered }: LaneOutcome): Stretch[] {
  const found: Stretch[] = [];
  let last: Stretch | undefined;
  for (const { position, ...exact } of delivered) {
    const { atMs, durationMs } = inWholeMs(exact);
    if (last?.atMs !== atMs || last.durationMs !== durationMs) {
      last = { lane: id, positions: [], atMs, durationMs };
      found.push(last);
    }
    last.positions.push(position);
  }
  return found;
}

/** When an attempt began and how long it took, so rounded that none begins before the end of the one before it. */
function inWholeMs({ atMs, durationMs }: { readonly atMs: number; readonly durationMs: number }) {
  const endMs = Math.round(atMs + durationMs);
  const wholeMs = Math.min(Math.round(durationMs), endMs - Math.round(atMs));
  return { atMs: endMs - wholeMs, durationMs: wholeMs };
}

function laneRow(lane: LaneOutcome) {
  return {
    id: lane.id,
    token: lane.token,
    from: lane.from,
    to: lane.to,
    retry_at: instant(lane.retryAtMs),
    keep_until: instant(lane.keepUntilMs),
    careful_to: lane.carefulTo,
    needed_version: lane.neededVersion,
  };
}

function unfinishedRow(lane: string, attempt: UnfinishedAttempt) {
  const { position, outcome, nextAttemptAtMs, kind, message, errorGroup } = attempt;
  const { atMs, durationMs } = inWholeMs(attempt);
  const at = instant(atMs);
  return {
    lane,
    position,
    at,
    duration_ms: durationMs,
    burnt: outcome === 'failed' ? 1 : 0,
    next_attempt_at: instant(nextAttemptAtMs),
    error_group: errorGroup,
    entry: { at, durationMs, outcome, kind, message },
  };
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** Numbers as Postgres writes an array: one parameter, whatever the driver makes of JavaScript arrays. */
function arrayLiteral(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`;
}

// The ranges that all ids and positions are in make the planner take what was attempted for few: else it reads a whole
// table that is small, or was when it made the plan, instead of finding each by the index.
const EVERY_ID = 'between 0 and 9223372036854775807';
const EVERY_UUID = `between '00000000-0000-0000-0000-000000000000' and 'ffffffff-ffff-ffff-ffff-ffffffffffff'`;

// Lanes are locked in their order before they are changed: two relays that settle the same ones, one of them too late,
// would otherwise wait for each other in a ring.
const SETTLE = `
  with clock as materialized (
    select coalesce($7::text::timestamptz, clock_timestamp()) as now
  ),
  outcome as materialized (
    select * from jsonb_to_recordset($1::text::jsonb) as outcome(id bigint, token uuid, "from" bigint, "to" bigint,
      retry_at timestamptz, keep_until timestamptz, careful_to bigint, needed_version smallint)
  ),
  held as materialized (
    select lanes.id from lanes join outcome using (id)
    where lanes.lease_token = outcome.token
    order by lanes.topic, lanes.subscriber, lanes.ordering_key for update of lanes
  ),
  settled_lane as (
    update lanes set
      -- Moved back since the claim: a replay put deliveries back, which come first.
      head = case when lanes.head = outcome."from" then outcome."to" else lanes.head end,
      careful_to = greatest(lanes.careful_to, outcome.careful_to),
      needed_version = case when lanes.head = outcome."from" then outcome.needed_version end,
      lease_token = case when outcome.keep_until is not null then lanes.lease_token end,
      due_at = case
        when outcome.keep_until is not null then outcome.keep_until
        when lanes.head <> outcome."from" then clock.now
        when outcome.retry_at is not null then outcome.retry_at
        when lanes.tail > outcome."to" then clock.now
      end
    from clock, outcome join held using (id)
    where lanes.id = outcome.id
    returning lanes.id, lanes.topic, lanes.subscriber
  ),
  delivered as (
    update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.duration_ms,
      attempted_at = to_timestamp(attempt.at_ms / 1000),
      delivered_at = to_timestamp((attempt.at_ms + attempt.duration_ms) / 1000), next_attempt_at = null
    from unnest($2::text::bigint[], $3::text::text[], $4::text::float8[], $5::text::int[])
        as attempt(lane_id, positions, at_ms, duration_ms)
      join settled_lane on settled_lane.id = attempt.lane_id
    where deliveries.lane_id = attempt.lane_id and deliveries.position = any (attempt.positions::bigint[])
      and attempt.lane_id ${EVERY_ID} and deliveries.state in ('pending', 'failing')
    returning deliveries.lane_id, event_id, -1 as open, case when deliveries.attempts > 1 then -1 else 0 end as failing,
      0 as dead_lettered, 1 as burnt, (deliveries.attempts = 1 and replays = 0)::int as first_attempt,
      delivered_at, null::timestamptz as failed_at, null::jsonb as error_group
  ),
  unfinished as (
    update deliveries set attempts = deliveries.attempts + attempt.burnt, attempted_at = attempt.at,
      duration_ms = attempt.duration_ms, next_attempt_at = attempt.next_attempt_at,
      state = case when attempt.next_attempt_at is null then 'dead_lettered'
        when attempt.burnt = 1 then 'failing' else deliveries.state end,
      dead_lettered_at = case when attempt.next_attempt_at is null
        then attempt.at + attempt.duration_ms * interval '1 millisecond' end,
      error_group = attempt.error_group ->> 'key',
      attempt_log = coalesce(deliveries.attempt_log, '[]')
        || (attempt.entry || jsonb_build_object('attempt', deliveries.attempts + 1))
    from jsonb_to_recordset($6::text::jsonb) as attempt(lane bigint, position bigint, at timestamptz, duration_ms int,
        burnt int, next_attempt_at timestamptz, error_group jsonb, entry jsonb)
      join settled_lane on settled_lane.id = attempt.lane
    where deliveries.lane_id = attempt.lane and deliveries.position = attempt.position
      and attempt.position ${EVERY_ID} and deliveries.state in ('pending', 'failing')
    returning lane_id, event_id,
      case when attempt.next_attempt_at is null then -1 else 0 end as open,
      (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
      case when attempt.next_attempt_at is null then 1 else 0 end as dead_lettered, attempt.burnt, 0 as first_attempt,
      null::timestamptz as delivered_at,
      case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at,
      attempt.error_group
  ),
  -- Read twice where it stands, which costs less than a copy.
  settled as not materialized (
    select * from delivered union all select * from unfinished
  ),
  change as materialized (
    select event_id, sum(open) as open, sum(failing) as failing, sum(dead_lettered) as dead_lettered
    from settled group by event_id
  ),
  changed_event as (
    -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
    -- other in a ring. Locking them first would cost a record in the log for each.
    update events set open = events.open + change.open, failing = events.failing + change.failing,
      dead_lettered = events.dead_lettered + change.dead_lettered
    from (select * from change order by event_id) as change
    where events.id = change.event_id and change.event_id ${EVERY_UUID}
    returning events.topic, events.state as becomes,
      ${eventState('events.open - change.open', 'events.failing - change.failing', 'events.dead_lettered - change.dead_lettered')} as was
  ),
  lane_change as materialized (
    -- Integers: what is summed again below would else be numeric, which costs more than the counters do.
    select lane_id, (sum(open) - sum(failing))::int as pending, sum(failing)::int as failing,
      sum(dead_lettered)::int as dead_lettered, count(delivered_at)::int as delivered, count(failed_at)::int as failed,
      sum(first_attempt)::int as first_attempt, max(delivered_at) as last_delivered_at, max(failed_at) as last_failed_at
    from settled group by lane_id
  ),
  backlog_change as materialized (
    select topic, subscriber, sum(pending) as pending, sum(failing) as failing, sum(dead_lettered) as dead_lettered,
      max(last_delivered_at) as last_delivered_at, max(last_failed_at) as last_failed_at,
      sum(delivered) as delivered_total, sum(failed) as failed_total, sum(dead_lettered) as dead_lettered_total
    from lane_change join settled_lane on settled_lane.id = lane_id group by topic, subscriber
    union all
    select ${EVENTS_MOVED} from changed_event where was <> becomes group by topic
  ),
  added as (${ADD_TO_BACKLOG}
  ),
  hour_change as materialized (
    select topic, sum(delivered) as delivered, sum(first_attempt) as first_attempt,
      sum(dead_lettered) as dead_lettered
    from lane_change join settled_lane on settled_lane.id = lane_id group by topic
    having sum(delivered) + sum(dead_lettered) > 0
  ),
  counted as (${ADD_TO_THROUGHPUT}
  ),
  dead as materialized (
    select error_group ->> 'key' as key, topic, subscriber, min(error_group ->> 'kind') as kind,
      min(error_group ->> 'message') as message, count(*) as count
    from unfinished join settled_lane on settled_lane.id = lane_id
    where error_group ->> 'key' is not null group by 1, 2, 3
  ),
  grouped as (${ADD_TO_ERROR_GROUPS}
  )
  select (select coalesce(string_agg(id::text, ','), '') from settled_lane) as held,
    (select coalesce(sum(delivered), 0)::int from lane_change) as delivered,
    (select count(*)::int from unfinished where dead_lettered = 0 and burnt = 1) as failed,
    (select count(*)::int from unfinished where burnt = 0) as waited,
    (select count(*)::int from unfinished where dead_lettered = 1) as "deadLettered"`;

const SETTLE_ONE = `
  with clock as materialized (
    select clock_timestamp() as now
  ),
  settled_lane as (
    -- What the head needed a newer release for is done, also should this relay die before it settles the lane.
    update lanes set head = case when head = $3::bigint then $4::bigint else head end, needed_version = null
    where id = $1::bigint and lease_token = $2::uuid
    returning id, topic, subscriber
  ),
  delivered as (
    update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.duration_ms,
      attempted_at = to_timestamp(attempt.at_ms / 1000),
      delivered_at = to_timestamp((attempt.at_ms + attempt.duration_ms) / 1000), next_attempt_at = null
    from settled_lane,
      unnest($5::text::bigint[], $6::text::float8[], $7::text::int[]) as attempt(position, at_ms, duration_ms)
    -- Said of the table itself and not of the join, so that the index is taken also where the table was planned empty.
    where lane_id = $1::bigint and deliveries.position = attempt.position and attempt.position ${EVERY_ID}
      and coalesce(state in ('pending', 'failing'), false)
    returning event_id, topic, subscriber, (attempts > 1)::int as was_failing, delivered_at,
      (attempts = 1 and replays = 0)::int as first_attempt
  ),
  changed_event as (
    -- In the order of their ids, as settlements of other lanes have them.
    update events set open = events.open - 1, failing = events.failing - change.was_failing
    from (select event_id, was_failing from delivered order by event_id) as change
    where events.id = change.event_id and change.event_id ${EVERY_UUID}
    returning events.topic, events.state as becomes,
      ${eventState('events.open + 1', 'events.failing + change.was_failing', 'events.dead_lettered')} as was
  ),
  backlog_change as materialized (
    select topic, subscriber, sum(was_failing - 1) as pending, -sum(was_failing) as failing, 0 as dead_lettered,
      max(delivered_at) as last_delivered_at, null::timestamptz as last_failed_at, count(*) as delivered_total,
      0 as failed_total, 0 as dead_lettered_total
    from delivered group by topic, subscriber
    union all
    select ${EVENTS_MOVED} from changed_event where was <> becomes group by topic
  ),
  added as (${ADD_TO_BACKLOG}
  ),
  hour_change as materialized (
    select topic, count(*) as delivered, sum(first_attempt) as first_attempt, 0 as dead_lettered from delivered
    group by topic
  ),
  counted as (${ADD_TO_THROUGHPUT}
  )
  select count(*)::int as settled from delivered`;
