import pg from 'pg';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';

import { EMITTER_LOCKS } from '../../lib/bus/outbox/emitter-locks.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createDatabase } from '../support/postgres.ts';
import { forgetEvents } from '../support/scenes.ts';

const TOPIC = 'webhook.cardpayments.received';

const UNAVAILABLE = { status: 503, code: 'database_unavailable', headers: { 'retry-after': '5' } };

let connection: Connection;
let admin: pg.Pool;
let kick: ReturnType<typeof vi.fn<() => void>>;

beforeAll(async () => {
  const url = await createDatabase(inject('postgresUrl'));
  connection = await connect(url);
  admin = new pg.Pool({ connectionString: url });
  // Sessions that a test ends are no error of the test.
  admin.on('error', () => undefined);
});

afterAll(async () => {
  await connection.close();
  await admin.end();
});

beforeEach(async () => {
  kick = vi.fn<() => void>();
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await forgetEvents(admin, 'webhook_receipts', 'webhook_rejections');
  return onDue(connection.db, kick);
});

describe('a webhook whose twin is in an open transaction', () => {
  test('waits, and is a duplicate once the twin has committed', async () => {
    const twin = await twinInFlight();
    const received = receive();
    await waiting();
    await twin.query('commit');
    expect(await received).toEqual({ received: true, duplicate: true, eventId: 'msg_1' });
    expect(await count('events')).toBe(0);
    expect(kick).not.toHaveBeenCalled();
  });

  test('waits, and is accepted once the twin has rolled back', async () => {
    const twin = await twinInFlight();
    const received = receive();
    await waiting();
    expect(await count('events')).toBe(0);
    await twin.query('rollback');
    expect(await received).toMatchObject({ duplicate: false });
    expect(await count('events')).toBe(1);
    expect(await receipts()).toMatchObject([{ duplicates: 0 }]);
    expect(kick).toHaveBeenCalledTimes(1);
  });

  test('waits, and is accepted once the twin has been killed', async () => {
    const twin = await twinInFlight();
    const received = receive();
    await waiting();
    await admin.query('select pg_terminate_backend($1)', [twin.pid]);
    expect(await received).toMatchObject({ duplicate: false });
    expect(await count('events')).toBe(1);
  });

  test('is accepted once when many wait and the twin has rolled back', async () => {
    const twin = await twinInFlight();
    const received = Array.from({ length: 30 }, () => receive());
    await waiting();
    await twin.query('rollback');
    const outcomes = await Promise.all(received);
    expect(outcomes.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    expect(await count('events')).toBe(1);
    expect(await receipts()).toMatchObject([{ duplicates: 29 }]);
  });

  test('gives up after two seconds, leaves nothing, and is accepted at its next try', async () => {
    const limits = await lockTimeouts();
    const twin = await twinInFlight();
    await expect(receive()).rejects.toMatchObject({ ...UNAVAILABLE, cause: { code: '55P03' } });
    expect(limits()).toEqual(['2s']);
    await twin.query('rollback');
    expect(await count('events')).toBe(0);
    expect(await receive()).toMatchObject({ duplicate: false });
  });

  test('delays no webhook with another id', async () => {
    await twinInFlight();
    expect(await receive({ id: 'msg_2' })).toMatchObject({ duplicate: false });
  });
});

describe('the emitter lock of the topic', () => {
  test('is not taken by a duplicate, which therefore never holds back the topic', async () => {
    await receive();
    const holder = await session();
    await holder.query('begin');
    await holder.query('select pg_advisory_xact_lock($1, hashtext($2))', [EMITTER_LOCKS, TOPIC]);
    expect(await receive()).toMatchObject({ duplicate: true });
    const another = receive({ id: 'msg_2' });
    await waiting();
    expect(await receipts()).toMatchObject([{ event_id: 'msg_1', duplicates: 1 }]);
    await holder.query('commit');
    expect(await another).toMatchObject({ duplicate: false });
  });

  test("is the topic's own, and released with the statement", async () => {
    const holder = await session();
    await holder.query('begin');
    await holder.query('select pg_advisory_xact_lock($1, hashtext($2))', [EMITTER_LOCKS, 'payment.captured']);
    expect(await receive()).toMatchObject({ duplicate: false });
    const { rows } = await admin.query(
      `select * from pg_locks where locktype = 'advisory' and mode = 'ShareLock'
         and database = (select oid from pg_database where datname = current_database())`,
    );
    expect(rows).toEqual([]);
  });
});

describe('an accepted webhook', () => {
  test('becomes one event with its marker, so that a relay gives it a place', async () => {
    await receive();
    const { rows } = await admin.query(
      `select topic, marker.event_id = event.id as is_its, marker.created_at = event.created_at as same_time,
         marker.subscribers = event.subscribers as same_subscribers
       from events event join awaiting marker using (topic, seq)`,
    );
    expect(rows).toEqual([{ topic: TOPIC, is_its: true, same_time: true, same_subscribers: true }]);
  });

  test('leaves the session as it was', async () => {
    await receive();
    const { rows } = await pool().query('show lock_timeout');
    expect(rows).toEqual([{ lock_timeout: '0' }]);
  });
});

describe('a webhook whose statement fails', () => {
  test.each(['events', 'awaiting'])(
    'at %s leaves no receipt, and is accepted once the cause is fixed',
    async (table) => {
      await admin.query(`create or replace function refuse_insert() returns trigger language plpgsql
      as $$ begin raise exception 'broken'; end $$`);
      await admin.query(
        `create trigger broken before insert on ${table} for each row execute function refuse_insert()`,
      );
      onTestFinished(async () => void (await admin.query('drop function if exists refuse_insert cascade')));
      await expect(receive()).rejects.toMatchObject({ code: 'P0001' });
      expect([await count('webhook_receipts'), await count('events')]).toEqual([0, 0]);
      expect(kick).not.toHaveBeenCalled();
      await admin.query(`drop trigger broken on ${table}`);
      expect(await receive()).toMatchObject({ duplicate: false });
    },
  );

  test('because its connection is cut is answered 503 and leaves nothing; its next try is accepted', async () => {
    const twin = await twinInFlight();
    const outcome = Promise.allSettled([receive()]);
    const [pid] = await waiting();
    await admin.query('select pg_terminate_backend($1)', [pid]);
    const [{ reason }] = z.tuple([z.object({ reason: z.unknown() })]).parse(await outcome);
    expect(reason).toMatchObject({ ...UNAVAILABLE, cause: { code: '57P01' } });
    await twin.query('rollback');
    expect([await count('webhook_receipts'), await count('events')]).toEqual([0, 0]);
    expect(await receive()).toMatchObject({ duplicate: false });
  });

  test("because of the database's own time limit is answered 503", async () => {
    const { db, close } = await connect(`${databaseUrl()}?options=-c%20statement_timeout%3D200ms`);
    onTestFinished(close);
    await twinInFlight();
    await expect(receive({ db })).rejects.toMatchObject({ ...UNAVAILABLE, cause: { code: '57014' } });
  });
});

test('a webhook whose database answers too late is answered 503 within six seconds; its event is kicked, and the next try is a duplicate', async () => {
  // A table's lock is taken before the statement runs, and so before it can set a limit.
  const holder = await session();
  await holder.query('begin');
  await holder.query('lock table webhook_receipts');
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const refused = receive().catch((error: unknown) => error);
  await waiting();
  await vi.advanceTimersByTimeAsync(6000);
  expect(await refused).toMatchObject({ ...UNAVAILABLE, cause: { code: 'database_timeout' } });
  vi.useRealTimers();
  expect(kick).not.toHaveBeenCalled();
  await holder.query('commit');
  await vi.waitFor(() => expect(kick).toHaveBeenCalledTimes(1), PATIENTLY);
  expect(await receive()).toMatchObject({ duplicate: true });
  expect(await count('events')).toBe(1);
});

test('the embedded database receives webhooks as the real one does', async () => {
  const { db, close } = await connect('memory://');
  onTestFinished(close);
  await migrate(db);
  const outcomes = await Promise.all(Array.from({ length: 10 }, () => receive({ db })));
  expect(outcomes.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
  const { rows } = z
    .object({ rows: z.array(z.unknown()) })
    .parse(await db.execute('select topic from events'));
  expect(rows).toEqual([{ topic: TOPIC }]);
});

describe('counts of refused webhooks', () => {
  test('add up over flushes and instances, without a deadlock', async () => {
    const instances = Array.from({ length: 6 }, () => new Rejections(async () => connection.db));
    for (const [index, instance] of instances.entries()) {
      const reasons = index % 2 === 0 ? ['first', 'second'] : ['second', 'first'];
      for (const reason of reasons) instance.count('cardpayments', reason);
    }
    await Promise.all(instances.map((instance) => instance.flush()));
    instances[0]!.count('cardpayments', 'first');
    await instances[0]!.flush();
    await instances[0]!.flush();
    expect(await counts()).toEqual([
      { provider: 'cardpayments', reason: 'first', count: 7 },
      { provider: 'cardpayments', reason: 'second', count: 6 },
    ]);
  });

  test('that could not be written are written with the next', async () => {
    let isDown = true;
    const rejections = new Rejections(async () => {
      if (isDown) throw new Error('down');
      return connection.db;
    });
    rejections.count('unknown', 'unknown_provider');
    await rejections.flush();
    isDown = false;
    rejections.count('unknown', 'unknown_provider');
    await rejections.flush();
    expect(await counts()).toEqual([{ provider: 'unknown', reason: 'unknown_provider', count: 2 }]);
  });

  test('are written after ten seconds, in one statement however many they are', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const database = vi.fn(async () => connection.db);
    const rejections = new Rejections(database);
    for (let n = 0; n < 1000; n += 1) rejections.count('identityprovider', `reason_${n % 3}`);
    vi.advanceTimersByTime(9_999);
    expect(database).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    vi.useRealTimers();
    await expect.poll(() => count('webhook_rejections')).toBe(3);
    expect(database).toHaveBeenCalledTimes(1);
  });
});

const SECRET = `whsec_${Buffer.from('a secret of more than 24 bytes').toString('base64')}`;

/** Takes in a signed webhook of card payments. */
async function receive({ id = 'msg_1', db = connection.db } = {}) {
  const body = '{"type":"charge.refunded"}';
  const at = new Date();
  const request = new Request('https://postbud.example/webhooks/cardpayments', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
      'webhook-signature': new Webhook(SECRET).sign(id, at, body),
    },
    body,
  });
  const database = async () => db;
  const none = { scheme: 'standard' as const, secrets: [] };
  return await receiveWebhook({
    request,
    requestId: 'req-1',
    settings: {
      cardpayments: { scheme: 'standard', secrets: [SECRET] },
      walletpayments: none,
      identityprovider: none,
    },
    database,
    rejections: new Rejections(database),
  });
}

/** A session of its own, ended with the test. */
async function session(): Promise<pg.Client & { readonly pid: number }> {
  const client = new pg.Client(databaseUrl());
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return Object.assign(client, { pid: rows[0]!.pid });
}

/** Has Postgres tell, for each receipt that is written, how long its statement would wait for a lock. */
async function lockTimeouts(): Promise<() => readonly string[]> {
  await admin.query(`create function tell_lock_timeout() returns trigger language plpgsql
    as $$ begin raise notice '%', current_setting('lock_timeout'); return new; end $$`);
  await admin.query(
    'create trigger tell before insert on webhook_receipts for each row execute function tell_lock_timeout()',
  );
  const told: string[] = [];
  const listen = (client: pg.PoolClient) =>
    void client.once('notice', ({ message }) => told.push(message ?? ''));
  pool().on('acquire', listen);
  onTestFinished(async () => {
    pool().off('acquire', listen);
    await admin.query('drop function tell_lock_timeout cascade');
  });
  return () => told;
}

/** A transaction that has written the receipt of `msg_1` and does not end. */
async function twinInFlight() {
  const twin = await session();
  await twin.query('begin');
  await twin.query(
    `insert into webhook_receipts (provider, event_id, body_sha256, received_at)
     values ('cardpayments', 'msg_1', 'twin', now())`,
  );
  return twin;
}

/** Waits until a statement of the intake waits for a lock. @returns the processes of those that do */
async function waiting(): Promise<number[]> {
  let pids: number[] = [];
  const look = async () => {
    const { rows } = await admin.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where wait_event_type = 'Lock' and query like '%webhook_receipts%' and datname = current_database()`,
    );
    pids = rows.map(({ pid }) => pid);
    return pids.length;
  };
  await expect.poll(look).toBeGreaterThan(0);
  return pids;
}

function databaseUrl(): string {
  return z.string().parse(admin.options.connectionString);
}

/** The pool beneath the intake. */
function pool(): pg.Pool {
  return z.instanceof(pg.Pool).parse(connection.db.$client);
}

async function count(table: 'events' | 'webhook_receipts' | 'webhook_rejections'): Promise<number> {
  const { rows } = await admin.query<{ count: number }>(`select count(*)::int from ${table}`);
  return rows[0]!.count;
}

async function receipts(): Promise<unknown[]> {
  return (await admin.query('select * from webhook_receipts')).rows;
}

async function counts(): Promise<unknown[]> {
  const columns = 'select provider, reason, count::int from webhook_rejections order by provider, reason';
  return (await admin.query(columns)).rows;
}
