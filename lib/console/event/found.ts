import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { FoundAttempts } from '../dead-letters/delivery.ts';
import { HALT } from '../dead-letters/halts.ts';
import type { FoundHalt } from '../dead-letters/halts.ts';
import { outageFields } from '../incidents/outage.ts';
import type { Outage } from '../incidents/outage.ts';
import { instantSql, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { reachedLimits } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { OPERATOR_NAMES } from '../kit/operator-names.ts';
import { JOIN_PREPARED } from '../kit/prepared.ts';
import { eventDeliveryFields, eventFields, inFrontFields, producerFields } from './view.ts';
import type { OpenProducer, Why } from './view.ts';

/** The statement's result: an event, its deliveries, and all that they may wait for. Numbers are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly lastPass: number | null;
  readonly event: FoundEvent;
  /** Whether the event still waits for fan-out. */
  readonly isAwaiting: boolean;
  /** Of a timer, whose event has not happened. */
  readonly timer: { readonly dueAt: string; readonly setAt: string; readonly isRefused: boolean } | null;
  /** The transactions that hold the event's topic back from fan-out, the oldest first. */
  readonly producers: OpenProducer[];
  readonly deliveries: readonly FoundDelivery[];
  readonly pauses: readonly (OperatorsWord & Pick<Why, 'pausedTopic'> & { readonly subscriber: string })[];
  /** The subscribers that do not answer. */
  readonly outages: readonly (Outage & { readonly subscriber: string })[];
  /** Of operators, by their ids. */
  readonly names: Readonly<Record<string, string>>;
  /** The limits that subscribers are at. */
  readonly limits: readonly { readonly subscriber: string; readonly reached: FoundLimit }[];
}

interface FoundEvent extends Row<typeof eventFields> {
  readonly payload: unknown;
  readonly erasedAt: string | null;
  readonly subscribers: readonly string[];
}

export interface FoundDelivery extends Row<typeof eventDeliveryFields> {
  readonly tries: FoundTries;
  readonly errorGroup: string | null;
  readonly place: FoundPlace;
  /** Of a dead letter that halts its lane, or its key. */
  readonly halt: FoundHalt | null;
}

export interface FoundTries extends FoundAttempts {
  readonly replayed_at: number | null;
}

/** Where a delivery waits, and behind what. */
export interface FoundPlace {
  /** The lane that will deliver it; null once it is settled. */
  readonly lane: FoundLane | null;
  /** The first unfinished delivery of its lane, or of its key in a shared lane; null if it is this one. */
  readonly first: FoundAhead | null;
  /** Unfinished deliveries before it, the first included. */
  readonly inFront: number;
  /** Whether there may be more of them. */
  readonly isMoreInFront: boolean;
  /** The dead letter that its lane, or its key, stands at. */
  readonly halt: (FoundAhead & { readonly haltedAt: string }) | null;
  /** A backfill of its subscription that older deliveries of its lane come with first. */
  readonly backfill: OperatorsWord | null;
}

interface OperatorsWord {
  readonly since: string;
  readonly by: string;
  readonly reason: string | null;
}

export interface FoundLane {
  readonly isLeased: boolean;
  /** Of a leased lane: the end of the lease. */
  readonly nextLookAt: number | null;
}

export interface FoundAhead extends Row<typeof inFrontFields> {
  readonly tries: FoundTries;
  readonly payload: unknown;
  readonly version: number;
  readonly createdAt: string;
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

const triesOf = (of: string) => `json_build_object(
  'state', ${of}.state, 'attempts', ${of}.attempts, 'attempted_at', extract(epoch from ${of}.attempted_at) * 1000,
  'duration_ms', ${of}.duration_ms, 'next_attempt_at', extract(epoch from ${of}.next_attempt_at) * 1000,
  'replayed_at', extract(epoch from ${of}.replayed_at) * 1000, 'log', ${of}.attempt_log)`;

const AHEAD = {
  tries: triesOf('ahead'),
  payload: 'payload',
  version: 'version',
  createdAt: instantSql('created_at'),
};

const PLACE = `json_build_object(
  'lane', case when waiting.lane_id is not null then json_build_object('isLeased', is_leased,
    'nextLookAt', extract(epoch from next_look_at) * 1000) end,
  'first', first.first, 'halt', halt.halt, 'backfill', backfill.backfill,
  'inFront', coalesce(in_front.number, 0), 'isMoreInFront', coalesce(in_front.is_more, false))`;

// The block ranges of `deliveries_event` find the deliveries. One whose key is in trouble is delivered by the lane of that
// key, any other by the lane that it is stored in.
const EVENT = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  timer as materialized (
    select timers.*, coalesce(subscribers, '{}') as subscribers
    from timers left join catalog_topics on catalog_topics.topic = timers.topic where id = $1::uuid
  ),
  event as materialized (
    select id, topic, payload, version, created_at, seq, producer, ordering_key, dedupe_key, correlation_id, causation_id,
      traceparent, erased_at, subscribers, state
    from events where id = $1::uuid
    union all
    select id, topic, payload, version, set_at, seq, producer, ordering_key, dedupe_key, correlation_id, causation_id,
      traceparent, erased_at, subscribers, 'pending'
    from timer where not exists (select from events where id = $1::uuid)
  ),
  awaiting as materialized (
    select awaiting_fan_out.topic from awaiting_fan_out join event
      on awaiting_fan_out.topic = event.topic and awaiting_fan_out.created_at = event.created_at
        and awaiting_fan_out.seq = event.seq
  ),
  emitter as (
    select pid, application_name, host(client_addr) as client_address, pg_stat_activity.state,
      coalesce(prepared, xact_start) as since, gid, owner
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
        as next_look_at, (
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
    select waiting.lane_id, ${jsonOf(inFrontFields, AHEAD)} as first
    from waiting join deliveries as ahead on ahead.lane_id = waiting.lane_id and ahead.position = first_position
      join events on events.id = ahead.event_id
    where first_position < waiting.position
  ),
  -- What was put back in front of it is delivered first.
  halt as (
    select waiting.lane_id, ${jsonOf(inFrontFields, { ...AHEAD, haltedAt: instantSql('halted_at') })} as halt
    from waiting, lateral (
      select deliveries.*, halted_at from halts join deliveries using (lane_id, position)
      where halts.lane_id = waiting.lane_id and halts.lane_key is not distinct from waiting.lane_key
        and halts.position < waiting.first_position and state = 'dead_lettered' and dismissed_at is null
      order by halts.position limit 1
    ) as ahead join events on events.id = ahead.event_id
  ),
  backfill as (
    select waiting.lane_id, json_build_object('since', ${instantSql('requested_at')}, 'by', requested_by,
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
    'lastPass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'event', ${jsonOf(eventFields, {
      payload: 'event.payload',
      erasedAt: instantSql('event.erased_at'),
      subscribers: 'event.subscribers',
    })},
    'isAwaiting', exists (select from awaiting),
    'timer', (select json_build_object('dueAt', ${instantSql('due_at')}, 'setAt', ${instantSql('set_at')},
      'isRefused', refused_at is not null) from timer),
    'producers', (select coalesce(json_agg(${jsonOf(producerFields)} order by since), '[]') from emitter),
    'deliveries', (
      select coalesce(json_agg(${jsonOf(eventDeliveryFields, {
        tries: triesOf('delivery'),
        errorGroup: 'error_group',
        place: PLACE,
        halt: 'halts_own.halts',
      })} order by delivery.subscriber), '[]')
      from delivery left join waiting using (lane_id) left join in_front using (lane_id) left join first using (lane_id)
        left join halt using (lane_id) left join halts_own using (lane_id)
        left join backfill using (lane_id)
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })}), '[]') from outages
      where recovered_at is null
    ),
    'names', ${OPERATOR_NAMES},
    'limits', (
      select coalesce(json_agg(limits), '[]') from (${reachedLimits('clock.now')}) as limits
      where subscriber = any (event.subscribers)
    ),
    'pauses', (
      select coalesce(json_agg(json_build_object('subscriber', subscriber, 'since', ${instantSql('paused_at')},
        'by', paused_by, 'reason', pauses.reason, 'pausedTopic', nullif(pauses.topic, '')) order by pauses.topic desc), '[]')
      from pauses where pauses.topic in ('', event.topic)
    )
  ) as found
  from clock, event`;
