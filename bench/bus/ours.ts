import { createHmac } from 'node:crypto';

import pg from 'pg';

import { catalog } from '../../lib/catalog/catalog.ts';
import type { Topic } from '../../lib/catalog/topic.ts';
import { connect, migrate } from '../../lib/db/connect.ts';
import { driverOf, run } from '../../lib/db/statement.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { logTo } from '../../lib/log.ts';
import { emit } from '../../lib/outbox/emit.ts';
import { createKick } from '../../lib/relay/kick.ts';
import { relay } from '../../lib/relay/relay.ts';
import { attach } from '../../lib/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/subscribers/subscriber.ts';
import { receiveWebhook } from '../../lib/webhooks/receive.ts';
import { Rejections } from '../../lib/webhooks/rejections.ts';
import { measured, paced, produce, serve, until } from '../peers/serve.mjs';
import { drainTopics, webhookBody } from './workload.ts';

// The bus as a contender: it does what bench/peers/*.mjs have their libraries do.

const url = process.argv[2]!;
const { db } = await connect(url);

const rows = <Row>(text: string, values: readonly unknown[] = []) => run<Row>(driverOf(db), { text, values });

/** The subscribers of the topics of the drains, with handlers that do nothing but see whether each lane is in order. */
function counting(expected: number) {
  let calls = 0;
  let outOfOrder = 0;
  const names = new Set(drainTopics.flatMap((topic) => catalog[topic].subscribers));
  const subscribers = [...names].map((name) => {
    const topics = drainTopics.filter((topic) => catalog[topic].subscribers.some((other) => other === name));
    const handlers = topics.map((topic) => {
      let last = 0;
      const handle = async ({ seq }: { seq: number }) => {
        if (seq <= last) outOfOrder += 1;
        last = seq;
        calls += 1;
      };
      return [topic, handle] as const;
    });
    return attach(name, Object.fromEntries(handlers));
  });
  return {
    subscribers,
    seen: () => {
      if (calls !== expected) throw new Error(`${calls} deliveries, not ${expected}`);
      return outOfOrder;
    },
  };
}

/** Writes committed events as `emit` does, but many in one statement. */
async function fill(events: number): Promise<void> {
  const topics = drainTopics.map((topic, index) => ({
    index,
    topic,
    payload: catalog[topic].example,
    subscribers: catalog[topic].subscribers,
  }));
  await rows(
    `with event as (
       insert into events (id, topic, payload, version, producer, open, subscribers, ordering_key, correlation_id, created_at)
       select uuidv7(), topic, payload, 1, 'bench', cardinality(subscribers), subscribers, '', '', clock_timestamp()
       from generate_series(0, $1::int - 1) as number
         join jsonb_to_recordset($2::jsonb) as known(index int, topic text, payload jsonb, subscribers text[])
           on index = number % jsonb_array_length($2::jsonb)
       order by number
       returning *
     )
     insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, subscribers, payload_bytes)
     select topic, created_at, seq, id, ordering_key, open, subscribers, octet_length(payload::text) from event`,
    [events, JSON.stringify(topics)],
  );
}

interface Drain {
  readonly deliveries: number;
  readonly transactional?: boolean;
}

async function drain({ deliveries, transactional }: Drain) {
  const { subscribers, seen } = transactional ? writing(deliveries) : counting(deliveries);
  const found = await measured(async () => {
    const report = await relay({ db, subscribers, until: Date.now() + 600_000 });
    if (report.delivered !== deliveries) throw new Error(`settled ${report.delivered}, not ${deliveries}`);
    return { ticks: report.ticks };
  });
  return { ...found, outOfOrder: seen() };
}

/** The same with transactional handlers that write one row each. */
function writing(expected: number): { subscribers: AttachedSubscriber[]; seen: () => number } {
  const { subscribers, seen } = counting(expected);
  const transactional = subscribers.map((subscriber): AttachedSubscriber => {
    const handlers = [...subscriber.handlers].map(([topic, handle]) => {
      const write = async (event: Parameters<typeof handle>[0], context: Parameters<typeof handle>[1]) => {
        await run(context.tx!, {
          text: 'insert into business (note) values ($1::text)',
          values: ['delivered'],
        });
        await handle(event, context);
      };
      return [topic, write] as const;
    });
    return { ...subscriber, transactional: true, handlers: new Map(handlers) };
  });
  return { subscribers: transactional, seen };
}

/** What a bus has behind it: deliveries that are done in the lanes of the drains, and others that wait in blocked lanes. */
interface History {
  readonly delivered: number;
  readonly waiting: number;
  /** Whether they wait in every lane of the catalog, rather than in those that the drains leave alone. */
  readonly everyTopic?: boolean;
}

async function storeHistory({ delivered, waiting, everyTopic }: History): Promise<void> {
  const topics = Object.entries<Topic>(catalog).map(([topic, { subscribers, example }]) => ({
    topic,
    subscribers,
    payload: example,
  }));
  const isDrained = ({ topic }: { topic: string }) => drainTopics.some((other) => other === topic);
  const done = topics.filter(isDrained);
  const blocked = topics.filter((topic) => everyTopic || !isDrained(topic));
  if (delivered > 0) await storeDeliveries(done, delivered, true);
  await storeDeliveries(blocked, waiting, false);
}

async function storeDeliveries(
  topics: readonly { topic: string; subscribers: readonly string[]; payload: unknown }[],
  deliveries: number,
  areDelivered: boolean,
): Promise<void> {
  const each = topics.reduce((total, { subscribers }) => total + subscribers.length, 0) / topics.length;
  await rows(
    `with known as materialized (
       select ordinality - 1 as index, known ->> 'topic' as topic, known -> 'payload' as payload,
         known -> 'subscribers' as subscribers
       from jsonb_array_elements($1::jsonb) with ordinality as row(known, ordinality)
     ),
     event as (
       insert into events (id, topic, payload, version, producer, open, subscribers, ordering_key, correlation_id, created_at)
       select uuidv7(), topic, payload, 1, 'bench', case when $3 then 0 else jsonb_array_length(subscribers) end,
         array(select jsonb_array_elements_text(subscribers)), '', '', clock_timestamp()
       from generate_series(0, $2::int - 1) as number join known on index = number % jsonb_array_length($1::jsonb)
       order by number
       returning id, topic, seq, octet_length(payload::text) as bytes
     ),
     placed as materialized (
       select *, nextval('delivery_positions') as position from (select * from event order by seq) as in_order
     ),
     lane as (
       insert into lanes (topic, subscriber, ordering_key, head, tail, due_at)
       select topic, subscriber, '', case when $3 then max(position) else min(position) - 1 end, max(position),
         case when not $3 then now() + interval '1 day' end
       from placed join known using (topic), jsonb_array_elements_text(subscribers) as subscriber
       group by topic, subscriber
       returning id, topic, head
     )
     insert into deliveries (lane_id, position, event_id, payload_bytes, state, attempts, attempted_at, duration_ms,
       delivered_at, next_attempt_at)
     select lane.id, position, placed.id, bytes,
       (case when $3 then 'delivered' when position = head + 1 then 'failing' else 'pending' end)::delivery_state,
       case when $3 or position = head + 1 then 1 else 0 end, case when $3 then now() end, case when $3 then 1 end,
       case when $3 then now() end, case when not $3 and position = head + 1 then now() + interval '1 day' end
     from placed join lane using (topic) order by position`,
    [JSON.stringify(topics), Math.round(deliveries / each), areDelivered],
  );
}

/** Everything in the catalog attached, with handlers that do nothing. */
function everySubscriber(): AttachedSubscriber[] {
  const topics = Object.entries<Topic>(catalog);
  const names = new Set(topics.flatMap(([, { subscribers }]) => subscribers));
  return [...names].map((name) => {
    const own = topics.filter(([, { subscribers }]) => subscribers.includes(name));
    return attach(name, Object.fromEntries(own.map(([topic]) => [topic, async () => undefined])));
  });
}

async function idle({ ticks }: { ticks: number }) {
  const subscribers = everySubscriber();
  const times: number[] = [];
  for (let tick = 0; tick < ticks; tick += 1) {
    const startedAt = performance.now();
    await relay({ db, subscribers, until: Date.now() + 60_000 });
    times.push(performance.now() - startedAt);
  }
  return { times };
}

async function latency({ count, perSecond }: { count: number; perSecond: number }) {
  const times: number[] = [];
  const committedAt = new Map<string, number>();
  let finish = () => {};
  const done = new Promise<void>((resolve) => (finish = resolve));
  const audit = attach('audit', {
    'booking.created': async ({ id }: BusEvent) => {
      times.push(performance.now() - committedAt.get(id)!);
      if (times.length === count) finish();
    },
  });
  const kick = createKick({
    db,
    subscribers: [audit],
    waitUntil: () => undefined,
    onError: (error) => console.error(error),
  });
  const pool = new pg.Pool({ connectionString: url });
  const payload = catalog['booking.created'].example;
  await paced({ count, perSecond }, async () => {
    const client = await pool.connect();
    await client.query('begin');
    const { id } = await emit(client, 'booking.created', payload);
    committedAt.set(id, performance.now());
    await client.query('commit');
    kick();
    client.release();
  });
  await done;
  await pool.end();
  return { times };
}

const WEBHOOK_SECRET = Buffer.alloc(32, 'bench').toString('base64');

function signedWebhook(number: number): Request {
  const id = `msg_${number}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const body = webhookBody(number);
  const signature = createHmac('sha256', Buffer.from(WEBHOOK_SECRET, 'base64'))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64');
  return new Request('http://localhost/api/webhooks/cardpayments', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    },
    body,
  });
}

type Intake = (request: Request) => Promise<Response>;

/** The function itself; or all of it but the kick, which has the relay run in this process too. */
async function intake(kicks: boolean): Promise<Intake> {
  Object.assign(process.env, { DATABASE_URL: url, WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${WEBHOOK_SECRET}` });
  logTo(() => undefined);
  const { default: webhooks } = await import('../../api/webhooks/[provider].ts');
  if (kicks) return async (request) => await webhooks.fetch(request);
  const { config, database } = await import('../../lib/postbud.ts');
  const rejections = new Rejections(database);
  const silent = endpoint({
    methods: ['POST'],
    handle: async (request, { requestId }) =>
      Response.json(
        await receiveWebhook({
          request,
          requestId,
          settings: config().webhooks,
          database,
          kick: () => undefined,
          rejections,
        }),
      ),
  });
  return async (request) => await silent.fetch(request);
}

async function accepted(fetch: Intake, request: Request): Promise<void> {
  const response = await fetch(request);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  await response.json();
}

let webhooks = 0;

async function pacedIntake(order: { count: number; perSecond: number }) {
  const fetch = await intake(true);
  const times: number[] = [];
  await paced(order, async () => {
    const startedAt = performance.now();
    await accepted(fetch, signedWebhook((webhooks += 1)));
    times.push(performance.now() - startedAt);
  });
  await quiet();
  return { times };
}

/** Has what is left delivered, as the cron does: a relay that was kicked stops after ten seconds. */
async function quiet(): Promise<void> {
  const { subscribers } = await import('../../lib/postbud.ts');
  await until(async () => {
    await relay({ db, subscribers: subscribers(), until: Date.now() + 60_000 });
    const [found] = await rows<{ waiting: boolean }>(
      `select exists (select from awaiting_fan_out)
         or exists (select from lanes where lease_token is not null or due_at < now()) as waiting`,
    );
    return !found!.waiting;
  });
}

async function flood({ seconds, atOnce, kicks }: { seconds: number; atOnce: number; kicks: boolean }) {
  const fetch = await intake(kicks);
  const found = await measured(async () => {
    const before = webhooks;
    const endsAt = performance.now() + seconds * 1000;
    const one = async () => {
      while (performance.now() < endsAt) await accepted(fetch, signedWebhook((webhooks += 1)));
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return { count: webhooks - before };
  });
  if (kicks) await quiet();
  return found;
}

await serve({
  async install() {
    await migrate(db);
    await rows(
      'create table if not exists business (id bigint generated always as identity primary key, note text)',
    );
  },
  async reset() {
    // Past the trigger that keeps the audit trail.
    await rows(
      `do $$ begin
         set local session_replication_role = replica;
         truncate events, awaiting_fan_out, lanes, deliveries, backlog, throughput, error_groups, webhook_receipts,
           audit_log, business;
       end $$`,
    );
  },
  fill: ({ events }: { events: number }) => fill(events),
  history: storeHistory,
  drain,
  idle,
  latency,
  intake: pacedIntake,
  flood,
  async emit(order: { producers: number; seconds: number }) {
    return await produce(pg, url, order, async (client, number) => {
      const payload = { ...catalog['booking.created'].example, bookingId: `bk_${number}` };
      await emit(client, 'booking.created', payload);
    });
  },
});
