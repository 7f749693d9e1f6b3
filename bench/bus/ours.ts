import { sql } from 'drizzle-orm';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { logTo } from '../../lib/platform/log.ts';
import { DAY } from '../../lib/platform/time.ts';
import { untilAutovacuumHasRun } from '../autovacuum.ts';
import { measured, produced, serve, traffic } from '../peers/serve.mjs';
import { flood, pacedIntake } from './ours-intake.ts';
import type { FloodOrder, PacedOrder } from './ours-intake.ts';
import { backfillJoining, joining, standOutage, withoutJoining } from './ours-lives.ts';
import { replayPaced } from './ours-paced.ts';
import type { PacedReplay } from './ours-paced.ts';
import { drainTopics, topicNames } from './workload.ts';

// Postbud as a contender: the counterpart of bench/peers/*.mjs.

// The standard output is for answers.
logTo((line) => console.error(line));

const url = process.argv[2]!;
let { db, close } = await open();

const rows = <Row>(text: string, values: readonly unknown[] = []) => run<Row>(driverOf(db), { text, values });

/** Opens the database, and records what subscribers do, as a deployment does. */
async function open(): Promise<Connection> {
  const connection = await connect(url);
  HealthRecorder.of(connection.db);
  return connection;
}

/** Attaches every subscriber of these topics, with one handler for all. */
function subscribersOf(
  topics: readonly TopicName[],
  handle: (event: BusEvent, subscriber: string) => void,
): AttachedSubscriber[] {
  const names = new Set(topics.flatMap((topic): readonly string[] => catalog[topic].subscribers));
  return [...names].map((name) => {
    const own = topics.filter((topic) => catalog[topic].subscribers.some((other) => other === name));
    const handler = async (event: BusEvent) => {
      handle(event, name);
    };
    return attach(name, Object.fromEntries(own.map((topic) => [topic, handler])));
  });
}

/** Handlers that only check the order of each key in each subscription. */
function counting(expected: number, topics: readonly TopicName[]) {
  let calls = 0;
  let outOfOrder = 0;
  const last = new Map<string, number>();
  const subscribers = subscribersOf(topics, ({ topic, orderingKey, seq }, subscriber) => {
    const lane = `${subscriber} ${topic} ${orderingKey}`;
    if (seq <= (last.get(lane) ?? 0)) outOfOrder += 1;
    last.set(lane, seq);
    calls += 1;
  });
  return {
    subscribers,
    seen: () => {
      if (calls !== expected) throw new Error(`${calls} deliveries, not ${expected}`);
      return outOfOrder;
    },
  };
}

interface Fill {
  readonly events: number;
  /** The number of the first event. */
  readonly from?: number;
  readonly topics?: readonly TopicName[];
  /** The number of ordering keys, used in turn; 0: none, the lane is the whole topic. */
  readonly keys?: number;
}

/** Writes events as `emit` does, but many in one statement. */
async function fill({ events, from = 0, topics = drainTopics, keys = 0 }: Fill): Promise<void> {
  const known = topics.map((topic, index) => ({
    index,
    topic,
    payload: catalog[topic].example,
    subscribers: catalog[topic].subscribers,
  }));
  await rows(
    `with event as (
       insert into events (id, topic, payload, version, producer, subscribers, ordering_key, correlation_id, created_at)
       select uuidv7(), topic, payload, 1, 'bench', subscribers,
         case when $4 > 0 then 'key ' || number % $4 else '' end, '', clock_timestamp()
       from generate_series($3::int, $3 + $1::int - 1) as number
         join jsonb_to_recordset($2::jsonb) as known(index int, topic text, payload jsonb, subscribers text[])
           on index = number % jsonb_array_length($2::jsonb)
       order by number
       returning *
     )
     insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
     select topic, created_at, seq, id, ordering_key, version, subscribers, octet_length(payload::text) from event`,
    [events, JSON.stringify(known), from, keys],
  );
}

interface Drain {
  readonly deliveries: number;
  readonly topics?: readonly TopicName[];
  readonly transactional?: boolean;
}

async function drain({ deliveries, topics = drainTopics, transactional }: Drain) {
  const { subscribers, seen } = transactional ? writing(deliveries) : counting(deliveries, topics);
  const found = await measured(async () => {
    const report = await relay({ db, subscribers, until: Date.now() + 600_000 });
    if (report.delivered !== deliveries) throw new Error(`settled ${report.delivered}, not ${deliveries}`);
    return { ticks: report.ticks };
  });
  return { ...found, outOfOrder: seen() };
}

/** The same handlers, transactional, each writing one row. */
function writing(expected: number): { subscribers: AttachedSubscriber[]; seen: () => number } {
  const { subscribers, seen } = counting(expected, drainTopics);
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

/** A history: finished deliveries in the lanes of the drains, and others that wait in blocked lanes. */
interface History {
  readonly delivered: number;
  readonly waiting: number;
  /** Whether they wait in every lane of the catalog, or only in lanes that the drains do not use. */
  readonly everyTopic?: boolean;
}

const CHUNK = 50_000;

async function storeHistory({ delivered, waiting, everyTopic }: History): Promise<void> {
  const isDrained = (topic: TopicName) => drainTopics.some((other) => other === topic);
  await store(drainTopics, delivered, () => undefined);
  await store(
    topicNames.filter((topic) => everyTopic || !isDrained(topic)),
    waiting,
    () => {
      throw new RetryAfter(DAY, 'until after the measurement');
    },
  );
  await untilAutovacuumHasRun(rows);
}

/** Emits events and delivers them, as far as the handlers allow. */
async function store(topics: readonly TopicName[], deliveries: number, handle: () => void): Promise<void> {
  const ofAnEvent =
    topics.reduce((total, topic) => total + catalog[topic].subscribers.length, 0) / topics.length;
  const events = Math.round(deliveries / ofAnEvent);
  for (let from = 0; from < events; from += CHUNK) {
    await fill({ events: Math.min(CHUNK, events - from), topics });
    await relay({ db, subscribers: subscribersOf(topics, handle), until: Date.now() + 600_000 });
  }
}

async function idle({ ticks }: { ticks: number }) {
  const subscribers = subscribersOf(topicNames, () => undefined);
  const times: number[] = [];
  for (let tick = 0; tick < ticks; tick += 1) {
    const startedAt = performance.now();
    await relay({ db, subscribers, until: Date.now() + 60_000 });
    times.push(performance.now() - startedAt);
  }
  return { times };
}

const { listen, send, seen, quiet } = traffic<{ readonly topic: TopicName }>(
  async (topics, handle) => {
    const lives: Promise<void>[] = [];
    const names = topics.map(({ topic }) => topic);
    const kick = createKick({
      db,
      subscribers: subscribersOf(names, ({ id }) => handle(id)),
      waitUntil: (work) => lives.push(work),
      onError: (error) => console.error(error),
    });
    const stopListening = onDue(db, kick);
    return async () => {
      stopListening();
      await Promise.all(lives);
    };
  },
  // As lib/components/database.ts has it: producer and relay share a process and its pool, and each commit kicks the relay.
  async ({ topic }, committing) => {
    const transact = () =>
      db.transaction(async (tx) => {
        const { id } = await emit(tx, topic, catalog[topic].example as never);
        committing(id);
      });
    // Waits for a connection as long as the peers' pools do.
    while (!(await transact().then(() => true, unlessNoneIsFree)));
  },
);

function unlessNoneIsFree(error: Error): false {
  if (!error.message.startsWith('timeout exceeded when trying to connect')) throw error;
  return false;
}

interface Elsewhere {
  readonly url: string;
  readonly topic: TopicName;
  readonly isBatch: boolean;
  readonly seconds: number;
}

/** Delivers for a given time to a subscriber that runs elsewhere. */
async function deliverElsewhere({ url, topic, isBatch, seconds }: Elsewhere) {
  const secret = `whsec_${Buffer.alloc(32, 'bench').toString('base64')}`;
  const settings = { name: catalog[topic].subscribers[0], url, secret, isBatch };
  return await measured(async () => {
    const until = Date.now() + seconds * 1000;
    const { delivered } = await relay({ db, subscribers: [remoteSubscriber(settings)], until });
    return { delivered };
  });
}

await serve({
  async install() {
    await migrate(db);
    await rows(
      'create table if not exists business (id bigint generated always as identity primary key, note text)',
    );
  },
  async reset() {
    // Bypasses the trigger that protects the audit trail.
    await rows(
      `do $$ begin
         set local session_replication_role = replica;
         truncate events, awaiting, streams, audiences, log, lanes, journal, exceptions, lane_totals, throughput_minutes, error_groups,
           webhook_receipts, audit_log, business, backfills, outages;
       end $$`,
    );
  },
  /** Ends all connections; the next statement opens new ones. */
  async reconnect() {
    await close();
    ({ db, close } = await open());
  },
  fill,
  history: storeHistory,
  drain,
  idle,
  listen,
  send,
  seen,
  quiet,
  elsewhere: deliverElsewhere,
  async fillJoining({ events }: { events: number }) {
    for (let from = 0; from < events; from += CHUNK) {
      await fill({ events: Math.min(CHUNK, events - from), topics: [joining.topic] });
      await withoutJoining(db);
    }
  },
  backfillJoining: (order: Parameters<typeof backfillJoining>[1]) => backfillJoining(db, order),
  replayPaced: (order: PacedReplay) => replayPaced(db, order),
  fillOutage: ({ events, keys }: { events: number; keys: number }) =>
    fill({ events, keys, topics: [joining.topic] }),
  standOutage: (order: Parameters<typeof standOutage>[1]) => standOutage(db, order),
  intake: (order: PacedOrder) => pacedIntake(url, order),
  flood: (order: FloodOrder) => flood(url, order),
  async emit({ producers, seconds }: { producers: number; seconds: number }) {
    const connections = await Promise.all(Array.from({ length: producers }, () => connect(url)));
    const found = await produced(
      connections.map(({ db }) => async (number) => {
        const payload = { ...catalog['booking.created'].example, bookingId: `bk_${number}` };
        await db.transaction(async (tx) => {
          await tx.execute(sql`insert into business (note) values (${'booked'})`);
          await emit(tx, 'booking.created', payload);
        });
      }),
      seconds,
    );
    await Promise.all(connections.map(({ close }) => close()));
    return found;
  },
});
