import * as z from 'zod';

import { topics } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { JOIN_PREPARED } from '../../bus/doctor/prepared.ts';
import { OLDEST_SNAPSHOT } from '../../bus/doctor/snapshot.ts';
import type { FoundSnapshot } from '../../bus/doctor/snapshot.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { count, field, instantOrNull, instantSql, jsonOf, text } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { outageFields, pauseFields } from '../kit/pauses.ts';
import type { Outage, Pause } from '../kit/pauses.ts';
import { preparedTransaction } from '../kit/prepared.ts';

/** Of a topic's events, or of a subscription's deliveries. */
export const countFields = {
  pending: count('coalesce(pending, 0) + coalesce(events, 0)'),
  failing: count('coalesce(failing, 0)'),
  deadLettered: count('coalesce(dead_lettered, 0)'),
};

export const dueFields = {
  oldestDueAgeSeconds: field(
    z.number().nonnegative().nullable(),
    'round(extract(epoch from greatest(clock.now, least(due_since, oldest)) - least(due_since, oldest)), 1)',
    'Age of the oldest delivery that is due; null if none is.',
  ),
  nextRetryAt: instantOrNull('next_retry'),
};

/** Of a topic's events alone. */
export const placeFields = {
  awaitingPlace: count(
    'coalesce(events, 0)',
    'Events that wait for their places in the order; included in `pending`.',
  ),
  heldBackSince: instantOrNull(
    'held_back_since',
    'The time since which a producer’s open transaction has held back the topic’s events.',
  ),
  heldBackBy: field(
    preparedTransaction.nullable(),
    "case when gid is not null then json_build_object('gid', gid, 'owner', owner) end",
    'The transaction that holds them back, if it is prepared and was never ended.',
  ),
};

/** Of a subscription's deliveries alone. */
export const laneFields = {
  neededVersion: field(
    z.int().positive().nullable(),
    'needed_version',
    'The payload version of its next event, if this release cannot read it yet.',
  ),
  haltedLanes: count(
    'coalesce(halted, 0)',
    'Lanes, or ordering keys in them, that wait until a dead letter is replayed or dismissed.',
  ),
  lastDeliveredAt: instantOrNull('last_delivered_at'),
  lastFailedAt: instantOrNull('last_failed_at'),
};

const topicFields = { topic: text('topic'), ...countFields, ...placeFields };
const subscriptionFields = {
  topic: text('topic'),
  subscriber: text('subscriber'),
  ...countFields,
  ...dueFields,
  ...laneFields,
};
export type FoundSubscription = Row<typeof subscriptionFields>;

/** The statement's result. */
export interface Found {
  readonly generatedAt: string;
  readonly lastPassAt: string | null;
  /** Those of the catalog, and others of which anything is on record. */
  readonly topics: readonly Row<typeof topicFields>[];
  readonly subscriptions: readonly FoundSubscription[];
  /** Those of subscribers that do not answer. */
  readonly outages: readonly (Outage & { readonly subscriber: string })[];
  readonly pauses: readonly (Pause & { readonly subscriber: string })[];
  /** The oldest first. */
  readonly hours: { readonly delivered: number[]; readonly deadLettered: number[] };
  readonly oldestSnapshot: FoundSnapshot | null;
}

/**
 * Queries the facts of the overview in one statement, whose cost does not grow with the number of deliveries, but with that
 * of lanes and exceptions.
 *
 * @param now overrides the database's clock in tests.
 * @param only the topic whose events and deliveries are counted, without the hours; '' counts deliveries of all topics, and no
 *   events; null: everything.
 */
export async function findOverview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
  only: string | null = null,
): Promise<Found> {
  const handled = attached.flatMap(({ name, handlers }) =>
    Array.from(handlers.keys(), (topic) => `${topic} ${name}`),
  );
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: OVERVIEW,
    values: [SUBSCRIPTIONS, handled.join('\n'), now?.toISOString() ?? null, only],
  });
  return row!.found;
}

/** The catalog's subscriptions, and each of its topics, without a subscriber. */
export const SUBSCRIPTIONS = JSON.stringify(
  topics().flatMap(([topic, { subscribers, version }]) =>
    ['', ...subscribers].map((subscriber) => ({ topic, subscriber, version })),
  ),
);

/** No transaction should stay open longer; see the quiet fence in docs/design.md. */
const LONG_TRANSACTION_MS = 5 * SECOND;

// A lane has something due in its first exception that is due, since that is, or in the next place of the log, since its event was
// recorded: also while a relay holds it. What needs a newer release, or waits for the end of a backfill, is not due.
const OVERVIEW = `
  with clock as materialized (
    select coalesce($3::text::timestamptz, clock_timestamp()) as now
  ),
  listed as materialized (
    select * from jsonb_to_recordset($1::text::jsonb) as listed(topic text, subscriber text, version int)
  ),
  subscription as materialized (
    select * from listed where topic || ' ' || subscriber = any (string_to_array($2::text, E'\\n'))
  ),
  total as materialized (
    select * from postbud_counts_1($4::text)
  ),
  emitter as materialized (
    -- A prepared transaction has no process: its lock is known by the transaction's number.
    select distinct on (objid) objid::bigint as lock, coalesce(prepared, xact_start) as held_back_since, gid, owner
    from pg_locks left join pg_stat_activity using (pid)
      ${JOIN_PREPARED}
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and pg_locks.database = (select oid from pg_database where datname = current_database())
      and coalesce(prepared, xact_start) < clock_timestamp() - ${LONG_TRANSACTION_MS} * interval '1 millisecond'
    order by objid, held_back_since
  ),
  awaited as materialized (
    select topic, subscriber, sum(events) as events, min(oldest) as oldest
    from (
      select topic, subscribers, count(*) as events, min(created_at) as oldest
      from awaiting where topic <> '${SMOKE_TEST.topic}' group by topic, subscribers
    ) as addressed_alike, unnest(subscribers || ''::text) as subscriber
    group by topic, subscriber
  ),
  wait as materialized (
    select lane.topic, lane.subscriber,
      min(least(
        case when exceptional.due_at <= now and exceptional.version <= subscription.version then exceptional.due_at end,
        case when placed.version <= subscription.version then placed.created_at end
      )) as due_since,
      min(retry.due_at) as next_retry,
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
    select minute, sum(delivered) as delivered, sum(dead_lettered) as dead_lettered from throughput_minutes
    where $4::text is null and minute >= (select first_hour from day)
      and minute < (select first_hour + interval '25 hours' from day)
    group by minute
    union all
    -- What the cron has not read yet.
    select date_trunc('minute', fresh.at), coalesce(fresh.delivered, 0), coalesce(fresh.dead_lettered, 0)
    from lanes left join lane_totals as known on known.lane = lanes.id, lateral (
      select * from journal
      where journal.lane = lanes.id and (journal.head, journal.number) > (coalesce(known.head, -1), coalesce(known.number, -1))
        and (journal.delivered > 0 or journal.dead_lettered > 0) and at >= (select first_hour from day)
      -- Keeps the planner from reading the journals of all lanes at once, from their beginning.
      offset 0
    ) as fresh
    where $4::text is null and topic <> '${SMOKE_TEST.topic}'
  ),
  hour as materialized (
    select sum(delivered) as delivered, sum(dead_lettered) as dead_lettered,
      greatest(1, floor(extract(epoch from minute - first_hour) / 3600)::int) as number
    from day, minute where minute > since group by number
  ),
  -- Without a subscriber it is of a topic's events.
  known as materialized (
    select * from (
      select topic, subscriber from listed union select topic, subscriber from total
      union select topic, '' from total union select topic, subscriber from awaited
      union select $4::text, '' where $4::text <> ''
    ) as named left join total using (topic, subscriber) left join awaited using (topic, subscriber)
      left join wait using (topic, subscriber)
      left join emitter on subscriber = '' and events > 0 and lock = hashtext(topic)::bigint & 4294967295
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'lastPassAt', (select ${instantSql('at')} from last_pass limit 1),
    'topics', (select coalesce(json_agg(${jsonOf(topicFields)}), '[]') from known where subscriber = ''),
    'subscriptions', (
      select coalesce(json_agg(${jsonOf(subscriptionFields)}), '[]') from known where subscriber <> ''
    ),
    'outages', (
      select coalesce(json_agg(${jsonOf(outageFields, { subscriber: 'subscriber' })} order by opened_at), '[]')
      from outages
    ),
    'pauses', (
      select coalesce(json_agg(${jsonOf(pauseFields, { subscriber: 'subscriber' })} order by topic), '[]') from pauses
    ),
    'hours', (
      select json_build_object('delivered', json_agg(coalesce(delivered, 0) order by number),
        'deadLettered', json_agg(coalesce(dead_lettered, 0) order by number))
      from generate_series(1, 24) as number left join hour using (number)
    ),
    'oldestSnapshot', (${OLDEST_SNAPSHOT})
  ) as found
  from clock`;
