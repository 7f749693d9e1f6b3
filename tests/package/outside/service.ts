// A service with a Postgres of its own: records in overlapping transactions and forwards until it is killed, for example
// `node service.js run-1`; without a name it only forwards, and ends when nothing waits.
import { setTimeout as sleep } from 'node:timers/promises';

import { Pool } from 'pg';
import { keepForwarding, OUTBOX_TABLE, record, waiting } from 'postbud/outbox';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });
const [name] = process.argv.slice(2);
const stop = new AbortController();
await pool.query(OUTBOX_TABLE);
// Beside the outbox, which forgets what it has forwarded.
await pool.query('create table if not exists completed (id text primary key, place bigint not null)');

const forwarding = keepForwarding(pool, {
  url: process.env['POSTBUD_URL']!,
  secret: process.env['PRODUCER_RESOURCES_SECRET']!,
  signal: stop.signal,
  everyMs: 20,
});
if (name === undefined) {
  while ((await waiting(pool)).count > 0) await sleep(20);
  stop.abort();
  await forwarding;
  await pool.end();
  console.log('nothing waits');
} else {
  console.log('records');
  await Promise.all([1, 2, 3, 4].map(async (worker) => await work(`${name}-${worker}`)));
}

async function work(worker: string): Promise<void> {
  for (let number = 1; ; number += 1) {
    const id = `${worker}-${number}`;
    const client = await pool.connect();
    await client.query('begin');
    const completed = { maintenanceId: id, resourceId: 'res_1', completedAt: new Date().toISOString() };
    await record(client, 'resource.maintenance.completed', completed, { dedupeKey: id });
    await client.query('insert into completed select id, place from postbud_outbox where id = $1', [id]);
    await sleep(Math.random() * 20);
    await client.query(Math.random() < 0.2 ? 'rollback' : 'commit');
    client.release();
  }
}
