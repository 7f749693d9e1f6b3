import pg from 'pg';

import { SLOTS as SHARED_LANES } from '../drizzle/schema.ts';
import { topics as catalogTopics } from '../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../lib/bus/catalog/catalog.ts';
import { errorGroupOf } from '../lib/bus/deliveries/error-group.ts';
import { attach } from '../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../lib/bus/subscribers/subscriber.ts';
import { isIdentifier } from '../lib/components/identifiers/identifier.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { untilAutovacuumHasRun } from './autovacuum.ts';

// An event bus after three busy months, written by SQL: the rows that emit, the relay and its settlements would leave,
// in the same physical order. Everything follows from the event's number, so that every run is the same.

/** Unattached: their deliveries wait. */
const UNATTACHED: ReadonlySet<string> = new Set(['reporting', 'intelligence']);

/** Subscriptions whose whole topic waits behind one failing delivery. */
const BLOCKED: readonly (readonly [topic: TopicName, subscriber: string])[] = [
  ['booking.approved', 'payments'],
  ['booking.completed', 'invoicing'],
  ['payment.captured', 'ledger'],
  ['payment.captured', 'accounting'],
  ['payment.refunded', 'bookings'],
  ['ledger.entry.posted', 'accounting'],
  ['invoice.issued', 'ledger'],
  ['user.signed_up', 'notifications'],
  ['message.posted', 'notifications'],
  ['season.application.submitted', 'audit'],
];

/** Ordering keys of each topic that has them. */
const KEYS: Readonly<Partial<Record<TopicName, number>>> = { 'user.profile.updated': 4350 };
const OTHER_KEYS = 365;

/** One key in this many of a keyed topic waits behind a failing delivery. */
const BLOCKED_KEYS = 4;

/** The slots of events that topics share; a topic's place decides how many it gets. */
const SLOTS = 10_000;

/** So many events in a row have the same correlation id, and the same ids in their payloads. */
export const EVENTS_OF_A_STORY = 4;

const EVENTS_PER_STATEMENT = 50_000;
const HISTORY_DAYS = 90;

/** Dead letters in the previewed group, as in the design. */
export const PREVIEWED = 1204;

/** The topics with the two largest groups. */
export const LARGEST_GROUPS = { topics: ['booking.created', 'booking.cancelled'] } as const;

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
  const names = new Set(subscriptions.map(({ subscriber }) => subscriber));
  return [...names]
    .filter((name) => !UNATTACHED.has(name))
    .map((name) => {
      const topics = subscriptions.filter(({ subscriber }) => subscriber === name);
      return attach(name, Object.fromEntries(topics.map(({ topic }) => [topic, async () => undefined])));
    });
}

const subscriptions = catalogTopics().flatMap(([topic, { subscribers }]) =>
  subscribers.map((subscriber) => ({ topic, subscriber })),
);

interface PlannedTopic {
  readonly topic: string;
  /** Slots out of `SLOTS`. */
  readonly weight: number;
  /** 1: the lane is the whole topic. */
  readonly keys: number;
  readonly ordered: boolean;
  readonly producer: string;
  readonly version: number;
  readonly open: number;
  readonly subscribers: readonly string[];
  /** JSON text, with `NUMBER` behind each id in it. */
  readonly payload: string;
}

/** From the `cut`-th event of the topic on, deliveries of every `every`-th lane are open. */
interface PlannedSubscription {
  readonly topic: string;
  readonly subscriber: string;
  readonly attached: boolean;
  cut: number | null;
  readonly every: number;
}

/** Every `step`-th event from `start` on, until `stop`, is a dead letter of the subscription. */
interface Grave {
  readonly topic: string;
  readonly subscriber: string;
  readonly group: string;
  readonly kind: string;
  readonly groupMessage: string;
  readonly message: string;
  readonly start: number;
  readonly stop: number;
  readonly step: number;
}

/**
 * Fills an empty database.
 *
 * @param delivered the number of delivered deliveries; another tenth are unfinished, a hundredth dead-lettered.
 * @param tell receives the progress.
 * @returns the contents of the database, counted there.
 */
export async function fillLargeBus(
  url: string,
  delivered: number,
  tell: (progress: string) => void,
): Promise<LargeBus> {
  const topics = plannedTopics();
  const cycle = topics.reduce((total, { weight, open }) => total + weight * open, 0);
  const cycles = Math.ceil((delivered * 1.1) / cycle);
  const unfinished = cycles * cycle - delivered;
  const graves = plannedGraves(topics, cycles, Math.round(delivered / 100));
  const dead = graves.reduce((total, { start, stop, step }) => total + Math.ceil((stop - start) / step), 0);
  const plan = plannedSubscriptions(topics, cycles, unfinished - dead);
  const client = new pg.Client(url);
  await client.connect();
  try {
    // A crash would only cost the benchmark. The relay's own commits keep their durability.
    await client.query(`set synchronous_commit = off; set timezone = 'UTC'; set work_mem = '256MB'`);
    await client.query(PLAN_TABLES);
    await storePlan(client, { topics, plan, graves });
    const events = cycles * SLOTS;
    for (let from = 0; from < events; from += EVENTS_PER_STATEMENT) {
      await client.query(EVENTS, [from, Math.min(events, from + EVENTS_PER_STATEMENT), events]);
      tell(`${Math.round((100 * (from + EVENTS_PER_STATEMENT)) / events)} % of ${events} events`);
    }
    for (const statement of TOTALS) {
      tell(/\b(?:update|insert into|setval) *\(?'?(\w+)/.exec(statement)?.[1] ?? '…');
      await client.query(statement);
    }
    tell('autovacuum');
    await untilAutovacuumHasRun(async (text) => (await client.query<{ waiting: number }>(text)).rows);
    await client.query("select brin_summarize_new_values('deliveries_event')");
    // What the fill has left to write is nothing that is measured.
    await client.query('checkpoint');
    const { rows } = await client.query<LargeBus>(COUNTED);
    return rows[0]!;
  } finally {
    await client.end();
  }
}

/** Gives every subscription of the catalog each hour of three days and each day before them, as if it never slept. */
export async function fillHealth(db: Database): Promise<void> {
  const subscriptions = catalogTopics().flatMap(([topic, { subscribers }]) =>
    subscribers.flatMap((subscriber) => [
      { topic, subscriber },
      { topic: '', subscriber },
    ]),
  );
  await run(driverOf(db), {
    text: `
      insert into subscriber_health (subscriber, topic, period, starts_at, delivered, delivered_in, handled_in)
      select distinct subscriber, topic, period, starts_at, 6000, array_fill(100, array[60]), array_fill(100, array[60])
      from jsonb_to_recordset($1::text::jsonb) as subscription (topic text, subscriber text), (
        select 'hour' as period, date_trunc('hour', now(), 'UTC') - hour * interval '1 hour' as starts_at
        from generate_series(0, 71) as hour
        union all
        select 'day', date_trunc('day', now(), 'UTC') - day * interval '1 day' from generate_series(3, 30) as day
        union all
        select 'total', 'epoch'
      ) as span
      on conflict do nothing`,
    values: [JSON.stringify(subscriptions)],
  });
}

function plannedTopics(): PlannedTopic[] {
  const rows = catalogTopics();
  const total = rows.reduce((sum, _, index) => sum + share(index), 0);
  const topics = rows.map(([topic, row], index) => ({
    topic,
    weight: Math.floor((SLOTS * share(index)) / total),
    keys: row.orderedBy === undefined ? 1 : (KEYS[topic] ?? OTHER_KEYS),
    ordered: row.orderedBy !== undefined,
    producer: row.producer,
    version: row.version,
    open: row.subscribers.length,
    subscribers: row.subscribers,
    payload: JSON.stringify(numbered(row.example)),
  }));
  const rest = SLOTS - topics.reduce((sum, { weight }) => sum + weight, 0);
  return topics.map((row, index) => (index === 0 ? { ...row, weight: row.weight + rest } : row));
}

/** Stands for a part of the event's number, so that ids differ as they do in reality. */
const NUMBER = '~~';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

function numbered(value: unknown): unknown {
  if (typeof value === 'string') return isIdentifier(value) && !UUID.test(value) ? value + NUMBER : value;
  if (Array.isArray(value)) return value.map(numbered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, numbered(inner)]));
}

/** Gives the first topics of the catalog most of the events: a few topics are busy, most are not. */
function share(index: number): number {
  return 1 / (index + 5);
}

/** Plans where deliveries are open. @param open how many are pending or failing. */
function plannedSubscriptions(
  topics: readonly PlannedTopic[],
  cycles: number,
  open: number,
): PlannedSubscription[] {
  const byTopic = new Map(topics.map((topic) => [topic.topic, topic]));
  const plan = subscriptions.map(({ topic, subscriber }): PlannedSubscription => {
    const attached = !UNATTACHED.has(subscriber);
    const every = attached && byTopic.get(topic)!.ordered ? BLOCKED_KEYS : 1;
    return { topic, subscriber, attached, cut: null, every };
  });
  const ranks = ({ topic }: PlannedSubscription) => byTopic.get(topic)!.weight * cycles;
  const isBlocked = ({ topic, subscriber }: PlannedSubscription) =>
    BLOCKED.some((other) => other[0] === topic && other[1] === subscriber);
  // Behind the heads of whole topics, behind the heads of keys, and for unattached subscribers.
  const whole = plan.filter((row) => row.attached && isBlocked(row));
  const keyed = plan.filter((row) => row.every > 1);
  const waiting = plan.filter((row) => !row.attached);
  cutAt(whole, ranks, open * 0.35);
  cutAt(keyed, ranks, open * 0.05);
  const keyedOpen = (row: PlannedSubscription) => {
    const { keys } = byTopic.get(row.topic)!;
    const from = row.cut!;
    // Ranks from the cut on with a blocked key.
    return Array.from({ length: ranks(row) - from }, (_, index) => (from + index) % keys).filter(
      (key) => key % BLOCKED_KEYS === 0,
    ).length;
  };
  const sofar =
    whole.reduce((total, row) => total + ranks(row) - row.cut!, 0) +
    keyed.reduce((total, row) => total + keyedOpen(row), 0);
  const left = open - sofar;
  cutAt(waiting, ranks, left);
  // The remainder of the rounding.
  waiting[0]!.cut! -= left - waiting.reduce((total, row) => total + ranks(row) - row.cut!, 0);
  return plan;
}

/** Shortens each in proportion, so that they add up to `open`. */
function cutAt(
  rows: readonly PlannedSubscription[],
  ranks: (row: PlannedSubscription) => number,
  open: number,
): void {
  const all = rows.reduce((total, row) => total + ranks(row) / row.every, 0);
  for (const row of rows) row.cut = Math.ceil(ranks(row) * (1 - Math.min(1, open / all)));
}

const KINDS: readonly (readonly [kind: string, message: string])[] = [
  ['timeout', 'no answer within 10000 ms (request req_48213a)'],
  ['http_503', 'the subscriber answered 503: Service Unavailable'],
  ['TypeError', "Cannot read properties of undefined (reading 'amountMinor')"],
  ['http_422', 'the subscriber answered 422: unknown account acc_99120'],
  ['ECONNREFUSED', 'connect ECONNREFUSED 10.2.0.14:8443'],
];

/** 40 groups in 20 unblocked subscriptions; the first two hold two fifths of all. */
function plannedGraves(topics: readonly PlannedTopic[], cycles: number, dead: number): Grave[] {
  const blocked = new Set<string>(BLOCKED.map(([topic]) => topic));
  const flowing = topics
    .filter(({ topic, ordered, open }) => !ordered && open > 1 && !blocked.has(topic))
    .toSorted(
      (one, other) =>
        Number(LARGEST_GROUPS.topics.some((topic) => topic === other.topic)) -
        Number(LARGEST_GROUPS.topics.some((topic) => topic === one.topic)),
    )
    .slice(0, 20);
  const places = [0, 1].flatMap((half) => flowing.map((topic) => ({ topic, half })));
  const large = Math.round(dead * 0.21);
  const rest = dead - 2 * large - PREVIEWED;
  const shares = places.slice(3).reduce((total, _, index) => total + share(index), 0);
  return places.map(({ topic: { topic, weight }, half }, index) => {
    const count =
      index < 2 ? large : index === 2 ? PREVIEWED : Math.floor((rest * share(index - 3)) / shares) || 1;
    const subscriber = subscriptions.find(
      (row) => row.topic === topic && !UNATTACHED.has(row.subscriber),
    )!.subscriber;
    const [kind, message] = KINDS[(index + half) % KINDS.length]!;
    const { key, message: groupMessage } = errorGroupOf(topic, subscriber, kind, message);
    // Some were dead-lettered in an outage this morning, others one by one over months; two groups alternate.
    const ranks = weight * cycles;
    const wanted = (ranks / HISTORY_DAYS) * [30, 60, 10, 0.5, 3, 80][index % 6]!;
    const step = 2 * Math.max(1, Math.floor(wanted / count / 2));
    const stop = ranks - (ranks % 2) + half - 1;
    const kept = Math.min(count, Math.floor(stop / step));
    return {
      topic,
      subscriber,
      group: key,
      kind,
      groupMessage,
      message,
      start: stop - kept * step,
      stop,
      step,
    };
  });
}

const PLAN_TABLES = `
  create temp table topic (topic text primary key, weight int, keys int, ordered bool, producer text, version int,
    open int, subscribers text[], payload text, payload_bytes int);
  create temp table slot (slot int primary key, topic text, rank int);
  create temp table plan (topic text, subscriber text, attached bool, cut int, every int);
  create temp table grave (topic text, subscriber text, error_group text, kind text, message text, start int, stop int,
    step int)`;

interface Plan {
  readonly topics: readonly PlannedTopic[];
  readonly plan: readonly PlannedSubscription[];
  readonly graves: readonly Grave[];
}

async function storePlan(client: pg.Client, { topics, plan, graves }: Plan): Promise<void> {
  await client.query(
    `insert into topic select *, octet_length(payload) from jsonb_to_recordset($1::jsonb)
     as known(topic text, weight int, keys int, ordered bool, producer text, version int, open int,
       subscribers text[], payload text)`,
    [JSON.stringify(topics)],
  );
  await client.query(
    `insert into slot select * from jsonb_to_recordset($1::jsonb) as known(slot int, topic text, rank int)`,
    [JSON.stringify(slots(topics))],
  );
  await client.query(
    `insert into plan select *
     from jsonb_to_recordset($1::jsonb) as known(topic text, subscriber text, attached bool, cut int, every int)`,
    [JSON.stringify(plan)],
  );
  await client.query(
    `insert into grave select topic, subscriber, "group", kind, message, start, stop, step
     from jsonb_to_recordset($1::jsonb) as known(topic text, subscriber text, "group" text, kind text, message text,
       start int, stop int, step int)`,
    [JSON.stringify(graves)],
  );
  await client.query(
    `insert into error_groups (key, topic, subscriber, kind, message, dead_lettered)
     select "group", topic, subscriber, kind, "groupMessage", 0
     from jsonb_to_recordset($1::jsonb) as known("group" text, topic text, subscriber text, kind text,
       "groupMessage" text)`,
    [JSON.stringify(graves)],
  );
  await client.query(LANES);
  await client.query('analyze topic, slot, plan, grave, lanes'); // for the fill itself; autovacuum leaves temporary tables alone
}

/** Maps an event's number to its topic, and to its rank among the topic's events of that round. */
function slots(topics: readonly PlannedTopic[]): { slot: number; topic: string; rank: number }[] {
  const owners = topics.flatMap(({ topic, weight }) => Array.from({ length: weight }, () => topic));
  const ranks = new Map<string, number>();
  return owners.map((_, slot) => {
    // Coprime to the number of slots, so each comes up once, well mixed.
    const topic = owners[(slot * 7919) % SLOTS]!;
    const rank = ranks.get(topic) ?? 0;
    ranks.set(topic, rank + 1);
    return { slot, topic, rank };
  });
}

const LANES = `
  with made as (
    insert into lanes (topic, subscriber, ordering_key, slot, tail)
    select topic, subscriber, case when not ordered then '' end, nullif(slot, 0), 0
    from plan join topic using (topic), generate_series(ordered::int, case when ordered then ${SHARED_LANES} else 0 end) as slot
    order by slot, topic, subscriber returning topic, subscriber, slot, id
  )
  insert into home_lanes (topic, subscriber, slot, lane_id)
  select topic, subscriber, coalesce(slot, 0), id from made`;

// Events $1 to $2 (exclusive) of $3, with all their deliveries.
const EVENTS = `
  with numbered as materialized (
    select n, topic, n / ${SLOTS} * weight + slot.rank as rank, topic.keys, topic.ordered, topic.producer,
      topic.version, topic.subscribers, topic.payload, topic.payload_bytes,
      now() - interval '20 minutes' - ($3::int - n) * (interval '${HISTORY_DAYS} days' / $3::int) as created_at
    from generate_series($1::int, $2::int - 1) as n join slot on slot.slot = n % ${SLOTS} join topic using (topic)
  ),
  event as materialized (
    select *, uuidv7(created_at - clock_timestamp()) as id, rank % keys as key,
      case when ordered then 'key ' || rank % keys else '' end as ordering_key,
      case when ordered then postbud_slot('key ' || rank % keys) else 0 end as slot
    from (select * from numbered order by n) as in_order
  ),
  delivery as materialized (
    select event.n, event.id, event.payload_bytes, event.created_at, event.n + 1 as position, lane_id,
      nullif(ordering_key, '') as lane_key, plan.attached, kind, message, error_group,
      case
        when event.rank >= cut and key % every = 0 then
          case when attached and event.rank < cut + keys then 'failing' else 'pending' end
        when error_group is not null then 'dead_lettered'
        else 'delivered'
      end::delivery_state as state
    from event join plan using (topic)
      join home_lanes as lanes on lanes.topic = event.topic and lanes.subscriber = plan.subscriber
        and lanes.slot = event.slot
      left join grave on grave.topic = event.topic and grave.subscriber = plan.subscriber
        and event.rank >= start and event.rank < stop and (event.rank - start) % step = 0
  ),
  stored_delivery as (
    insert into deliveries (lane_id, position, lane_key, event_id, payload_bytes, state, attempts, attempted_at,
      duration_ms, next_attempt_at, delivered_at, dead_lettered_at, error_group, attempt_log)
    select lane_id, position, lane_key, id, payload_bytes, state,
      case state when 'delivered' then 1 when 'failing' then 4 when 'dead_lettered' then 5 else 0 end,
      case state when 'delivered' then created_at + interval '120 ms' when 'failing' then now()
        when 'dead_lettered' then created_at + interval '12 minutes' end,
      case state when 'delivered' then 38 when 'pending' then null else 10004 end,
      case when state = 'failing' then now() + interval '6 hours' + n % 1000 * interval '1 second' end,
      case when state = 'delivered' then created_at + interval '160 ms' end,
      case when state = 'dead_lettered' then created_at + interval '12 minutes' end,
      case when state = 'dead_lettered' then error_group end,
      case when state in ('dead_lettered', 'failing') then (
        select jsonb_agg(jsonb_build_object('attempt', attempt, 'at', created_at + attempt * interval '2 minutes',
          'durationMs', 10004, 'outcome', 'failed', 'kind', coalesce(kind, 'timeout'),
          'message', coalesce(message, 'no answer within 10000 ms')) order by attempt)
        from generate_series(1, case state when 'failing' then 4 else 5 end) as attempt
      ) end
    from delivery order by n, lane_id
  ),
  change as materialized (
    select n, count(*) filter (where state in ('pending', 'failing')) as open,
      count(*) filter (where state = 'failing') as failing, count(*) filter (where state = 'dead_lettered') as dead
    from delivery group by n
  )
  insert into events (id, topic, payload, version, created_at, ordering_key, producer, correlation_id, open, failing,
    dead_lettered, subscribers)
  select id, topic, replace(payload, '${NUMBER}', (n / ${EVENTS_OF_A_STORY})::text)::jsonb, version, created_at, ordering_key,
    producer, 'req-' || n / ${EVENTS_OF_A_STORY}, open, failing, dead, subscribers
  from event join change using (n) order by n`;

/** The shards of a total, so that concurrent statements seldom share a row. */
const SHARDS = 64;

const HOURS_KEPT = 7 * 24;

// The kept counts, counted from the rows as the migration does, then spread over the shards.
const TOTALS = [
  // A key that failed has left its shared lane, with all that follows of it.
  `insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, due_at)
   select topic, subscriber, slot, lane_key, lanes.id, min(position) - 1, max(position), min(next_attempt_at)
   from deliveries join lanes on lanes.id = lane_id
   where lane_key is not null and deliveries.state in ('pending', 'failing')
   group by topic, subscriber, slot, lane_key, lanes.id having bool_or(deliveries.state = 'failing')`,
  `update lanes set head = coalesce(first_open - 1, newest), tail = newest, due_at = due
   from (
     select lane_id, max(position) as newest, min(position) filter (where is_open) as first_open,
       case when bool_or(is_open and state = 'failing') then min(next_attempt_at) filter (where is_open)
         when bool_or(is_open) then now() - interval '30 days' end as due
     from (
       select deliveries.*, deliveries.state in ('pending', 'failing') and in_trouble.id is null as is_open
       from deliveries left join lanes as in_trouble on (home_id, held_key) = (lane_id, lane_key)
     ) as delivery
     group by lane_id
   ) as counted where counted.lane_id = lanes.id`,
  `delete from home_lanes using lanes where lanes.id = lane_id and lanes.tail = 0`,
  `delete from lanes where tail = 0`,
  `with counted as (
     select topic, subscriber, count(*) filter (where state = 'pending') as pending,
       count(*) filter (where state = 'failing') as failing, count(*) filter (where state = 'dead_lettered') as dead,
       max(delivered_at) as last_delivered, max(attempted_at) filter (where state <> 'delivered') as last_failed,
       count(delivered_at) as delivered, coalesce(sum(attempts) filter (where state <> 'delivered'), 0) as failed
     from deliveries join lanes on lanes.id = lane_id group by 1, 2
     union all
     select topic, '', count(*) filter (where state = 'pending'), count(*) filter (where state = 'failing'),
       count(*) filter (where state = 'dead_lettered'), null, null, 0, 0
     from events group by 1
   )
   insert into backlog (topic, subscriber, shard, pending, failing, dead_lettered, last_delivered_at, last_failed_at,
     delivered_total, failed_total, dead_lettered_total)
   select topic, subscriber, shard, pending / ${SHARDS} + case when shard = 0 then pending % ${SHARDS} else 0 end,
     failing / ${SHARDS} + case when shard = 0 then failing % ${SHARDS} else 0 end,
     dead / ${SHARDS} + case when shard = 0 then dead % ${SHARDS} else 0 end, last_delivered, last_failed,
     case when shard = 0 then delivered else 0 end, case when shard = 0 then failed else 0 end,
     case when shard = 0 and subscriber <> '' then dead else 0 end
   from counted, generate_series(0, ${SHARDS - 1}) as shard`,
  `insert into throughput (hour, topic, shard, delivered, first_attempt, dead_lettered)
   select date_trunc('hour', coalesce(delivered_at, dead_lettered_at), 'UTC'), topic, position * 7919 % ${SHARDS},
     count(delivered_at), count(delivered_at), count(dead_lettered_at)
   from deliveries join lanes on lanes.id = lane_id
   where coalesce(delivered_at, dead_lettered_at) > now() - interval '${HOURS_KEPT} hours' group by 1, 2, 3`,
  `update error_groups set dead_lettered = counted.count
   from (select error_group, count(*) from deliveries where error_group is not null group by 1) as counted
   where key = error_group`,
  `select setval('delivery_positions', (select max(position) from deliveries))`,
];

const COUNTED = `
  select (select count(*)::int from deliveries where state = 'delivered') as delivered,
    (select sum(pending)::int from backlog where subscriber <> '') as pending,
    (select sum(failing)::int from backlog where subscriber <> '') as failing,
    (select sum(dead_lettered)::int from backlog where subscriber <> '') as "deadLettered",
    (select count(*)::int from events) as events, (select count(*)::int from lanes) as lanes,
    (select count(*)::int from error_groups) as groups`;
