import { sql } from 'drizzle-orm';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { connect, transact } from '../../lib/platform/db/connect.ts';
import type { Connection, Transaction } from '../../lib/platform/db/connect.ts';
import { TransactionNotBegun } from '../../lib/platform/db/late-begin.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { gate, numbers, payment, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { countFlights } from '../support/flights.ts';
import type { FlightCounter } from '../support/flights.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { createDatabase } from '../support/postgres.ts';

const business = pgTable('business', { number: integer().notNull() });

const write = (tx: Transaction, number: number) =>
  run(tx, { text: 'insert into business values ($1::int)', values: [number] });

const sleep = (tx: Transaction) => run(tx, { text: 'select pg_sleep(60)', values: [] });
const SLEEPING = `select pid from pg_stat_activity
  where datname = current_database() and state = 'active' and query = 'select pg_sleep(60)'`;

/** Opens a database through its driver, by way of a counter. */
const drivers = {
  pg: async (url: string, counter: FlightCounter) => await connect(counter.urlOf(url)),
  Neon: async (url: string, counter: FlightCounter) => await connectWithNeon(url, counter.urlOf(url)),
};

describe.each(['pg', 'Neon'] as const)("a producer's transaction on %s", (name) => {
  let counter: FlightCounter;
  let driver: Connection;
  /** Around the counter. */
  let direct: Connection;

  beforeAll(async () => {
    const url = await createDatabase(inject('postgresUrl'));
    counter = await countFlights(url);
    driver = await drivers[name](url, counter);
    direct = await connect(url);
    await rows(direct.db, 'create table business (number int not null)');
  });
  afterAll(async () => {
    await driver.close();
    await direct.close();
    await counter.close();
  });
  beforeEach(() => forgetEvents(direct.db, 'business'));

  const written = async () =>
    (await rows<{ number: number }>(direct.db, 'select number from business order by number')).map(
      ({ number }) => number,
    );
  const sleeping = () => rows(direct.db, SLEEPING);
  const emitted = () => rows(direct.db, 'select from events');

  const ways: [way: string, write: (tx: Transaction) => PromiseLike<unknown>][] = [
    ['an insert that Drizzle builds', (tx) => tx.insert(business).values({ number: 1 })],
    ['SQL with a parameter', (tx) => tx.execute(sql`insert into business values (${1}::int)`)],
    ['SQL without parameters', (tx) => tx.execute(sql`insert into business values (1);`)],
    ['a statement', (tx) => write(tx, 1)],
    [
      'a prepared statement',
      (tx) => run(tx, { name: 'business', text: 'insert into business values ($1::int)', values: [1] }),
    ],
  ];

  it.each(ways)('takes three round trips to commit %s and an emit', async (_, writeOne) => {
    const flights = await counter.during(() =>
      driver.db.transaction(async (tx) => {
        await writeOne(tx);
        await emit(tx, 'payment.captured', payment(1));
      }),
    );
    expect(flights).toHaveLength(3);
    // One Sync for `begin`, the setting of the commit and the statement: neither a failure nor a pooler can part them.
    expect(flights[0]).toMatch(/^PBEPBEHP?BDEH?S$/);
    expect(await written()).toEqual([1]);
    expect(await emitted()).toHaveLength(1);
  });

  it.each<[end: string, body: (tx: Transaction) => Promise<unknown>]>([
    ['returns', async () => 'nothing'],
    ['throws', () => Promise.reject(new Error('changed its mind'))],
    ['rolls back', async (tx) => tx.rollback()],
  ])('sends nothing when it %s before its first statement', async (_, body) => {
    await driver.db.transaction((tx) => write(tx, 1));
    expect(await counter.during(() => driver.db.transaction(body).catch(() => undefined))).toEqual([]);
    await driver.db.transaction((tx) => write(tx, 2));
    expect(await written()).toEqual([1, 2]);
  });

  it('rolls back what it wrote and emitted when it throws', async () => {
    const failed = driver.db.transaction(async (tx) => {
      await write(tx, 1);
      await emit(tx, 'payment.captured', payment(1));
      throw new Error('changed its mind');
    });
    await expect(failed).rejects.toThrow('changed its mind');
    expect(await written()).toEqual([]);
    expect(await emitted()).toEqual([]);
  });

  it('has the isolation level and the access mode that it asks for, and does not pass them on to the next one', async () => {
    const settings = async (tx: Transaction) =>
      await run(tx, {
        text: `select current_setting('transaction_isolation') as isolation,
                 current_setting('transaction_read_only') as read_only,
                 current_setting('transaction_deferrable') as deferrable`,
        values: [],
      });
    expect(
      await driver.db.transaction(settings, {
        isolationLevel: 'serializable',
        accessMode: 'read only',
        deferrable: true,
      }),
    ).toEqual([{ isolation: 'serializable', read_only: 'on', deferrable: 'on' }]);
    expect(await driver.db.transaction(settings)).toEqual([
      { isolation: 'read committed', read_only: 'off', deferrable: 'off' },
    ]);
  });

  it('is aborted by a first statement that the server cannot parse, which does not count as prepared', async () => {
    const early = { name: 'early', text: 'select number from not_yet', values: [] };
    const heard: unknown[] = [];
    const failed = driver.db.transaction(async (tx) => {
      const note = (error: { code: string }) => heard.push(error.code);
      await run(tx, early).catch(note);
      await write(tx, 1).catch(note);
      throw new Error('seen enough');
    });
    await expect(failed).rejects.toThrow('seen enough');
    expect(heard).toEqual(['42P01', '25P02']);
    expect(await written()).toEqual([]);
    await rows(direct.db, 'create table not_yet as select 7 as number');
    const both = async (tx: Transaction) => [...(await run(tx, early)), ...(await run(tx, early))];
    expect(await driver.db.transaction(both)).toEqual([{ number: 7 }, { number: 7 }]);
  });

  it('prepares its first statement by name once', async () => {
    const text = 'select number from business where number = $1::int';
    const once = () =>
      driver.db.transaction((tx) => run(tx, { name: 'business by number', text, values: [1] }));
    await once();
    const [first] = await counter.during(once);
    expect(first).toMatch(/^PBEPBEHBDEH?S$/);
  });

  it('runs none of its statements when it does not begin', async () => {
    const failed = driver.db.transaction(
      async (tx) => {
        await Promise.allSettled([write(tx, 1), write(tx, 2)]);
        await write(tx, 3).catch(() => undefined);
      },
      { isolationLevel: 'nonsense' as 'serializable' },
    );
    await expect(failed).rejects.toThrow(TransactionNotBegun);
    await expect(failed).rejects.toThrow(/did not begin.*nonsense/);
    await driver.db.transaction((tx) => write(tx, 4));
    expect(await written()).toEqual([4]);
  });

  it('has not begun when its connection is lost with its first statement', async () => {
    await driver.db.transaction((tx) => write(tx, 1));
    counter.loseNext();
    await expect(driver.db.transaction((tx) => write(tx, 2))).rejects.toThrow(TransactionNotBegun);
    await driver.db.transaction((tx) => write(tx, 3));
    expect(await written()).toEqual([1, 3]);
  });

  it('had begun when its connection is lost while its first statement runs', async () => {
    const failed = driver.db.transaction(sleep).catch((error: unknown) => error);
    await expect.poll(sleeping).toHaveLength(1);
    counter.loseAll();
    expect(await failed).not.toBeInstanceOf(TransactionNotBegun);
    expect(await failed).toBeInstanceOf(Error);
    // The server would hear of it when it has slept.
    await rows(direct.db, `select pg_terminate_backend(pid) from (${SLEEPING})`);
    await driver.db.transaction((tx) => write(tx, 1));
    expect(await written()).toEqual([1]);
  });

  it('fails for the reason that its first statement could not be sent', async () => {
    const unsendable = {
      toPostgres: () => {
        throw new RangeError('not to be sent');
      },
    };
    const failed = driver.db.transaction((tx) =>
      run(tx, { text: 'select $1::text', values: [unsendable] }).catch(() => undefined),
    );
    await expect(failed).rejects.toThrow(RangeError);
    await driver.db.transaction((tx) => write(tx, 1));
    expect(await written()).toEqual([1]);
  });

  it('takes statements side by side, and rolls all of them back when one fails', async () => {
    const numbers = [1, 2, 3, 4];
    const sideBySide = (tx: Transaction) => Promise.all(numbers.map((number) => write(tx, number)));
    const flights = await counter.during(() => driver.db.transaction(sideBySide));
    expect(flights).toHaveLength(numbers.length + 1);
    expect(await written()).toEqual(numbers);
    const failed = driver.db.transaction((tx) =>
      Promise.all([run(tx, { text: 'select 1 / 0', values: [] }), sideBySide(tx)]),
    );
    await expect(failed).rejects.toMatchObject({ code: '22012' });
    expect(await written()).toEqual(numbers);
  });

  it('can begin with a savepoint, and continues after a rollback to it', async () => {
    await driver.db.transaction(async (tx) => {
      const inner = tx.transaction(async (nested) => {
        await nested.insert(business).values({ number: 1 });
        nested.rollback();
      });
      await expect(inner).rejects.toThrow('Rollback');
      await tx.transaction((nested) => nested.insert(business).values({ number: 2 }));
      await write(tx, 3);
    });
    expect(await written()).toEqual([2, 3]);
  });

  it('can begin with several commands at once, all of which it contains', async () => {
    const two = sql.raw('insert into business values (1); insert into business values (2)');
    await driver.db.transaction((tx) => tx.execute(two));
    expect(await written()).toEqual([1, 2]);
    const failed = driver.db.transaction(async (tx) => {
      await tx.execute(two);
      tx.rollback();
    });
    await expect(failed).rejects.toThrow('Rollback');
    expect(await written()).toEqual([1, 2]);
  });

  it('refuses to copy from its client, at its beginning and later', async () => {
    const copying = driver.db.transaction((tx) => tx.execute(sql.raw('copy business from stdin')));
    await expect(copying).rejects.toMatchObject({ code: '57014' });
  });

  it('is cut off while its first statement runs', async () => {
    const limit = new AbortController();
    const reason = new Error('out of time');
    const cut = transact(
      driver.db,
      async (tx) => {
        await sleep(tx);
        await write(tx, 1);
      },
      limit.signal,
    ).catch((error: unknown) => error);
    await expect.poll(sleeping).toHaveLength(1);
    limit.abort(reason);
    expect(await cut).toBe(reason);
    await driver.db.transaction((tx) => write(tx, 2));
    expect(await written()).toEqual([2]);
  });

  it('does not begin when it is cut off while all connections are taken', async () => {
    const { opened, open } = gate();
    const limit = new AbortController();
    const reason = new Error('out of time');
    const others = numbers(1, 10).map(() => driver.db.transaction(() => opened));
    const body = vi.fn<() => Promise<void>>();
    const cut = transact(driver.db, body, limit.signal).catch((error: unknown) => error);
    limit.abort(reason);
    open();
    expect(await cut).toBe(reason);
    expect(body).not.toHaveBeenCalled();
    await Promise.all(others);
    await driver.db.transaction((tx) => write(tx, 1));
    expect(await written()).toEqual([1]);
  });
});
