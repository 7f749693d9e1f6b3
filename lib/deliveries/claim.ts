import { v4 as uuidv4 } from 'uuid';

import type { TopicName } from '../catalog/catalog.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { EMITTER_LOCKS } from '../outbox/emit.ts';
import type { BusEvent } from '../subscribers/subscriber.ts';
import type { Survey } from './fan-out.ts';
import type { Subscription } from './subscription.ts';

/** A lane that this relay holds, with its next deliveries in order. */
export interface ClaimedLane {
  /** Database key, as text. */
  readonly id: string;
  /** The lane that its deliveries' ids begin with: the one that they were fanned out to. */
  readonly home: string;
  /** Whether it carries many ordering keys, which need not wait for each other. Each event has one there. */
  readonly isShared: boolean;
  readonly token: string;
  readonly subscription: Subscription;
  /** All before this position are settled. */
  readonly head: number;
  /** Where the lane's newest delivery stood when it was claimed. */
  readonly newest: number;
  /** When the relay that held the lane before was due to settle, in epoch milliseconds; null unless it died. */
  readonly lapsedAtMs: number | null;
  /** The newest payload version that the relay before could read, and so may have begun; null where that is unknown. */
  readonly lapsedVersion: number | null;
  /** Up to the first whose payload is of a newer version than the handler was written for. */
  readonly deliveries: readonly ClaimedDelivery[];
  /** That first one, and those behind it: they wait for a relay of a release that can read it. */
  readonly unreadable: readonly ClaimedDelivery[];
  /** Whether `deliveries` reaches the lane's end. */
  readonly isWhole: boolean;
}

export interface ClaimedDelivery {
  readonly position: number;
  /** Attempts so far since fan-out or the last replay. */
  readonly attempts: number;
  readonly replayed: boolean;
  /** Epoch milliseconds; null when nothing keeps it waiting. */
  readonly nextAttemptAtMs: number | null;
  readonly event: BusEvent;
}

export interface Claim {
  /** The database's clock (or its override) at the claim, in epoch milliseconds. */
  readonly nowMs: number;
  readonly lanes: readonly ClaimedLane[];
  /** Set when events wait for fan-out. */
  readonly survey: Survey | null;
}

export interface ClaimOptions {
  /** Asked in this order, which the relay turns from claim to claim so that none is always last. */
  readonly subscriptions: readonly Subscription[];
  readonly maxLanes: number;
  /** Deliveries over all lanes. */
  readonly maxDeliveries: number;
  /** Overrides the database's clock in tests; ISO 8601. */
  readonly now: string | null;
}

/**
 * Leases the due lanes that no relay holds, reads their next deliveries, and looks whether events wait for fan-out.
 *
 * One statement, and all there is of an idle tick. A lane whose lease ran out is due like any other: its relay died.
 */
export async function claim(db: Database, options: ClaimOptions): Promise<Claim> {
  const token = uuidv4();
  const { subscriptions, maxLanes, maxDeliveries, now } = options;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    name: 'claim',
    text: CLAIM,
    values: [JSON.stringify(subscriptions.map(asked)), token, maxLanes, maxDeliveries, now],
  });
  const found = row!.found;
  const events = new Map(found.events?.map((event) => [event[0], readEvent(event)]));
  const bySubscription = new Map(subscriptions.map((subscription) => [subscription.key, subscription]));
  const lanes = (found.lanes ?? []).map((lane) => {
    const subscription = bySubscription.get(`${lane.topic} ${lane.subscriber}`)!;
    const all = deliveriesOf(lane, events);
    const newer = all.findIndex(({ event }) => event.version > subscription.version);
    const readable = newer === -1 ? all.length : newer;
    return {
      id: String(lane.id),
      home: String(lane.id),
      isShared: false,
      token,
      subscription,
      head: lane.head,
      newest: lane.newest ?? lane.head,
      lapsedAtMs: lane.lapsed_at,
      lapsedVersion: lane.lapsed_version,
      deliveries: all.slice(0, readable),
      unreadable: all.slice(readable),
      isWhole: lane.is_whole && newer === -1,
    };
  });
  return { nowMs: found.now, lanes, survey: found.survey };
}

function deliveriesOf(
  { positions, begun }: FoundLane,
  events: ReadonlyMap<number, BusEvent>,
): ClaimedDelivery[] {
  const earlier = new Map(begun?.map((delivery) => [delivery[0], delivery]));
  return (positions ?? []).map((position) => {
    const [, attempts, replays, nextAttemptAtMs] = earlier.get(position) ?? [position, 0, 0, null];
    return { position, attempts, replayed: replays > 0, nextAttemptAtMs, event: events.get(position)! };
  });
}

/** The statement's answer: one JSON value, which no driver parses its own way. Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  readonly survey: Survey | null;
  readonly lanes: readonly FoundLane[] | null;
  /** Each once, however many lanes carry it. */
  readonly events: readonly FoundEvent[] | null;
}

interface FoundLane {
  readonly id: number;
  readonly topic: string;
  readonly subscriber: string;
  readonly head: number;
  readonly newest: number | null;
  readonly lapsed_at: number | null;
  readonly lapsed_version: number | null;
  readonly is_whole: boolean;
  readonly positions: readonly number[] | null;
  /** Those that were tried, put back or asked to wait before. */
  readonly begun:
    | readonly (readonly [position: number, attempts: number, replays: number, next: number | null])[]
    | null;
}

type FoundEvent = readonly [
  position: number,
  id: string,
  topic: TopicName,
  payload: BusEvent['payload'],
  version: number,
  producer: string,
  createdAtMs: number,
  seq: number,
  orderingKey: string,
  correlationId: string,
  causationId: string | null,
  traceparent: string | null,
];

function readEvent(found: FoundEvent): BusEvent {
  const [
    ,
    id,
    topic,
    payload,
    version,
    producer,
    createdAtMs,
    seq,
    orderingKey,
    correlationId,
    causationId,
    traceparent,
  ] = found;
  // One object serves all subscribers of the event: what one does to it must not reach the others.
  return deepFreeze({
    id,
    topic,
    payload,
    version,
    producer,
    // A date can't be frozen, so each reader gets one of its own.
    get createdAt() {
      return new Date(createdAtMs);
    },
    seq,
    orderingKey,
    correlationId,
    causationId,
    traceparent,
  });
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}

function asked({ topic, subscriber, version, leaseMs }: Subscription) {
  return { topic, subscriber: subscriber.name, version, lease_ms: leaseMs };
}

// Lanes of one subscription that a claim takes at most, so that one with many ordering keys leaves room for others.
const LANES_PER_SUBSCRIPTION = 64;

// Payloads of one claim at most, but one for each lane: a claim of nothing but webhooks of the largest size would
// otherwise be more than a string can hold.
const CLAIM_BYTES = 16 * 1024 * 1024;

// The clock of the fence is read before the locks: the subquery refers to it, so it can only run after it.
// `as_seen` is the lane as this statement's snapshot has it. Where another transaction has changed the lane since
// (the row lock finds the newest version), the deliveries that the snapshot shows are stale, and a delivery that an
// operator just put back would be passed over: leave such a lane for the next claim.
const CLAIM = `
  with clock as materialized (
    select coalesce($5::text::timestamptz, clock_timestamp()) as now
  ),
  fence as materialized (
    select clock_timestamp() as at where exists (select from awaiting_fan_out)
  ),
  survey as materialized (
    select to_char(fence.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at, (
      select coalesce(jsonb_agg(jsonb_build_object('lock', objid::bigint, 'transaction', virtualtransaction)), '[]')
      from pg_locks
      where fence.at is not null and locktype = 'advisory' and mode = 'ShareLock' and granted
        and classid = ${EMITTER_LOCKS} and objsubid = 2
        and database = (select oid from pg_database where datname = current_database())
    ) as emitters
    from fence
  ),
  subscription as materialized (
    select ordinality as turn, asked ->> 'topic' as topic, asked ->> 'subscriber' as subscriber,
      (asked ->> 'version')::smallint as version, (asked ->> 'lease_ms')::float8 * interval '1 millisecond' as lease
    from jsonb_array_elements($1::text::jsonb) with ordinality as known(asked, ordinality)
    where (select min(due_at) from lanes) <= (select now from clock)
      and not exists (
        select from pauses where subscriber = asked ->> 'subscriber' and topic in ('', asked ->> 'topic')
      )
  ),
  -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
  pass as (
    update last_pass set at = clock.now
    from clock, (
      select ctid as id from last_pass, clock where at is null or at < clock.now - interval '1 second'
      for update of last_pass skip locked
    ) as outdated
    where last_pass.ctid = outdated.id
  ),
  due as materialized (
    select lane.*, subscription.lease, subscription.version as readable_version
    from clock, subscription, lateral (
      select id, due_at, lease_token, held_version, xmin::text as version from lanes
      where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
        and lanes.due_at <= clock.now and coalesce(needed_version, 0) <= subscription.version
      order by due_at limit ${LANES_PER_SUBSCRIPTION} for update skip locked
    ) as lane
    limit $3::int
  ),
  leased as (
    update lanes set lease_token = $2::uuid, due_at = clock.now + due.lease, held_version = due.readable_version
    from clock, due join lanes as as_seen on as_seen.id = due.id and as_seen.xmin::text = due.version
    where lanes.id = due.id
    returning lanes.id, lanes.topic, lanes.subscriber, lanes.head, lanes.careful_to,
      case when due.lease_token is not null then due.due_at end as lapsed_at, due.held_version as lapsed_version
  ),
  lane as materialized (
    select leased.*,
      case when head < careful_to then 1
        else greatest(1, $4::int / count(*) over ()::int) end as asked,
      ${CLAIM_BYTES} / count(*) over () as asked_bytes,
      (select max(position) from deliveries where lane_id = leased.id) as newest
    from leased
  ),
  delivery as materialized (
    select lane.id as lane_id, next.*,
      sum(payload_bytes) over (partition by lane.id order by position) - payload_bytes < lane.asked_bytes as fits
    from lane, lateral (
      select position, event_id, attempts, replays, next_attempt_at, payload_bytes from deliveries
      where deliveries.lane_id = lane.id and position > lane.head
        -- Wrapped, so that the planner does not take the open ones for few, and read and sort a whole lane of them.
        and coalesce(state in ('pending', 'failing'), false)
      order by position limit lane.asked
    ) as next
  ),
  batch as materialized (
    select lane_id, json_agg(position order by position) filter (where fits) as positions,
      json_agg(json_build_array(position, attempts, replays, extract(epoch from next_attempt_at) * 1000))
        filter (where fits and (attempts > 0 or replays > 0 or next_attempt_at is not null)) as begun,
      count(*) as found, bool_and(fits) as fits
    from delivery group by lane_id
  ),
  -- An event stands at the same position in all its lanes.
  placed_event as materialized (
    select distinct on (position) position, event_id from delivery where fits order by position
  ),
  event as (
    select json_build_array(position, id, topic, payload, version, producer,
      (date_part('epoch', created_at) * 1000), seq, ordering_key, correlation_id, causation_id, traceparent)
      as fields
    from placed_event join events on id = event_id
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'survey', (select json_build_object('at', at, 'emitters', emitters) from survey),
    'events', (select json_agg(fields) from event),
    'lanes', (
      select json_agg(json_build_object('id', id, 'topic', topic, 'subscriber', subscriber, 'head', head,
        'newest', newest, 'lapsed_at', extract(epoch from lapsed_at) * 1000,
        'lapsed_version', lapsed_version,
        'is_whole', coalesce(found < asked and fits, true), 'positions', positions, 'begun', begun))
      from lane left join batch on batch.lane_id = lane.id
    )
  ) as found
  from clock`;
