import { PGlite } from '@electric-sql/pglite';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { receiver } from 'postbud/receive';
import { describe, expect, inject, onTestFinished } from 'vitest';

import { PLACING_LOCK } from '../../lib/bus/deliveries/locks.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { RECEIVED_TABLE } from '../../lib/elsewhere/receive/remember.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drain, emitPayments, openTransaction, payment, rows, START } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { createDatabase } from '../support/postgres.ts';
import { eventOf, requestOf, SECRET } from '../support/receive.ts';

/** Opens a database in which transactions have this isolation by default. */
type Open = (isolation: string) => Promise<Connection>;

/** Sets the default of a new database. @returns its URL. */
async function databaseWith(isolation: string): Promise<string> {
  const url = await createDatabase(inject('postgresUrl'));
  const { db, close } = await connect(url);
  await rows(
    db,
    `do $$ begin
      execute format('alter database %I set default_transaction_isolation = %L', current_database(), '${isolation}');
    end $$`,
  );
  await close();
  return url;
}

const ways: Readonly<Record<string, Open>> = {
  'the database, through pg': async (isolation) => await connect(await databaseWith(isolation)),
  'the database, through Neon’s driver': async (isolation) =>
    await connectWithNeon(await databaseWith(isolation)),
  'the role': async (isolation) => {
    const url = new URL(await createDatabase(inject('postgresUrl')));
    const { db, close } = await connect(url.toString());
    url.username = url.pathname.slice(1);
    await rows(db, `create role ${url.username} login superuser`);
    await rows(db, `alter role ${url.username} set default_transaction_isolation = '${isolation}'`);
    await close();
    return await connect(url.toString());
  },
  'the URL': async (isolation) => {
    const url = new URL(await createDatabase(inject('postgresUrl')));
    url.searchParams.set('options', `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`);
    return await connect(url.toString());
  },
  'the session of PGlite': async (isolation) => {
    const connection = await connect('memory://');
    await migrate(connection.db);
    await rows(connection.db, `set default_transaction_isolation = '${isolation}'`);
    return connection;
  },
};

const isolationOf = async (on: Parameters<typeof run>[0]) => {
  const text = `select current_setting('transaction_isolation') as isolation`;
  return (await run<{ isolation: string }>(on, { text, values: [] }))[0]!.isolation;
};

describe.for(['repeatable read', 'serializable'])('where transactions are %s by default', (isolation) => {
  test.for(Object.entries(ways))('because of %s, ours are READ COMMITTED all the same', async ([, open]) => {
    const { db, close } = await open(isolation);
    onTestFinished(close);
    expect(await isolationOf(driverOf(db))).toBe(isolation);
    expect(await db.transaction(isolationOf)).toBe('read committed');
  });

  test.for(Object.entries(ways))(
    'because of %s, a statement that refuses it runs in READ COMMITTED, and is not sent in vain again',
    async ([, open]) => {
      const { db, close } = await open(isolation);
      onTestFinished(close);
      await rows(db, 'create sequence sent');
      await rows(
        db,
        `create function decide() returns text language plpgsql as $$
          declare
            times int := nextval('sent');
          begin
            if current_setting('transaction_isolation') <> 'read committed' then
              raise exception 'runs in %', current_setting('transaction_isolation') using errcode = 'PB003';
            end if;
            return times;
          end
        $$`,
      );
      const decided = async () => (await rows<{ sent: string }>(db, 'select decide() as sent'))[0]!.sent;
      expect([await decided(), await decided(), await decided()]).toEqual(['2', '3', '4']);
    },
  );
});

test('a turn that waited while an earlier event was committed places that one first, where transactions are serializable by default', async ({
  handed,
  ledger,
}) => {
  const url = await databaseWith('serializable');
  const { db, close } = await connect(url);
  const holder = new pg.Client(url);
  await holder.connect();
  onTestFinished(async () => void (await Promise.all([close(), holder.end()])));
  const open = await openTransaction(url);
  await open.emit('payment.captured', payment(1));
  await emitPayments(db, 2, 2);
  await holder.query('begin');
  await holder.query("select pg_advisory_xact_lock($1, hashtext('payment.captured'))", [PLACING_LOCK]);
  const relaying = drain(db, [ledger()]);
  const waiting = async () =>
    (await holder.query("select from pg_locks where locktype = 'advisory' and not granted")).rows;
  await expect.poll(waiting).toHaveLength(1);
  await open.commit();
  await holder.query('rollback');
  await relaying;
  await drain(db, [ledger()]);
  expect(handed).toEqual([1, 2]);
});

describe.for(['40001', '40P01'])('after SQLSTATE %s', (code) => {
  const conflict = `do $$ begin raise exception 'met another' using errcode = '${code}'; end $$`;

  test.for(['the database, through pg', 'the database, through Neon’s driver', 'the session of PGlite'])(
    'a transaction runs again at once on %s, and its commit is told of once',
    async (way) => {
      const { db, close } = await ways[way]!('read committed');
      onTestFinished(close);
      let told = 0;
      onDue(db, () => (told += 1));
      let runs = 0;
      await db.transaction(async (tx) => {
        await emit(tx, 'payment.captured', payment(1));
        runs += 1;
        if (runs < 4) await run(tx, { text: conflict, values: [] });
      });
      expect([runs, told]).toEqual([4, 1]);
      expect(await rows(db, 'select from events')).toHaveLength(1);
    },
  );

  test('a transaction that meets nothing but conflicts fails after ten runs', async ({ bus }) => {
    let runs = 0;
    const failed = bus.db.transaction(async (tx) => {
      runs += 1;
      await run(tx, { text: conflict, values: [] });
    });
    await expect(failed).rejects.toMatchObject({ code });
    expect(runs).toBe(10);
  });

  test('a statement that runs alone is sent again', async ({ bus }) => {
    await rows(bus.db, 'create sequence if not exists met');
    await rows(
      bus.db,
      `create or replace function meet() returns bigint language plpgsql as $$
        begin
          if nextval('met') % 4 <> 0 then
            raise exception 'met another' using errcode = '${code}';
          end if;
          return lastval();
        end
      $$`,
    );
    expect(await rows(bus.db, 'select meet()::int % 4 as met')).toEqual([{ met: 0 }]);
  });

  /** A handler that meets a conflict at each of its first calls. */
  const handlers: Readonly<Record<string, (meet: () => Promise<void>) => AttachedSubscriber>> = {
    plain: (meet) => subscriber('ledger', { 'payment.captured': meet }),
    'plain, of batches,': (meet) => subscriber('ledger', { 'payment.captured': meet }, { batch: true }),
    transactional: (meet) =>
      subscriber(
        'ledger',
        {
          'payment.captured': async (_, { tx }) => {
            await meet().catch(() => run(tx, { text: conflict, values: [] }));
          },
        },
        { transactional: true },
      ),
    'transactional, of batches,': (meet) =>
      subscriber(
        'ledger',
        {
          'payment.captured': async (_, { tx }) => {
            await meet().catch(() => run(tx, { text: conflict, values: [] }));
          },
        },
        { transactional: true, batch: true },
      ),
  };
  const meeting = (times: number) => {
    let calls = 0;
    return async () => {
      calls += 1;
      if (calls <= times) throw Object.assign(new Error('met another'), { code });
    };
  };

  test.for(Object.entries(handlers))(
    'a %s handler runs again at once, and no attempt is used up',
    async ([, make], { bus }) => {
      await emitPayments(bus.db, 1, 3);
      expect(await drain(bus.db, [make(meeting(5))])).toMatchObject({ delivered: 3, failed: 0, waited: 0 });
      expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts, log }) => [attempts, log])).toEqual(
        [1, 2, 3].map(() => [1, null]),
      );
    },
  );

  test.for(Object.entries(handlers))(
    'a %s handler that meets nothing but conflicts waits a few seconds, and no attempt is used up',
    async ([, make], { bus }) => {
      await emitPayments(bus.db, 1, 1);
      const attached = [make(meeting(10))];
      expect(await drain(bus.db, attached)).toMatchObject({ delivered: 0, failed: 0, waited: 1 });
      expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([
        { state: 'pending', attempts: 0, nextAttemptAt: START + 5 * SECOND, log: [{ outcome: 'waited' }] },
      ]);
      expect(await drain(bus.db, attached, { now: START + 5 * SECOND })).toMatchObject({ delivered: 1 });
    },
  );
});

describe('two transactions that lock the same rows the other way round', () => {
  test('both commit', async ({ bus }) => {
    await rows(
      bus.db,
      'create table if not exists pairs as select number, 0 as times from generate_series(1, 2) as number',
    );
    const add = async (database: Database, numbers: readonly number[]) =>
      await database.transaction(async (tx) => {
        for (const number of numbers) {
          await run(tx, {
            text: 'update pairs set times = times + 1 where number = $1::int',
            values: [number],
          });
          await run(tx, { text: 'select pg_sleep(0.1)', values: [] });
        }
      });
    await Promise.all([add(bus.db, [1, 2]), add(bus.db, [2, 1])]);
    expect(await rows(bus.db, 'select times from pairs')).toEqual([{ times: 2 }, { times: 2 }]);
  });
});

describe('a receiver elsewhere whose transactions are serializable by default', () => {
  const own = {
    'the pool of pg': async (url: string) => new pg.Pool({ connectionString: url }),
    Drizzle: async (url: string) => drizzle({ client: new pg.Pool({ connectionString: url }) }),
    'Neon’s pool': async (url: string) => (await connectWithNeon(url)).db.$client as pg.Pool,
    PGlite: async () => {
      const database = new PGlite();
      await database.exec(`${RECEIVED_TABLE}; create table effects (event_id uuid, isolation text);
        set default_transaction_isolation = serializable`);
      return database;
    },
  } as const;

  test.for(Object.keys(own) as (keyof typeof own)[])(
    'answers all of twenty twins with 204 on %s, and their event has its effect once',
    async (name) => {
      const url = await databaseWith('serializable');
      const { db, close } = await connect(url);
      onTestFinished(close);
      await rows(db, 'create table effects (event_id uuid, isolation text)');
      for (const statement of RECEIVED_TABLE.split(';')) await rows(db, statement);
      const database = await own[name](url);
      const answer = receiver({
        subscriber: 'ledger',
        secrets: SECRET,
        database: database as pg.Pool,
        handlers: {
          'payment.captured': async ({ id }, tx) => {
            const write = `insert into effects values ('${id}', current_setting('transaction_isolation'))`;
            await ('execute' in tx
              ? (tx.execute as (text: string) => Promise<void>)(write)
              : tx.query(write));
          },
        },
        onError: () => undefined,
      });
      const event = eventOf({ id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77' });
      const answers = await Promise.all(Array.from({ length: 20 }, () => answer(requestOf(event))));
      expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(204));
      const effects =
        database instanceof PGlite
          ? (await database.query('select isolation from effects')).rows
          : await rows(db, 'select isolation from effects');
      expect(effects).toEqual([{ isolation: 'read committed' }]);
    },
  );
});
