// A service with a Postgres of its own: records in overlapping transactions and forwards until it is killed, for example
// `node service.js run-1`; without a name it only forwards, decides about what is set aside, and ends when nothing waits.
import { setTimeout as sleep } from 'node:timers/promises';

import { Pool } from 'pg';
import type { PoolClient } from 'pg';
import { discard, keepForwarding, OUTBOX_TABLE, record, retry, setAside, waiting } from 'postbud/outbox';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });
const [name] = process.argv.slice(2);
const stop = new AbortController();
await pool.query(OUTBOX_TABLE);
// Beside the outbox, which forgets what it has forwarded.
await pool.query('create table if not exists written (id text primary key, place bigint not null)');

const forwarding = keepForwarding(pool, {
  url: process.env['POSTBUD_URL']!,
  secret: process.env['PRODUCER_RESOURCES_SECRET']!,
  signal: stop.signal,
  everyMs: 20,
  onError: () => undefined,
});
if (name === undefined) {
  for (; (await waiting(pool)).count > 0; await sleep(20)) {
    for (const event of await setAside(pool)) {
      if (event.id.endsWith('0')) await discard(pool, event, 'each 50th');
      else {
        await pool.query(`update postbud_outbox set event = event - 'schemaversion' where id = $1`, [
          event.id,
        ]);
        await retry(pool, event, 'mended');
      }
    }
  }
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
    await write(client, id);
    await schedule(client, `s-${id}`, number);
    await sleep(Math.random() * 20);
    await client.query(Math.random() < 0.2 ? 'rollback' : 'commit');
    client.release();
  }
}

/** Records in the order of a venue; each 25th event is one that the bus refuses. */
async function schedule(client: PoolClient, id: string, number: number): Promise<void> {
  const at = new Date().toISOString();
  const scheduled = {
    maintenanceId: id,
    resourceId: `res_${number % 3}`,
    startsAt: at,
    endsAt: at,
    affectedBookingIds: [],
  };
  await record(client, 'resource.maintenance.scheduled', scheduled, { dedupeKey: id });
  await write(client, id);
  if (number % 25 === 0)
    await client.query(`update postbud_outbox set event = event || '{"schemaversion": 9}' where id = $1`, [
      id,
    ]);
}

async function write(client: PoolClient, id: string): Promise<void> {
  await client.query('insert into written select id, place from postbud_outbox where id = $1', [id]);
}
