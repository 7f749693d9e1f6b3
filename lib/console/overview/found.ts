import { topics } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import { HALTING_COUNTED } from '../../components/incidents/halts.ts';
import type { Database } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { outageFields } from '../incidents/outage.ts';
import type { Outage } from '../incidents/outage.ts';
import { field, instantOrNull, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { pauseFields } from '../kit/pauses.ts';
import type { Pause } from '../kit/pauses.ts';
import { JOIN_PREPARED } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';
import { OLDEST_SNAPSHOT } from './snapshot.ts';
import type { FoundSnapshot } from './snapshot.ts';

/** Of a topic's events, or of a subscription's deliveries. */
export const countFields = {
  pending: field(shape.count, 'pending'),
  failing: field(shape.count, 'failing'),
  deadLettered: field(shape.count, 'dead_lettered'),
};

export const lastFields = {
  lastDeliveredAt: instantOrNull('last_delivered_at'),
  lastFailedAt: instantOrNull('last_failed_at'),
};

/** The statement's result. Numbers for times are epoch milliseconds; `hours` counts back from the current hour, 24 at most. */
export interface Found {
  readonly now: number;
  readonly last_pass: number | null;
  /** A row without a subscriber is of events. */
  readonly totals: readonly (Row<typeof countFields & typeof lastFields> & {
    topic: string;
    subscriber: string;
  })[];
  readonly awaiting: readonly {
    topic: string;
    /** Empty for the whole topic. */
    subscriber: string;
    events: number;
    oldest: number;
    /** The oldest transaction that holds the topic back. `gid` and `owner` are those of a prepared one. */
    held_back: { since: number; gid: string | null; owner: string | null } | null;
  }[];
  readonly waits: readonly {
    topic: string;
    subscriber: string;
    due_since: number | null;
    next_retry: number | null;
    needed_version: number | null;
  }[];
  /** Those of subscribers that do not answer. */
  readonly outages: readonly (Outage & { readonly subscriber: string })[];
  /** How many lanes a dead letter halts, up to the most that are counted of a subscription. */
  readonly halts: readonly { topic: string; subscriber: string; lanes: number }[];
  readonly pauses: readonly { topic: string; subscriber: string; pause: Pause }[];
  readonly hours: readonly {
    topic: string;
    ago: number;
    delivered: number;
    first_attempt: number;
    dead_lettered: number;
  }[];
  /** What became of replayed deliveries in the same hours. */
  readonly replays: { delivered: number; deadLettered: number };
  readonly oldest_snapshot: FoundSnapshot | null;
}

/**
 * Queries the facts of the overview in one statement.
 *
 * @param attached subscriptions, as `topic subscriber`.
 * @param now overrides the database's clock in tests.
 */
export async function findOverview(
  db: Database,
  attached: ReadonlySet<string>,
  now: Date | undefined,
): Promise<Found> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: OVERVIEW,
    values: [SUBSCRIPTIONS, [...attached].join('\n'), now?.toISOString() ?? null],
  });
  return row!.found;
}

/** The catalog's subscriptions. */
export const SUBSCRIPTIONS = JSON.stringify(
  topics().flatMap(([topic, { subscribers, version }]) =>
    subscribers.map((subscriber) => ({ topic, subscriber, version })),
  ),
);

/** No transaction should stay open longer; see the quiet fence in docs/design.md. */
const LONG_TRANSACTION_MS = 5 * SECOND;

/** Longer than any lease: a handler has at most a minute, and its lease 20 seconds more. */
const LONGEST_LEASE_MS = 2 * MINUTE;

/** How many lanes of a subscription are looked into, starting with those due longest. */
const LANES_LOOKED_AT = 100;

/** How many lanes of a subscription are read to find these: those due longest, and those due soonest. */
const LANES_READ = 1000;

const SUBSCRIPTION = { topic: 'topic', subscriber: 'subscriber' };

// A lane is due, leased by a relay, or waits for a retry: `due_at`, or the end of the lease, orders them in this way. The first delivery of a
// due lane says since when it is due: since its event was recorded, its retry was due, or an operator re-queued it.
const OVERVIEW = `
  with clock as materialized (
    select coalesce($3::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, version,
      topic || ' ' || subscriber = any (string_to_array($2::text, E'\\n')) as is_attached
    from jsonb_to_recordset($1::text::jsonb) as known(topic text, subscriber text, version int)
  ),
  total as (
    select topic, subscriber, sum(pending) as pending, sum(failing) as failing, sum(dead_lettered) as dead_lettered,
      max(last_delivered_at) as last_delivered_at, max(last_failed_at) as last_failed_at
    from backlog group by topic, subscriber
  ),
  emitter as materialized (
    -- A prepared transaction has no process: its lock is known by the transaction's number.
    select distinct on (objid) objid::bigint as lock, coalesce(prepared, xact_start) as since, gid, owner
    from pg_locks left join pg_stat_activity using (pid)
      ${JOIN_PREPARED}
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and pg_locks.database = (select oid from pg_database where datname = current_database())
      and coalesce(prepared, xact_start) < clock_timestamp() - ${LONG_TRANSACTION_MS} * interval '1 millisecond'
    order by objid, since
  ),
  awaiting as (
    select topic, subscriber, sum(events) as events, extract(epoch from min(oldest)) * 1000 as oldest, (
      select json_build_object('since', extract(epoch from since) * 1000, 'gid', gid, 'owner', owner) from emitter
      where lock = hashtext(topic)::bigint & 4294967295
    ) as held_back
    from (
      select topic, subscribers, count(*) as events, min(created_at) as oldest
      from awaiting_fan_out where topic <> '${SMOKE_TEST.topic}' group by topic, subscribers
    ) as addressed_alike, unnest(subscribers || ''::text) as subscriber
    group by topic, subscriber
  ),
  -- The first lanes of each subscription, in the order of the index: rows are compared as it has them, since with conditions
  -- on each column the planner reads all lanes of a subscription, which may be one for each key in trouble.
  due_lane as (
    select subscription.topic, subscription.subscriber, lane.*
    from clock, subscription, lateral (
      select id, home_id, slot, held_key, head from (
        (
          select * from lanes
          where (lanes.topic, lanes.subscriber, due_at) >= (subscription.topic, subscription.subscriber, '-infinity')
            and (lanes.topic, lanes.subscriber, due_at) <= (subscription.topic, subscription.subscriber, clock.now)
            and due_at is not null
          order by lanes.topic, lanes.subscriber, due_at limit ${LANES_READ}
        )
        union all
        (
          select * from lanes
          where (lanes.topic, lanes.subscriber, due_at) > (subscription.topic, subscription.subscriber, clock.now)
            and (lanes.topic, lanes.subscriber, due_at) <= (subscription.topic, subscription.subscriber,
              clock.now + ${LONGEST_LEASE_MS} * interval '1 millisecond')
            and due_at is not null
          order by lanes.topic, lanes.subscriber, due_at limit ${LANES_READ}
        )
        union all
        (${leasedHomeLanes('subscription.topic', 'subscription.subscriber')}
        )
      ) as soonest
      -- Lanes that wait for another release have been due for long and would crowd out the others.
      where (due_at <= clock.now or lease_token is not null) and coalesce(waits_for_version, 0) <= version
      order by coalesce(due_at, leased_until) limit ${LANES_LOOKED_AT}
    ) as lane
    where is_attached
  ),
  due as (
    select due_lane.topic, due_lane.subscriber, min(greatest(created_at, next_attempt_at, replayed_at)) as since
    -- The limits keep the planner from joining whole tables: it expects far more lanes than there are.
    from due_lane, lateral postbud_next_2(due_lane.id, home_id, slot, held_key, due_lane.head, 1) as next, lateral (
        select replayed_at from deliveries
        where lane_id = coalesce(home_id, due_lane.id) and deliveries.position = next.position limit 1
      ) as put_back, lateral (select created_at from events where id = next.event_id limit 1) as event
    group by due_lane.topic, due_lane.subscriber
  ),
  wait as (
    select topic, subscriber, extract(epoch from due.since) * 1000 as due_since, (
      select min(waits_for_version) from (
        select waits_for_version from lanes
        where (lanes.topic, lanes.subscriber, due_at) >= (subscription.topic, subscription.subscriber, '-infinity')
          and (lanes.topic, lanes.subscriber, due_at) <= (subscription.topic, subscription.subscriber, clock.now)
          and due_at is not null and is_attached
        order by lanes.topic, lanes.subscriber, due_at limit ${LANES_LOOKED_AT}
      ) as looked_at where waits_for_version > version
    ) as needed_version, (
      select extract(epoch from due_at) * 1000 from lanes
      where (lanes.topic, lanes.subscriber, due_at) > (subscription.topic, subscription.subscriber, clock.now)
        and (lanes.topic, lanes.subscriber, due_at) < (subscription.topic, subscription.subscriber, 'infinity')
        and due_at is not null and lease_token is null
      order by lanes.topic, lanes.subscriber, due_at limit 1
    ) as next_retry
    from clock, subscription left join due using (topic, subscriber)
  ),
  -- A day ago, and the hour which that was in: the part of it after that is read by the minute.
  day as materialized (
    select now - interval '24 hours' as since, date_trunc('hour', now - interval '24 hours', 'UTC') as first_hour from clock
  ),
  counted as materialized (
    select hour, topic, sum(delivered) as delivered, sum(first_attempt) as first_attempt,
      sum(dead_lettered) as dead_lettered
    from throughput
    where hour >= (select first_hour from day) and hour <= (select first_hour + interval '24 hours' from day)
    group by hour, topic
  ),
  begun as materialized (
    select first_hour as hour, topic, sum(delivered) as delivered, sum(first_attempt) as first_attempt,
      sum(dead_lettered) as dead_lettered
    from day, (
      select minute, topic, delivered, first_attempt, dead_lettered from throughput_minutes
      where minute > (select since from day) and minute < (select first_hour + interval '1 hour' from day)
      union all
      -- What is not folded yet: of a day ago there is something only if no relay has run since.
      select hour + minute * interval '1 minute', topic, delivered, first_attempt, dead_lettered from throughput
      where hour = (select first_hour from day) and shard >= 64
    ) as one
    where minute > since
    group by first_hour, topic
  ),
  hour as materialized (
    select topic, delivered, first_attempt, dead_lettered,
      24 - extract(epoch from hour - first_hour)::int / 3600 as ago
    from day, (select * from counted where hour > (select first_hour from day) union all select * from begun) as within
  ),
  -- Health is not kept by the minute: of the first hour, the share of replays is that of all deliveries.
  share as materialized (
    select coalesce((select sum(delivered) from begun) / nullif(sum(delivered), 0), 0) as delivered,
      coalesce((select sum(dead_lettered) from begun) / nullif(sum(dead_lettered), 0), 0) as dead_lettered
    from counted where hour = (select first_hour from day)
  ),
  replays as (
    select coalesce(round(sum(replays_delivered * case when is_first then share.delivered else 1 end)), 0) as delivered,
      coalesce(round(sum(replays_dead_lettered * case when is_first then share.dead_lettered else 1 end)), 0)
        as "deadLettered"
    from share, (
      select replays_delivered, replays_dead_lettered, starts_at = (select first_hour from day) as is_first
      from subscriber_health
      where period = 'hour' and topic = '' and starts_at >= (select first_hour from day)
        and starts_at <= (select first_hour + interval '24 hours' from day)
    ) as health
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'last_pass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'totals', (
      select coalesce(json_agg(${jsonOf({ ...countFields, ...lastFields }, SUBSCRIPTION)}), '[]') from total
    ),
    'awaiting', (select coalesce(json_agg(awaiting), '[]') from awaiting),
    'waits', (
      select coalesce(json_agg(wait), '[]') from wait
      where due_since is not null or next_retry is not null or needed_version is not null
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })} order by opened_at), '[]')
      from outages where recovered_at is null
    ),
    'halts', (
      select coalesce(json_agg(halted), '[]') from (
        select topic, subscriber, count(*) as lanes from (
          select distinct topic, subscriber, lane_id, lane_key from (${HALTING_COUNTED}) as halting
        ) as halted_lane
        group by topic, subscriber
      ) as halted
    ),
    'pauses', (
      select coalesce(json_agg(${jsonOf({}, { ...SUBSCRIPTION, pause: jsonOf(pauseFields) })}), '[]') from pauses
    ),
    'hours', (select coalesce(json_agg(hour), '[]') from hour),
    'replays', (select row_to_json(replays) from replays),
    'oldest_snapshot', (${OLDEST_SNAPSHOT})
  ) as found
  from clock`;
