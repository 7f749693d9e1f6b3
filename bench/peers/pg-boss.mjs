import pg from 'pg';
import { PgBoss } from 'pg-boss';

import { counter, measured, paced, payloadOf, produce, serve, until } from './serve.mjs';

const url = process.argv[2];
const pool = new pg.Pool({ connectionString: url, max: 20 });
pool.on('error', () => undefined);
let boss;

async function open(options = {}) {
  // What it does in the background, it does once a minute or less often: not while a round runs.
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
  ordered: { policy: 'key_strict_fifo', batchSize: 10 },
};

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
/** Ids that grow. */
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
          // Jobs of one insert have the same time of creation, and then go by their id, which is random unless given.
          jobs.get(name).push({ id: nextId(), data, ...(mode === 'ordered' && { singletonKey: lane }) });
        }
      }
      for (const [name, batch] of jobs) await boss.insert(name, batch);
    }
  },
  async drain({ deliveries, mode, lanes, subscribers }) {
    const { done, outOfOrder, handle } = counter(deliveries);
    const names = queues(mode, lanes, subscribers);
    const { batchSize } = MODES[mode];
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
    return await produce(pg, url, order, async (client, number) => {
      const db = { executeSql: (text, values) => client.query(text, values) };
      await boss.publish('emitted', payloadOf(number), { db });
    });
  },
  async latency({ count, perSecond }) {
    const listening = await open({ useListenNotify: true });
    if (!(await listening.getQueue('notified'))) await listening.createQueue('notified', { notify: true });
    const times = [];
    const committedAt = new Map();
    const { done, handle } = counter(count);
    await listening.work('notified', { batchSize: 100 }, async (jobs) => {
      for (const { data } of jobs) {
        times.push(performance.now() - committedAt.get(data.number));
        handle({ lane: '', number: data.number });
      }
    });
    // Until it listens.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const send = async (number) => {
      const client = await pool.connect();
      await client.query('begin');
      const db = { executeSql: (text, values) => client.query(text, values) };
      await listening.send('notified', payloadOf(number), { db });
      committedAt.set(number, performance.now());
      await client.query('commit');
      client.release();
    };
    await paced({ count, perSecond }, send);
    await done;
    await listening.stop({ graceful: false });
    return { times };
  },
});
