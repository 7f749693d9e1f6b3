import { topics } from '../../bus/catalog/catalog.ts';
import { JOIN_PREPARED } from '../../bus/doctor/prepared.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { FoundAttempts } from '../deliveries/attempts.ts';
import { outageFields } from '../kit/pauses.ts';
import type { Outage } from '../kit/pauses.ts';
import { placeOf } from '../kit/event-state.ts';
import { instantSql, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { reachedLimits } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { OPERATOR_NAMES } from '../kit/document.ts';
import { eventDeliveryFields, eventFields, inFrontFields } from './view.ts';
import type { Why } from './view.ts';

/** The statement's result: an event, its deliveries, and all that they may wait for. Numbers are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly lastPass: number | null;
  readonly event: FoundEvent;
  /** Whether the event awaits its place. */
  readonly isAwaiting: boolean;
  /** Of a timer, whose event has not happened. */
  readonly timer: { readonly dueAt: string; readonly setAt: string; readonly isRefused: boolean } | null;
  /** The transactions that make the event await its place, the oldest first. */
  readonly producers: readonly OpenProducer[];
  readonly deliveries: readonly FoundDelivery[];
  readonly pauses: readonly (OperatorsWord & Pick<Why, 'pausedTopic'> & { readonly subscriber: string })[];
  /** The subscribers that do not answer. */
  readonly outages: readonly (Outage & { readonly subscriber: string })[];
  /** Of operators, by their ids. */
  readonly names: Readonly<Record<string, string>>;
  /** The limits that subscribers are at. */
  readonly limits: readonly { readonly subscriber: string; readonly reached: FoundLimit }[];
}

/** An open or prepared transaction of a producer. What this role may not see is null. */
export interface OpenProducer {
  readonly pid: number | null;
  readonly applicationName: string | null;
  readonly clientAddress: string | null;
  readonly state: string | null;
  readonly since: string | null;
  readonly gid: string | null;
  readonly owner: string | null;
}

interface FoundEvent extends Row<typeof eventFields> {
  readonly payload: unknown;
  readonly erasedAt: string | null;
  readonly subscribers: readonly string[];
}

export interface FoundDelivery extends Row<typeof eventDeliveryFields> {
  readonly tries: FoundTries;
  readonly errorGroup: string | null;
  /** Null once it is delivered or given up. */
  readonly place: FoundPlace | null;
}

export interface FoundTries extends FoundAttempts {
  readonly replayed_at: number | null;
}

/** Where a delivery waits, and behind what. */
export interface FoundPlace {
  /** Until when a relay holds its lane; null if none does. */
  readonly leasedUntil: number | null;
  /** Whether that relay was given this delivery. */
  readonly isInHand: boolean;
  /** The first unfinished delivery of its lane, or of its key; null if it is this one. */
  readonly first: FoundAhead | null;
  /** A backfill of its subscription, which older deliveries of its lane come with first. */
  readonly backfill: OperatorsWord | null;
}

export interface OperatorsWord {
  readonly since: string;
  readonly by: string;
  readonly reason: string | null;
}

export interface FoundAhead extends Row<typeof inFrontFields> {
  readonly tries: FoundTries;
  readonly isInHand: boolean;
  /** Of a dead letter, which halts what comes after it. */
  readonly deadLetteredAt: string | null;
  readonly payload: unknown;
  readonly version: number;
  readonly createdAt: string;
}

/** @param now overrides the database's clock in tests. @returns null for an unknown event. */
export async function findEvent(db: Database, eventId: string, now?: Date): Promise<Found | null> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: EVENT,
    values: [eventId, now?.toISOString() ?? null, VERSIONS],
  });
  return row?.found ?? null;
}

/** The payload versions that this release reads, by topic. */
const VERSIONS = JSON.stringify(Object.fromEntries(topics().map(([topic, { version }]) => [topic, version])));

const triesOf = (of: string) => `json_build_object(
  'state', ${of}.state, 'attempts', ${of}.attempts, 'attempted_at', extract(epoch from ${of}.attempted_at) * 1000,
  'duration_ms', ${of}.duration_ms, 'next_attempt_at', extract(epoch from ${of}.next_attempt_at) * 1000,
  'replayed_at', extract(epoch from ${of}.replayed_at) * 1000, 'log', ${of}.attempt_log)`;

// A relay that holds the lane may have begun what it claimed, but for what it left for a later attempt.
const isInHand = (of: string) => `coalesce(waiting.leased_until > clock.now and (
    exists (select from exceptions where lane = waiting.lane and position = ${of}.position and is_held)
      or ${of}.position between waiting.first_claimed and waiting.claimed_to
        and coalesce(${of}.next_attempt_at <= clock.now, true)
  ), false)`;

const AHEAD = {
  tries: triesOf('ahead'),
  isInHand: isInHand('ahead'),
  deadLetteredAt: instantSql('ahead.dead_lettered_at'),
  payload: 'payload',
  version: 'version',
  createdAt: instantSql('created_at'),
};

const PLACE = `json_build_object('leasedUntil', extract(epoch from waiting.leased_until) * 1000,
  'isInHand', ${isInHand('waiting')}, 'first', first.first, 'backfill', backfill.backfill)`;

// A delivery waits for the first open exception of its key, or of its lane where there are no keys; beyond the head also for
// the first place of its key, and for one that this release cannot read, behind which it reads nothing.
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
      traceparent, erased_at, subscribers
    from events where id = $1::uuid
    union all
    select id, topic, payload, version, set_at, seq, producer, ordering_key, dedupe_key, correlation_id, causation_id,
      traceparent, erased_at, subscribers
    from timer where not exists (select from events where id = $1::uuid)
  ),
  marker as materialized (
    select awaiting.topic from awaiting join event
      on awaiting.topic = event.topic and awaiting.created_at = event.created_at and awaiting.seq = event.seq
  ),
  emitter as (
    select pid, nullif(application_name, '') as "applicationName", host(client_addr) as "clientAddress",
      pg_stat_activity.state, ${instantSql('coalesce(prepared, xact_start)')} as since, gid, owner
    from marker join pg_locks on objid::bigint = hashtext(marker.topic)::bigint & 4294967295
      left join pg_stat_activity using (pid)
      ${JOIN_PREPARED}
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and pg_locks.database = (select oid from pg_database where datname = current_database())
  ),
  delivery as materialized (
    select deliveries.*, lanes.stream, lanes.slot
    from event, ${placeOf('event')} as place join lanes on lanes.stream = place.stream
      join deliveries on deliveries.lane = lanes.id and deliveries.position = place.position
  ),
  waiting as materialized (
    select delivery.*, head, tail, leased_until, first_claimed, claimed_to, position > head as is_beyond
    from delivery join lane_heads on lane_heads.id = lane where is_open and delivery.state in ('pending', 'failing')
  ),
  first_place as materialized (
    select lane, coalesce((
        select position from exceptions as open
        where open.lane = waiting.lane and open.ordering_key = waiting.ordering_key and is_open
        order by open.lane, open.ordering_key, position limit 1
      ), (
        select position from log
        where log.stream = waiting.stream and log.position = beyond.first and log.position < waiting.position
          and version > ($3::json ->> waiting.topic)::int
      ), case when slot = 0 then beyond.first else (
        -- Places of its key in the log, from the head of its lane on, that are for its subscriber.
        select position from log as of_key
        where of_key.stream = waiting.stream and of_key.ordering_key = waiting.ordering_key
          and of_key.ordering_key <> '' and of_key.position > waiting.head and waiting.subscriber = any ((
            select subscribers from audiences
            where audiences.stream = of_key.stream and audiences.position <= of_key.position
            order by audiences.position desc limit 1
          )::text[])
        order by of_key.stream, of_key.ordering_key, of_key.position limit 1
      ) end) as position
    from waiting, lateral (
      select postbud_find_next_1(stream, subscriber, head, tail) as first
    ) as beyond
  ),
  first as (
    select waiting.lane, ${jsonOf(inFrontFields, AHEAD)} as first
    from clock, waiting join first_place using (lane), lateral (
        -- The limit keeps the planner from joining whole tables.
        select * from deliveries where deliveries.lane = waiting.lane and deliveries.position = first_place.position
        limit 1
      ) as ahead join events on events.id = ahead.event_id
    where first_place.position < waiting.position
  ),
  backfill as (
    select lane, json_build_object('since', ${instantSql('requested_at')}, 'by', requested_by, 'reason', reason) as backfill
    from waiting join backfills on backfills.topic = waiting.topic and backfills.subscriber = waiting.subscriber
    where is_beyond and ended_at is null
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'lastPass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'event', ${jsonOf(eventFields, {
      payload: 'event.payload',
      erasedAt: instantSql('event.erased_at'),
      subscribers: 'event.subscribers',
    })},
    'isAwaiting', exists (select from marker),
    'timer', (select json_build_object('dueAt', ${instantSql('due_at')}, 'setAt', ${instantSql('set_at')},
      'isRefused', refused_at is not null) from timer),
    'producers', (select coalesce(json_agg(emitter order by since), '[]') from emitter),
    'deliveries', (
      select coalesce(json_agg(${jsonOf(eventDeliveryFields, {
        tries: triesOf('delivery'),
        errorGroup: 'delivery.error_group',
        place: `case when waiting.lane is not null then ${PLACE} end`,
      })} order by delivery.subscriber), '[]')
      from delivery left join waiting using (lane) left join first using (lane)
        left join backfill using (lane)
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })}), '[]') from outages
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
