import pg from 'pg';
import { PgBoss } from 'pg-boss';

import { counter, measured, payloadOf, producing, serve, traffic, until } from './serve.mjs';

const url = process.argv[2];
const pool = new pg.Pool({ connectionString: url, max: 20 });
pool.on('error', () => undefined);
let boss;
let listening;
let sent = 0;

async function open(options = {}) {
  // Its background work runs once a minute or less often: not during a round.
  const opened = new PgBoss({
    connectionString: url,
    max: 20,
    schedule: false,
    supervise: false,
    ...options,
  });
  opened.on('error', () => undefined);
  await opened.start();
  return opened;
}

// `ordered` is its own word for it, strict first-in-first-out by key. `lanes` is ordered while only one process runs
// and nothing fails: one queue of the ordinary kind for each lane.
const MODES = {
  unordered: { policy: 'standard', batchSize: 1000 },
  lanes: { policy: 'standard', batchSize: 500 },
  ordered: { policy: 'key_strict_fifo', batchSize: 500 },
};

// Single jobs, or several workers per queue, are slower. It also polls as often as it may, because a notification that
// arrives while a worker is about to sleep is lost.
const NOTIFIED = { batchSize: 100, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 };

const queueOf = (mode, lane, subscriber) =>
  mode === 'lanes' ? `lane-${lane}-${subscriber}` : `${mode}-${subscriber}`;

function queues(mode, lanes, subscribers) {
  const names = new Set();
  for (let lane = 0; lane < lanes; lane += 1) {
    for (let subscriber = 0; subscriber < subscribers; subscriber += 1)
      names.add(queueOf(mode, lane, subscriber));
  }
  return [...names];
}

let ids = 0;
/** Ascending ids. */
function nextId() {
  ids += 1;
  return `01900000-0000-7000-8000-${ids.toString(16).padStart(12, '0')}`;
}

await serve({
  async install() {
    boss = await open();
  },
  async reset() {
    await pool.query('truncate pgboss.job cascade');
  },
  async fill({ events, mode, lanes, subscribers }) {
    for (const name of queues(mode, lanes, subscribers)) {
      if (!(await boss.getQueue(name))) await boss.createQueue(name, { policy: MODES[mode].policy });
    }
    for (let from = 0; from < events; from += 3000) {
      const jobs = new Map();
      for (let number = from; number < Math.min(events, from + 3000); number += 1) {
        for (let subscriber = 0; subscriber < subscribers; subscriber += 1) {
          const lane = `${number % lanes} ${subscriber}`;
          const name = queueOf(mode, number % lanes, subscriber);
          const data = { ...payloadOf(number + 1), lane };
          if (!jobs.has(name)) jobs.set(name, []);
          // Jobs of one insert have the same creation time and are then ordered by id, which is random unless given.
          jobs.get(name).push({ id: nextId(), data, ...(mode === 'ordered' && { singletonKey: lane }) });
        }
      }
      for (const [name, batch] of jobs) await boss.insert(name, batch);
    }
  },
  async drain({ deliveries, mode, lanes, subscribers }) {
    const { done, outOfOrder, handle } = counter(deliveries);
    const names = queues(mode, lanes, subscribers);
    // In order, a fetch brings at most the first job of each key; it pauses after one that could have brought more.
    const batchSize = mode === 'ordered' ? Math.min(lanes, MODES.ordered.batchSize) : MODES[mode].batchSize;
    const found = await measured(async () => {
      for (const name of names) {
        const options = { batchSize, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
        await boss.work(name, options, async (jobs) => {
          for (const { data } of jobs) handle(data);
        });
      }
      await done;
      await until(
        async () =>
          (await pool.query(`select from pgboss.job where state < 'completed' limit 1`)).rowCount === 0,
      );
    });
    await Promise.all(names.map((name) => boss.offWork(name)));
    return { ...found, outOfOrder: outOfOrder() };
  },
  async emit(order) {
    const names = ['emit-1', 'emit-2', 'emit-3'];
    for (const name of names) {
      if (await boss.getQueue(name)) continue;
      await boss.createQueue(name);
      await boss.subscribe('emitted', name);
    }
    return await producing(pg, url, order, async (client, number) => {
      const db = { executeSql: (text, values) => client.query(text, values) };
      await boss.publish('emitted', payloadOf(number), { db });
    });
  },
  ...traffic(
    async (topics, handle) => {
      listening ??= await open({ useListenNotify: true });
      const names = [...new Set(topics.flatMap(({ subscribers }) => subscribers))];
      for (const name of names) {
        if (!(await listening.getQueue(name))) await listening.createQueue(name, { notify: true });
        await listening.work(name, NOTIFIED, async (jobs) => {
          for (const { data } of jobs) handle(data.number);
        });
      }
      // Waits until it listens.
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return async () => {
        await Promise.all(names.map((name) => listening.offWork(name)));
      };
    },
    async ({ subscribers }, committing) => {
      const payload = payloadOf((sent += 1));
      const client = await pool.connect();
      await client.query('begin');
      const db = { executeSql: (text, values) => client.query(text, values) };
      for (const name of subscribers) await listening.send(name, payload, { db });
      committing(payload.number);
      await client.query('commit');
      client.release();
    },
  ),
});
