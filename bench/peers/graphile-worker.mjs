import { run, runMigrations } from 'graphile-worker';
import pg from 'pg';

import { counter, measured, payloadOf, producing, serve, traffic, until } from './serve.mjs';

const url = process.argv[2];
const pool = new pg.Pool({ connectionString: url, max: 40 });
pool.on('error', () => undefined);
pool.on('connect', (client) => client.on('error', () => undefined));
const quiet = () => () => undefined;
const { Logger } = await import('graphile-worker');
const logger = new Logger(quiet);

// From its performance page: a local queue, and completions gathered for one event loop turn. A job in a named queue
// locks that queue, so a local queue takes only one of each; ordered jobs are faster without it.
const PRESETS = {
  unordered: {
    concurrentJobs: 24,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  // Polling: workers that find every queue locked sleep, and the last jobs would wait for them.
  ordered: { concurrentJobs: 24, pollInterval: 50 },
  // Its page starts with this number; of 4, 8 and 24, with and without a local queue, it was the fastest at most rates.
  notified: {
    concurrentJobs: 8,
    localQueue: { size: 9 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    pollInterval: 100,
  },
};

const ADD_JOBS =
  'select graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))';

const left = async () => (await pool.query('select from graphile_worker._private_jobs limit 1')).rowCount;

// All runners share one pool, so that their connections are as warm as those of a long-running worker.
const start = (mode, taskList) =>
  run({
    pgPool: pool,
    noHandleSignals: true,
    logger,
    taskList,
    preset: { worker: { pollInterval: 2000, ...PRESETS[mode] } },
  });

let sent = 0;

await serve({
  async install() {
    await runMigrations({ connectionString: url, logger });
  },
  async reset() {
    await pool.query('truncate graphile_worker._private_jobs, graphile_worker._private_job_queues');
  },
  async fill({ events, mode, lanes, subscribers }) {
    await pool.query(
      `insert into graphile_worker._private_tasks (identifier) values ('deliver') on conflict do nothing`,
    );
    for (let from = 0; from < events; from += 1000) {
      const jobs = [];
      for (let number = from; number < Math.min(events, from + 1000); number += 1) {
        for (let subscriber = 0; subscriber < subscribers; subscriber += 1) {
          const lane = `${number % lanes} ${subscriber}`;
          const payload = { ...payloadOf(number + 1), lane };
          jobs.push({ identifier: 'deliver', payload, ...(mode === 'ordered' && { queue_name: lane }) });
        }
      }
      await pool.query(ADD_JOBS, [JSON.stringify(jobs)]);
    }
  },
  async drain({ deliveries, mode }) {
    const { done, outOfOrder, handle } = counter(deliveries);
    let runner;
    const found = await measured(async () => {
      runner = await start(mode, { deliver: async (payload) => handle(payload) });
      await done;
      await until(async () => (await left()) === 0);
    });
    await runner.stop();
    return { ...found, outOfOrder: outOfOrder() };
  },
  async emit(order) {
    await pool.query(
      `insert into graphile_worker._private_tasks (identifier) values ('deliver') on conflict do nothing`,
    );
    return await producing(pg, url, order, async (client, number) => {
      const payload = payloadOf(number);
      const jobs = [1, 2, 3].map((subscriber) => ({
        identifier: 'deliver',
        payload: { ...payload, subscriber },
      }));
      await client.query(ADD_JOBS, [JSON.stringify(jobs)]);
    });
  },
  ...traffic(
    async (topics, handle) => {
      const subscribers = new Set(topics.flatMap(({ subscribers }) => subscribers));
      const runner = await start(
        'notified',
        Object.fromEntries([...subscribers].map((name) => [name, async ({ number }) => handle(number)])),
      );
      return () => runner.stop();
    },
    async ({ subscribers }, committing) => {
      const payload = payloadOf((sent += 1));
      const client = await pool.connect();
      await client.query('begin');
      const jobs = subscribers.map((identifier) => ({ identifier, payload }));
      await client.query(ADD_JOBS, [JSON.stringify(jobs)]);
      committing(payload.number);
      await client.query('commit');
      client.release();
    },
  ),
});
