import { EMITTER_LOCKS, JOIN_PREPARED } from '../../bus/outbox/emitter-locks.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { FoundAttempts } from '../dead-letters/delivery.ts';
import { HALT } from '../dead-letters/halts.ts';
import type { FoundHalt } from '../dead-letters/halts.ts';
import { outageFields } from '../incidents/outage.ts';
import type { Outage } from '../incidents/outage.ts';
import { jsonOf } from '../kit/fields.ts';
import type { State } from '../kit/shapes.ts';

/** The statement's result: an event, its deliveries, and all that they may wait for. Times are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly last_pass: number | null;
  readonly event: FoundEvent;
  /** Whether the event still waits for fan-out. */
  readonly is_awaiting: boolean;
  /** The transactions that hold the event's topic back from fan-out, the oldest first. */
  readonly producers: readonly FoundProducer[];
  readonly deliveries: readonly FoundDelivery[];
  readonly pauses: readonly {
    readonly subscriber: string;
    /** Empty for all topics. */
    readonly topic: string;
    readonly at: number;
    readonly by: string;
    readonly reason: string;
  }[];
  /** The subscribers that do not answer. */
  readonly outages: readonly (Outage & { readonly subscriber: string })[];
}

interface FoundEvent {
  readonly id: string;
  readonly topic: string;
  readonly payload: unknown;
  readonly version: number;
  readonly state: State;
  readonly created_at: number;
  readonly ordering_key: string;
  readonly producer: string;
  readonly dedupe_key: string | null;
  readonly correlation_id: string | null;
  readonly causation_id: string | null;
  readonly traceparent: string | null;
  readonly erased_at: number | null;
  readonly subscribers: readonly string[];
}

/** An open transaction. Postgres tells the names of other users' processes only to members of `pg_read_all_stats`. */
interface FoundProducer {
  /** Null for a prepared transaction. */
  readonly pid: number | null;
  readonly application_name: string | null;
  readonly client_address: string | null;
  readonly state: string | null;
  readonly since: number | null;
  /** Of a prepared transaction. */
  readonly gid: string | null;
  readonly owner: string | null;
}

export interface FoundDelivery extends FoundAttempts {
  readonly replayed_at: number | null;
  readonly delivery_id: string;
  readonly subscriber: string;
  readonly delivered_at: number | null;
  readonly dead_lettered_at: number | null;
  /** In its place, once an operator has dismissed the dead letter. */
  readonly dismissed_at: number | null;
  readonly replays: number;
  readonly error_group: string | null;
  /** The lane that will deliver it; null once it is settled. */
  readonly lane: FoundLane | null;
  /** The first unfinished delivery of its lane, or of its key in a shared lane; null if it is this one. */
  readonly first: FoundFirst | null;
  /** Unfinished deliveries before it, the first included. */
  readonly in_front: number;
  /** Whether there may be more of them. */
  readonly is_more_in_front: boolean;
  /** The dead letter that its lane, or its key, stands at. */
  readonly halt: (FoundFirst & { readonly halted_at: number }) | null;
  /** A backfill of its subscription that older deliveries of its lane come with first. */
  readonly backfill: FoundBackfill | null;
  /** Of a dead letter that halts its lane, or its key. */
  readonly halts: FoundHalt | null;
}

interface FoundBackfill {
  readonly at: number;
  readonly by: string;
  readonly reason: string | null;
}

export interface FoundLane {
  readonly is_leased: boolean;
  /** Of a leased lane: the end of the lease. */
  readonly next_look_at: number | null;
  /** The newest payload version that the relay with the lease can read. */
  readonly held_version: number | null;
}

export interface FoundFirst extends FoundAttempts {
  readonly replayed_at: number | null;
  readonly delivery_id: string;
  readonly event_id: string;
  readonly topic: string;
  readonly payload: unknown;
  readonly version: number;
  readonly created_at: number;
}

/** @param now overrides the database's clock in tests. @returns null for an unknown event. */
export async function findEvent(db: Database, eventId: string, now?: Date): Promise<Found | null> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: EVENT,
    values: [eventId, now?.toISOString() ?? null],
  });
  return row?.found ?? null;
}

/** No more is read of each lane: a replay may have put back deliveries far in front. */
const COUNTED_IN_FRONT = 2000;

const attemptColumns = (of: string) => `
  'state', ${of}.state, 'attempts', ${of}.attempts, 'attempted_at', extract(epoch from ${of}.attempted_at) * 1000,
  'duration_ms', ${of}.duration_ms, 'next_attempt_at', extract(epoch from ${of}.next_attempt_at) * 1000,
  'replayed_at', extract(epoch from ${of}.replayed_at) * 1000, 'log', ${of}.attempt_log`;

// The block ranges of `deliveries_event` find the deliveries. One whose key is in trouble is delivered by the lane of that
// key, any other by the lane that it is stored in.
const EVENT = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  event as materialized (
    select * from events where id = $1::uuid
  ),
  awaiting as materialized (
    select awaiting_fan_out.topic from awaiting_fan_out join event
      on awaiting_fan_out.topic = event.topic and awaiting_fan_out.created_at = event.created_at
        and awaiting_fan_out.seq = event.seq
  ),
  emitter as (
    select pid, application_name, host(client_addr) as client_address, pg_stat_activity.state,
      extract(epoch from coalesce(prepared, xact_start)) * 1000 as since, gid, owner
    from awaiting join pg_locks on objid::bigint = hashtext(awaiting.topic)::bigint & 4294967295
      left join pg_stat_activity using (pid)
      ${JOIN_PREPARED}
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and pg_locks.database = (select oid from pg_database where datname = current_database())
  ),
  delivery as materialized (
    select deliveries.*, home.topic, home.subscriber, coalesce(of_key.id, home.id) as delivered_by
    from deliveries join lanes as home on home.id = lane_id
      left join lanes as of_key on of_key.home_id = home.id and of_key.held_key = lane_key
    where event_id = $1::uuid
  ),
  waiting as materialized (
    select delivery.lane_id, delivery.lane_key, delivery.position, delivery.topic, delivery.subscriber, lanes.head, lanes.lease_token is not null as is_leased,
      nullif(coalesce(lanes.due_at, case when lanes.lease_token is not null then lanes.leased_until end), 'infinity')
        as next_look_at, lanes.held_version, (
        -- As of a lane of its own: in a shared one a key waits for itself alone.
        select next.position from postbud_next_2(lanes.id, case when lane_key is not null then delivery.lane_id end, null,
          lane_key, lanes.head, 1) as next
      ) as first_position
    from delivery join lanes on lanes.id = delivered_by where delivery.state in ('pending', 'failing')
  ),
  in_front as (
    select waiting.lane_id, count(*) filter (where earlier.state in ('pending', 'failing')) as number,
      count(*) = ${COUNTED_IN_FRONT} as is_more
    from waiting, lateral (
      (
        select state from deliveries
        where waiting.lane_key is null and lane_id = waiting.lane_id and position >= waiting.first_position
          and position < waiting.position
        order by position limit ${COUNTED_IN_FRONT}
      )
      union all
      (
        select state from deliveries
        where (lane_id, lane_key, position) >= (waiting.lane_id, waiting.lane_key, waiting.first_position)
          and lane_id = waiting.lane_id and lane_key = waiting.lane_key and position < waiting.position
        order by lane_id, lane_key, position limit ${COUNTED_IN_FRONT}
      )
    ) as earlier
    where first_position < waiting.position
    group by waiting.lane_id
  ),
  first as (
    select waiting.lane_id, json_build_object('delivery_id', first.lane_id || '-' || first.position, 'event_id', first.event_id,
      'topic', events.topic, 'payload', payload, 'version', version,
      'created_at', extract(epoch from created_at) * 1000, ${attemptColumns('first')}) as first
    from waiting join deliveries as first on first.lane_id = waiting.lane_id and first.position = first_position
      join events on events.id = first.event_id
    where first_position < waiting.position
  ),
  -- What was put back in front of it is delivered first.
  halt as (
    select waiting.lane_id, json_build_object('delivery_id', dead.lane_id || '-' || dead.position, 'event_id', dead.event_id,
      'halted_at', extract(epoch from halted_at) * 1000, 'topic', events.topic, 'payload', payload, 'version', version,
      'created_at', extract(epoch from created_at) * 1000, ${attemptColumns('dead')}) as halt
    from waiting, lateral (
      select deliveries.*, halted_at from halts join deliveries using (lane_id, position)
      where halts.lane_id = waiting.lane_id and halts.lane_key is not distinct from waiting.lane_key
        and halts.position < waiting.first_position and state = 'dead_lettered' and dismissed_at is null
      order by halts.position limit 1
    ) as dead join events on events.id = dead.event_id
  ),
  backfill as (
    select waiting.lane_id, json_build_object('at', extract(epoch from requested_at) * 1000, 'by', requested_by,
      'reason', reason) as backfill
    from waiting join backfills on backfills.topic = waiting.topic and backfills.subscriber = waiting.subscriber
    where ended_at is null and front < waiting.first_position
  ),
  halts_own as (
    select halts.lane_id, ${HALT} as halts
    from delivery join halts using (lane_id, position) where state = 'dead_lettered' and dismissed_at is null
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'last_pass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'event', json_build_object('id', event.id, 'topic', event.topic, 'payload', event.payload, 'version', event.version,
      'state', event.state, 'created_at', extract(epoch from event.created_at) * 1000,
      'ordering_key', event.ordering_key, 'producer', event.producer, 'dedupe_key', event.dedupe_key,
      'correlation_id', event.correlation_id, 'causation_id', event.causation_id, 'traceparent', event.traceparent,
      'subscribers', event.subscribers, 'erased_at', extract(epoch from event.erased_at) * 1000),
    'is_awaiting', exists (select from awaiting),
    'producers', (select coalesce(json_agg(emitter order by since), '[]') from emitter),
    'deliveries', (
      select coalesce(json_agg(json_build_object('delivery_id', delivery.lane_id || '-' || delivery.position,
        'subscriber', delivery.subscriber, 'delivered_at', extract(epoch from delivered_at) * 1000,
        'dead_lettered_at', extract(epoch from dead_lettered_at) * 1000,
        'dismissed_at', extract(epoch from dismissed_at) * 1000, 'replays', replays, 'error_group', error_group,
        'lane', case when waiting.lane_id is not null then json_build_object('is_leased', is_leased,
          'next_look_at', extract(epoch from next_look_at) * 1000, 'held_version', held_version) end,
        'first', first.first, 'halt', halt.halt, 'backfill', backfill.backfill, 'halts', halts_own.halts, 'in_front', coalesce(in_front.number, 0),
        'is_more_in_front', coalesce(in_front.is_more, false), ${attemptColumns('delivery')}) order by delivery.subscriber), '[]')
      from delivery left join waiting using (lane_id) left join in_front using (lane_id) left join first using (lane_id)
        left join halt using (lane_id) left join halts_own using (lane_id)
        left join backfill using (lane_id)
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })}), '[]') from outages
      where recovered_at is null
    ),
    'pauses', (
      select coalesce(json_agg(json_build_object('subscriber', subscriber, 'topic', pauses.topic,
        'at', extract(epoch from paused_at) * 1000,
        'by', paused_by, 'reason', pauses.reason) order by pauses.topic desc), '[]')
      from pauses where pauses.topic in ('', event.topic)
    )
  ) as found
  from clock, event`;
