import pg from 'pg';

import { SLOTS } from '../drizzle/schema.ts';
import { subscriberNames, topics as catalogTopics } from '../lib/bus/catalog/catalog.ts';
import { attach } from '../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { untilAutovacuumHasRun } from './autovacuum.ts';
import { HISTORY_DAYS, NUMBER, ROUND, UNATTACHED, plan, slots } from './large-bus-plan.ts';

// An event bus after three busy months, written by SQL: the rows that emit, the relay and its settlements would leave,
// in the same physical order.

/** So many events in a row have the same correlation id, and the same ids in their payloads. */
export const EVENTS_OF_A_STORY = 4;

const EVENTS_PER_STATEMENT = 50_000;

export interface LargeBus {
  readonly delivered: number;
  readonly pending: number;
  readonly failing: number;
  readonly deadLettered: number;
  readonly events: number;
  readonly lanes: number;
  readonly groups: number;
}

/** Attaches every subscription of the catalog except the unattached, with handlers that do nothing. */
export function attachedSubscribers(): AttachedSubscriber[] {
  const names = new Set(catalogTopics().flatMap(([, { subscribers }]): readonly string[] => subscribers));
  return [...names]
    .filter((name) => !UNATTACHED.has(name))
    .map((name) => {
      const own = catalogTopics().filter(([, { subscribers }]) =>
        subscribers.some((other) => other === name),
      );
      return attach(name, Object.fromEntries(own.map(([topic]) => [topic, async () => undefined])));
    });
}

/**
 * Fills an empty database: each event has two or three deliveries. Of these nine tenths are delivered, and a hundredth
 * are dead letters.
 *
 * @param atLeast events.
 * @param tell receives the progress.
 * @returns the contents of the database, counted there.
 */
export async function fillLargeBus(
  url: string,
  atLeast: number,
  tell: (progress: string) => void,
): Promise<LargeBus> {
  const rounds = Math.ceil(atLeast / ROUND);
  const events = rounds * ROUND;
  const { topics, subscriptions, graves } = plan(rounds);
  const client = new pg.Client(url);
  await client.connect();
  try {
    // A crash would only cost the benchmark. The relay's own commits keep their durability.
    await client.query(`set synchronous_commit = off; set timezone = 'UTC'; set work_mem = '256MB'`);
    await client.query(PLAN_TABLES);
    const stored = { topic: topics, slot: slots(topics), plan: subscriptions, grave: graves };
    for (const [table, rows] of Object.entries(stored))
      await client.query(`insert into ${table} select * from jsonb_populate_recordset(null::${table}, $1)`, [
        JSON.stringify(rows),
      ]);
    await client.query(LANES);
    for (let from = 0; from < events; from += EVENTS_PER_STATEMENT) {
      await client.query(EVENTS, [from, Math.min(events, from + EVENTS_PER_STATEMENT), events]);
      tell(
        `${Math.min(100, Math.round((100 * (from + EVENTS_PER_STATEMENT)) / events))} % of ${events} events`,
      );
    }
    tell('totals');
    await client.query(TOTALS);
    tell('autovacuum');
    await untilAutovacuumHasRun(async (text) => (await client.query<{ waiting: number }>(text)).rows);
    // What the fill has left to write is nothing that is measured.
    await client.query('checkpoint');
  } finally {
    await client.end();
  }
  return await countLargeBus(url);
}

/** Counts what `fillLargeBus` has filled. */
export async function countLargeBus(url: string): Promise<LargeBus> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<LargeBus>(COUNTED);
    return rows[0]!;
  } finally {
    await client.end();
  }
}

/** Gives every subscriber of the catalog times, and a backlog's age for each hour of a day, as if it never slept. */
export async function fillHealth(db: Database): Promise<void> {
  await run(driverOf(db), {
    text: `
      insert into subscriber_health (subscriber, topic, period, starts_at, delivered_in, handled_in, backlog_age_ms)
      select subscriber, '', period, starts_at, array_fill(100, array[60]), array_fill(100, array[60]), 1000
      from unnest($1::text[]) as subscriber, (
        select 'hour' as period, date_trunc('hour', now(), 'UTC') - hour * interval '1 hour' as starts_at
        from generate_series(0, 24) as hour
        union all
        select 'total', 'epoch'
      ) as span
      on conflict do nothing`,
    values: [`{${subscriberNames().join(',')}}`],
  });
}

const PLAN_TABLES = `
  create temp table topic (topic text primary key, weight int, keys int, ordered bool, producer text, version int,
    subscribers text[], payload text);
  create temp table slot (slot int primary key, topic text, rank int);
  create temp table plan (topic text, subscriber text, attached bool, cut int, every int);
  create temp table grave (topic text, subscriber text, "group" text, kind text, "groupMessage" text, message text,
    start int, stop int, step int)`;

const LANES = `
  insert into error_groups (key, topic, subscriber, kind, message)
  select "group", topic, subscriber, kind, "groupMessage" from grave;
  insert into streams (topic, slot)
  select topic, slot
  from topic, generate_series(ordered::int, case when ordered then ${SLOTS} else 0 end) as slot order by slot, topic;
  insert into audiences (stream, position, subscribers) select id, 1, subscribers from streams join topic using (topic);
  insert into lanes (stream, topic, slot, subscriber)
  select id, topic, slot, subscriber from streams join plan using (topic) order by slot, topic, subscriber;
  insert into journal (lane, number, head, at) select id, 0, 0, now() - interval '${HISTORY_DAYS + 1} days' from lanes;
  analyze topic, slot, plan, grave, streams, lanes`;

// Events $1 to $2 (exclusive) of $3, with their places and all their deliveries: each was settled by itself, as where
// traffic is steady. What is beyond the head of its lane has no row, and what went well only that of its settlement.
const EVENTS = `
  with numbered as materialized (
    select n, topic.*, n / ${ROUND} * weight + slot.rank as rank,
      now() - interval '20 minutes' - ($3::int - n) * (interval '${HISTORY_DAYS} days' / $3::int) as created_at
    from generate_series($1::int, $2::int - 1) as n join slot on slot.slot = n % ${ROUND} join topic using (topic)
    order by n
  ),
  event as materialized (
    select *, uuidv7(created_at - clock_timestamp()) as id, case when ordered then 'key ' || rank % keys else '' end as key,
      replace(payload, '${NUMBER}', (n / ${EVENTS_OF_A_STORY})::text)::jsonb as numbered
    from numbered
  ),
  stored as (
    insert into events (id, topic, payload, version, created_at, ordering_key, producer, correlation_id, subscribers)
    select id, topic, numbered, version, created_at, key, producer, 'req-' || n / ${EVENTS_OF_A_STORY}, subscribers
    from event order by n
  ),
  stream as materialized (
    select streams.*, coalesce((
        select position from log where log.stream = streams.id order by position desc limit 1
      ), 0) as tail
    from streams
  ),
  place as materialized (
    select event.*, stream.id as stream, tail + row_number() over (partition by stream.id order by n) as position
    from event join stream
      on stream.topic = event.topic and slot = case when key = '' then 0 else postbud_slot(key) end
  ),
  placed as (
    insert into log (position, event_id, stream, bytes, version, ordering_key)
    select position, id, stream, octet_length(numbered::text), version, key from place order by n
  ),
  delivery as materialized (
    select n, place.id as event_id, created_at, key, position, lanes.id as lane, every, "group", kind, message,
      case when place.rank >= cut and place.rank % keys % every = 0
          then case when attached and place.rank < cut + keys then 'failing' else 'pending' end
        when grave.topic is not null then 'dead_lettered'
        else 'delivered' end as state
    from place join lanes using (stream, topic) join plan using (topic, subscriber)
      left join grave on grave.topic = place.topic and grave.subscriber = lanes.subscriber
        and place.rank >= start and place.rank < stop and (place.rank - start) % step = 0
  ),
  passed as materialized (
    select *, case state when 'failing' then 4 when 'dead_lettered' then 5 else 0 end as attempts,
      case state when 'failing' then now() when 'dead_lettered' then created_at + interval '12 minutes' end as attempted_at,
      case when state = 'failing' then now() + interval '6 hours' + n % 1000 * interval '1 second' end as due_at,
      case when state = 'dead_lettered' then created_at + interval '12 minutes' end as dead_lettered_at
    from delivery where state <> 'pending' or every > 1
  ),
  settled as (
    insert into journal (lane, number, head, at, first, took_ms, ago_ms, delivered, failed, dead_lettered)
    select lane, 2 * position, position, created_at + interval '160 ms', position,
      array[case when state = 'delivered' then 38 end], array[case when state = 'delivered' then 0 end],
      nullif((state = 'delivered')::int, 0), nullif(attempts, 0), nullif((state = 'dead_lettered')::int, 0)
    from passed order by n, lane
  )
  insert into exceptions (lane, position, event_id, ordering_key, state, is_open, due_at, attempts, attempted_at,
    duration_ms, next_attempt_at, dead_lettered_at, error_group, attempt_log)
  select lane, position, event_id, key, state::delivery_state, state <> 'dead_lettered', due_at, attempts, attempted_at,
    case when attempts > 0 then 10004 end, due_at, dead_lettered_at, case when state = 'dead_lettered' then "group" end, (
      select jsonb_agg(jsonb_build_object('attempt', attempt, 'at', created_at + attempt * interval '2 minutes',
        'durationMs', 10004, 'outcome', 'failed', 'kind', coalesce(kind, 'timeout'),
        'message', coalesce(message, 'no answer within 10000 ms')) order by attempt)
      from generate_series(1, attempts) as attempt
    )
  from passed where state <> 'delivered' order by n, lane`;

// What the cron reads in the journals: the overview shows a day.
const TOTALS = `
  insert into lane_totals (lane, head, number, delivered, failed, dead_lettered, last_delivered_at, last_failed_at)
  select lane, max(head), max(number), coalesce(sum(delivered), 0), coalesce(sum(failed), 0),
    coalesce(sum(dead_lettered), 0), max(at) filter (where delivered > 0), max(at) filter (where failed > 0)
  from journal group by lane;
  insert into throughput_minutes (minute, topic, delivered, dead_lettered)
  select date_trunc('minute', at), topic, coalesce(sum(delivered), 0), coalesce(sum(dead_lettered), 0)
  from journal join lanes on lanes.id = lane where at > now() - interval '25 hours' group by 1, 2`;

const COUNTED = `
  select sum(delivered_total)::int as delivered, sum(pending)::int as pending, sum(failing)::int as failing,
    sum(dead_lettered)::int as "deadLettered", (select count(*)::int from events) as events,
    (select count(*)::int from lanes) as lanes, (select count(*)::int from error_groups) as groups
  from subscription_counts`;
