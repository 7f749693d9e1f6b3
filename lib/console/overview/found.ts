import { topics } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
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
    halted: number;
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
  readonly pauses: readonly { topic: string; subscriber: string; pause: Pause }[];
  readonly hours: readonly {
    topic: string;
    ago: number;
    delivered: number;
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

const SUBSCRIPTION = { topic: 'topic', subscriber: 'subscriber' };

// A lane has something due in its first exception that is due, since that is, or in the next place of the log, since its event was
// recorded: also while a relay holds it. What needs a newer release, or waits for the end of a backfill, is not due.
const OVERVIEW = `
  with clock as materialized (
    select coalesce($3::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, version
    from jsonb_to_recordset($1::text::jsonb) as known(topic text, subscriber text, version int)
    where topic || ' ' || subscriber = any (string_to_array($2::text, E'\\n'))
  ),
  total as (
    select topic, subscriber, pending, failing, halted, dead_lettered, last_delivered_at, last_failed_at
    from subscription_counts
    union all
    select topic, '', pending, failing, 0, dead_lettered, null, null from topic_counts
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
  awaited as (
    select topic, subscriber, sum(events) as events, extract(epoch from min(oldest)) * 1000 as oldest, (
      select json_build_object('since', extract(epoch from since) * 1000, 'gid', gid, 'owner', owner) from emitter
      where lock = hashtext(topic)::bigint & 4294967295
    ) as held_back
    from (
      select topic, subscribers, count(*) as events, min(created_at) as oldest
      from awaiting where topic <> '${SMOKE_TEST.topic}' group by topic, subscribers
    ) as addressed_alike, unnest(subscribers || ''::text) as subscriber
    group by topic, subscriber
  ),
  wait as (
    select lane.topic, lane.subscriber,
      extract(epoch from min(least(
        case when exceptional.due_at <= now and exceptional.version <= subscription.version then exceptional.due_at end,
        case when placed.version <= subscription.version then placed.created_at end
      ))) * 1000 as due_since,
      extract(epoch from min(retry.due_at)) * 1000 as next_retry,
      min(least(
        case when exceptional.version > subscription.version then exceptional.version end,
        case when placed.version > subscription.version then placed.version end
      )) as needed_version
    from clock, subscription join lane_heads as lane using (topic, subscriber)
      left join lateral (
        select due_at, log.version from exceptions join log on log.stream = lane.stream and log.position = exceptions.position
        where exceptions.lane = lane.id and due_at is not null order by due_at limit 1
      ) as exceptional on true
      left join lateral (
        select due_at from exceptions where exceptions.lane = lane.id and due_at > now order by due_at limit 1
      ) as retry on true
      left join lateral (
        select log.version, created_at from log join events on events.id = log.event_id
        where log.stream = lane.stream
          and log.position = postbud_find_next_1(lane.stream, lane.subscriber, lane.head, lane.tail)
          and (slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open))
          and not exists (
            select from backfills
            where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
          )
        limit 1
      ) as placed on lane.tail > lane.head
    group by lane.topic, lane.subscriber
  ),
  -- A day ago, and the hour which that was in: the part of it after that is read by the minute.
  day as materialized (
    select now - interval '24 hours' as since, date_trunc('hour', now - interval '24 hours', 'UTC') as first_hour from clock
  ),
  minute as materialized (
    select minute, topic, delivered, dead_lettered from throughput_minutes
    where minute >= (select first_hour from day) and minute < (select first_hour + interval '25 hours' from day)
    union all
    -- What the cron has not read yet.
    select date_trunc('minute', fresh.at), topic, coalesce(fresh.delivered, 0), coalesce(fresh.dead_lettered, 0)
    from lanes left join lane_totals as known on known.lane = lanes.id, lateral (
      select * from journal
      where journal.lane = lanes.id and (journal.head, journal.number) > (coalesce(known.head, -1), coalesce(known.number, -1))
        and (journal.delivered > 0 or journal.dead_lettered > 0) and at >= (select first_hour from day)
    ) as fresh
    where topic <> '${SMOKE_TEST.topic}'
  ),
  hour as materialized (
    select topic, sum(delivered) as delivered, sum(dead_lettered) as dead_lettered,
      24 - floor(extract(epoch from minute - first_hour) / 3600)::int as ago
    from day, minute where minute > since group by topic, ago
  ),
  -- Health is not kept by the minute: of the first hour, the share of replays is that of all deliveries.
  share as materialized (
    select coalesce(sum(delivered) filter (where minute > since) / nullif(sum(delivered), 0), 0) as delivered,
      coalesce(sum(dead_lettered) filter (where minute > since) / nullif(sum(dead_lettered), 0), 0) as dead_lettered
    from day, minute where minute < first_hour + interval '1 hour'
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
      select coalesce(json_agg(${jsonOf({ ...countFields, ...lastFields }, { ...SUBSCRIPTION, halted: 'halted' })}), '[]') from total
    ),
    'awaiting', (select coalesce(json_agg(awaited), '[]') from awaited),
    'waits', (
      select coalesce(json_agg(wait), '[]') from wait
      where due_since is not null or next_retry is not null or needed_version is not null
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })} order by opened_at), '[]')
      from outages
    ),
    'pauses', (
      select coalesce(json_agg(${jsonOf({}, { ...SUBSCRIPTION, pause: jsonOf(pauseFields) })}), '[]') from pauses
    ),
    'hours', (select coalesce(json_agg(hour), '[]') from hour),
    'replays', (select row_to_json(replays) from replays),
    'oldest_snapshot', (${OLDEST_SNAPSHOT})
  ) as found
  from clock`;
