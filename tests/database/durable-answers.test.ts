import pg from 'pg';
import { RECEIVED_TABLE, receiver } from 'postbud/receive';
import { Webhook } from 'standardwebhooks';
import { v7 as uuidv7 } from 'uuid';
import { expect, onTestFinished, vi } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { probeReturned } from '../../lib/bus/deliveries/operations/probe.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { keepUntilMailed } from '../../lib/edge/inquiry/keep-until-mailed.ts';
import { takeIn } from '../../lib/edge/webhooks/reconcile/take-in.ts';
import { OUTBOX_TABLE, record } from '../../lib/elsewhere/outbox/outbox.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { START, drain, emitPayments, payloadOf } from '../support/bus.ts';
import { test as base } from '../support/output-test.ts';
import { approved, BOOKINGS, structured } from '../support/posted-events.ts';
import { createDatabase, startPostgres } from '../support/postgres.ts';
import { eventOf, requestOf, SECRET } from '../support/receive.ts';

// A server that answers every commit before it is on disk, and writes its log as late as it can. Nothing else writes to it.
const test = base
  .extend('server', { scope: 'file' }, async ({}, { onCleanup }) => {
    const server = await startPostgres();
    onCleanup(() => server.stop());
    const admin = await client(server.url);
    for (const setting of [
      `wal_writer_delay = '10s'`,
      `autovacuum = off`,
      `wal_level = minimal`,
      `max_wal_senders = 0`,
    ])
      await admin.query(`alter system set ${setting}`);
    await admin.end();
    await server.restart('fast', 0);
    return server;
  })
  .extend('url', async ({ server }) => {
    const url = await createDatabase(server.url);
    const admin = await client(url);
    await admin.query(`create table effects (number int); ${OUTBOX_TABLE}; ${RECEIVED_TABLE}`);
    await admin.query(`alter database ${new URL(url).pathname.slice(1)} set synchronous_commit = off`);
    await admin.end();
    return url;
  })
  .extend('bus', async ({ url }, { onCleanup }) => {
    const bus = await connect(url);
    onCleanup(() => bus.close());
    return bus.db;
  });

interface Door {
  /** What must be there before it is used. */
  readonly before?: (db: Database, url: string) => Promise<unknown>;
  /** Resolves with the answer. */
  readonly use: (db: Database, url: string) => Promise<unknown>;
  /** Selects what was answered as done. */
  readonly done: string;
}

const EVENTS = 'select id, payload from events';

async function client(url: string) {
  const opened = new pg.Client(url);
  // The server is made to crash.
  opened.on('error', () => undefined);
  await opened.connect();
  return opened;
}

/** Runs statements in a transaction of a program that is not ours. */
async function elsewhere(url: string, body: (tx: pg.Client) => Promise<unknown>) {
  const tx = await client(url);
  await tx.query('begin');
  await body(tx);
  await tx.query('commit');
  await tx.end();
}

/** A function file, in a process whose environment leads to the database. */
async function deployed<Module>(url: string, load: () => Promise<Module>): Promise<Module> {
  const variables = {
    DATABASE_URL: url,
    RELAY: 'off',
    PRODUCER_BOOKINGS_SECRET: BOOKINGS,
    WEBHOOK_IDENTITYPROVIDER_SECRET: BOOKINGS,
    WEBHOOK_IDENTITYPROVIDER_SCHEME: 'standard',
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  vi.resetModules();
  onTestFinished(() => void vi.unstubAllEnvs());
  return await load();
}

const postEvent = async (url: string) => {
  const { default: endpoint } = await deployed(url, () => import('../../api/events.ts'));
  const { status } = await endpoint.fetch(structured(approved('b-1')));
  expect(status).toBe(200);
};

const postWebhook = async (url: string) => {
  const { default: endpoint } = await deployed(url, () => import('../../api/webhooks/[provider].ts'));
  const [body, at] = [JSON.stringify({ type: 'login' }), new Date()];
  const { status } = await endpoint.fetch(
    new Request('https://postbud.example/webhooks/identityprovider', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': 'msg_1',
        'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
        'webhook-signature': new Webhook(BOOKINGS).sign('msg_1', at, body),
      },
      body,
    }),
  );
  expect(status).toBe(200);
};

const inquire = async (db: Database) => {
  const work: Promise<unknown>[] = [];
  await keepUntilMailed(
    payloadOf('inquiry.trapped'),
    { settings: {} as never, keys: ['body'], send: async () => await Promise.resolve() },
    {
      requestId: 'req-1',
      database: async () => await Promise.resolve(db),
      waitUntil: (promise) => void work.push(promise),
    },
  );
  await Promise.all(work);
};

/** Opens an outage of the ledger: its second attempt finds nobody either, and nobody has been answered between the two. */
const silence = async (db: Database) => {
  await db.transaction(async (tx) => {
    for (const key of ['a', 'b', 'c'])
      await emit(tx, 'payment.captured', payloadOf('payment.captured'), { orderingKey: key });
  });
  const absent = () => {
    throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
  };
  const ledger = subscriber('ledger', { 'payment.captured': absent }, { outage: 'wait' });
  for (const now of [START, START + 2 * MINUTE]) await drain(db, [ledger], { now });
};

const settleInTransaction = async (db: Database) => {
  const handle = async (_: unknown, { tx }: { tx: Parameters<typeof run>[0] }) =>
    void (await run(tx, { text: 'insert into effects values (1)', values: [] }));
  const report = await drain(db, [
    subscriber('bookings', { 'payment.captured': handle }, { transactional: true }),
  ]);
  expect(report.delivered).toBeGreaterThan(0);
};

const receive = async (_: Database, url: string) => {
  const pool = new pg.Pool({ connectionString: url });
  const answer = receiver({
    subscriber: 'ledger',
    secrets: SECRET,
    database: pool,
    handlers: {
      'payment.captured': async (_event, tx) => void (await tx.query('insert into effects values (1)')),
    },
  });
  const { status } = await answer(requestOf(eventOf({ id: uuidv7() })));
  expect(status).toBe(204);
  await pool.end();
};

const doors: Readonly<Record<string, Door>> = {
  'a webhook': {
    use: async (_, url) => await postWebhook(url),
    done: 'select event_id from webhook_receipts',
  },
  'an event over HTTP': { use: async (_, url) => await postEvent(url), done: EVENTS },
  'the event of an inquiry': { use: inquire, done: EVENTS },
  'an event of a transaction here': {
    use: async (db) =>
      await db.transaction(async (tx) => await emit(tx, 'payment.captured', payloadOf('payment.captured'))),
    done: EVENTS,
  },
  'an event of a program’s own transaction': {
    use: async (_, url) =>
      await elsewhere(url, async (tx) => await emit(tx, 'payment.captured', payloadOf('payment.captured'))),
    done: EVENTS,
  },
  'an event in SQL': {
    use: async (_, url) =>
      await elsewhere(url, async (tx) => {
        const payment = JSON.stringify(payloadOf('payment.captured'));
        await tx.query('select postbud_emit($1, $2)', ['payment.captured', payment]);
      }),
    done: EVENTS,
  },
  'a timer': {
    use: async (db) =>
      await db.transaction(
        async (tx) => await emit(tx, 'payment.captured', payloadOf('payment.captured'), { at: '1h' }),
      ),
    // The relay of another door releases it.
    done: 'select id from timers union select id from events where due_at is not null',
  },
  'what the reconciliation takes in': {
    use: async (db) =>
      await takeIn(
        db,
        { endpoint: 'cardpayments', provider: 'cardpayments' },
        [{ eventId: 'evt_1', eventType: 'charge.succeeded', body: { id: 'evt_1' } }],
        () => undefined,
      ),
    done: 'select event_id from webhook_receipts',
  },
  'an operator’s act': {
    use: async (db) => await pause(db, { subscriber: 'audit', topic: null }, 'operator', 'tried'),
    done: 'select action from operator_actions join pauses using (subscriber)',
  },
  'a kick of a component that is back': {
    before: silence,
    use: async (db) => expect(await probeReturned(db, 'ledger')).toBe(true),
    done: 'select subscriber, outages from outages',
  },
  'an event of a service’s outbox, which the bus is told at once': {
    use: async (_, url) =>
      await elsewhere(
        url,
        async (tx) =>
          await record(tx, 'booking.approved', payloadOf('booking.approved'), { dedupeKey: 'b-1' }),
      ),
    done: 'select id from postbud_outbox',
  },
  'what a component elsewhere has received': {
    use: receive,
    done: 'select event_id, (select count(*) from effects) from postbud_received',
  },
};

/** Behind it come writes of the relay, which it does again after a crash: they need not be on disk. */
const SETTLEMENT: Door = {
  before: async (db) => await emitPayments(db, 1, 1),
  use: settleInTransaction,
  // In one transaction with the settlement.
  done: 'select count(*) from effects',
};

test.for(Object.entries(doors))(
  '%s is on disk when it is answered as done',
  async ([, { before, use }], { server, url, bus }) => {
    const admin = await client(server.url);
    onTestFinished(() => admin.end());
    const written = async () => {
      const { rows } = await admin.query<{ end: string; disk: string }>(
        'select pg_current_wal_insert_lsn() as end, pg_current_wal_flush_lsn() as disk',
      );
      return rows[0]!;
    };
    await before?.(bus, url);
    const { end: start } = await written();
    await use(bus, url);
    const { end, disk } = await written();
    expect(end).not.toBe(start);
    expect(disk).toBe(end);
  },
);

test('what was answered as done is there after a crash of the database', async ({ server, url, bus }) => {
  const all = [...Object.values(doors), SETTLEMENT];
  for (const { before, use } of all) {
    await before?.(bus, url);
    await use(bus, url);
  }
  const look = async () => {
    const looking = await client(url);
    try {
      const found: unknown[] = [];
      for (const { done } of all)
        found.push((await looking.query(`select * from (${done}) as done order by 1`)).rows);
      return found;
    } finally {
      await looking.end();
    }
  };
  const answered = await look();
  for (const [place, found] of answered.entries()) expect(found, all[place]!.done).not.toEqual([]);
  await server.restart('immediate', 0);
  expect(await vi.waitFor(look, { timeout: 30_000, interval: 100 })).toEqual(answered);
});
