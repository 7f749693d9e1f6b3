import type { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';

import { cancelTimer, emit } from '../../lib/bus/outbox/emit.ts';
import type { Transaction } from '../../lib/bus/outbox/emit.ts';
import { outboxEvent } from '../../lib/bus/outbox/record.ts';
import { InvalidPayload, UnknownTopic } from '../../lib/bus/outbox/errors.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { MINUTE } from '../../lib/platform/time.ts';
// The statement of the package, which calls the database's function.
import { store } from '../../lib/elsewhere/emit/call.ts';
import {
  contradictions,
  drain,
  emitPayments,
  gate,
  openTransaction,
  payloadOf,
  payment,
  rows,
  START,
} from '../support/bus.ts';
import { deliveriesOf, awaitingPlace } from '../support/records.ts';
import { forgetEvents } from '../support/scenes.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { createDatabase } from '../support/postgres.ts';

interface Driver extends Connection {
  /** Runs `body` in a transaction of the bare driver, without Drizzle. */
  readonly bare: (body: (tx: Transaction) => Promise<unknown>) => Promise<unknown>;
}

/** What the pools of `pg` and of Neon's driver share. */
interface Pool {
  connect(): Promise<{
    query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
    release(): void;
  }>;
}

async function onPool(pool: Pool, body: (tx: Transaction) => Promise<unknown>): Promise<unknown> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const result = await body(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}

const drivers: Record<string, () => Promise<Driver>> = {
  async pg() {
    const connection = await connect(await createDatabase(inject('postgresUrl')));
    return { ...connection, bare: (body) => onPool(connection.db.$client as Pool, body) };
  },
  async PGlite() {
    const connection = await connect('memory://');
    await migrate(connection.db);
    return { ...connection, bare: (body) => (connection.db.$client as PGlite).transaction(body) };
  },
  async Neon() {
    const connection = await connectWithNeon(await createDatabase(inject('postgresUrl')));
    return { ...connection, bare: (body) => onPool(connection.db.$client as Pool, body) };
  },
};

describe.each(Object.keys(drivers))("emit in the producer's transaction (rule 1), on %s", (name) => {
  let driver: Driver;
  let handed: number[];
  beforeAll(async () => {
    driver = await drivers[name]!();
    await rows(driver.db, 'create table business (number int not null)');
  });
  afterAll(() => driver.close());
  beforeEach(async () => {
    await forgetEvents(driver.db, 'business');
    handed = [];
  });

  const ledger = () =>
    subscriber('ledger', { 'payment.captured': ({ payload }) => void handed.push(payload.amountMinor) });
  const stored = () =>
    rows<{ id: string; payload: string }>(
      driver.db,
      'select id::text, payload::text from events order by created_at, seq',
    );

  const ways: [way: string, run: (body: (tx: Transaction) => Promise<unknown>) => Promise<unknown>][] = [
    ['the bare client', (body) => driver.bare(body)],
    ['a Drizzle transaction', (body) => driver.db.transaction((tx) => body(tx))],
    [
      'a nested Drizzle transaction',
      (body) => driver.db.transaction((tx) => tx.transaction((inner) => body(inner))),
    ],
  ];

  describe.each(ways)('through %s', (_, transact) => {
    it('leaves nothing behind when the transaction is rolled back', async () => {
      const body = async (tx: Transaction) => {
        await emit(tx, 'payment.captured', payment(1));
        throw new Error('no');
      };
      await expect(transact(body)).rejects.toThrow('no');
      expect(await stored()).toEqual([]);
      expect(await awaitingPlace(driver.db)).toEqual([]);
    });

    it('has a committed event delivered', async () => {
      await transact(async (tx) => {
        await emit(tx, 'payment.captured', payment(1));
        await emit(tx, 'payment.captured', payment(2));
      });
      expect(await stored()).toHaveLength(2);
      expect(await drain(driver.db, [ledger()])).toMatchObject({ placed: 2, delivered: 2 });
      expect(handed).toEqual([1, 2]);
      expect(await contradictions(driver.db)).toEqual([]);
    });

    it('refuses a payload that does not fit without a statement, so that the transaction can go on', async () => {
      await transact(async (tx) => {
        await expect(emit(tx, 'payment.captured', payment(-1))).rejects.toBeInstanceOf(InvalidPayload);
        await emit(tx, 'payment.captured', payment(1));
      });
      expect(await stored()).toHaveLength(1);
    });

    it('gives the id of the first event with a dedupe key, and writes no second', async () => {
      const ids: string[] = [];
      for (const number of [1, 2]) {
        await transact(async (tx) => {
          ids.push((await emit(tx, 'payment.captured', payment(number), { dedupeKey: 'evt_1' })).id);
          // Not even within one transaction.
          ids.push((await emit(tx, 'payment.captured', payment(number), { dedupeKey: 'evt_1' })).id);
        });
      }
      expect(new Set(ids).size).toBe(1);
      expect((await stored()).map(({ id }) => id)).toEqual([ids[0]]);
      await drain(driver.db, [ledger()]);
      expect(handed).toEqual([1]);
    });

    it('keeps every text and number of a payload unchanged', async () => {
      const payload = {
        ...payment(2 ** 53 - 1),
        bookingId: 'æøå 😀 \\u0000 \\ " \' $1 {}  \u2028',
        intentId: '\u0001',
      };
      let seen: unknown;
      await transact((tx) => emit(tx, 'payment.captured', payload));
      await drain(driver.db, [
        subscriber('ledger', { 'payment.captured': (event) => void (seen = event.payload) }),
      ]);
      expect(seen).toEqual(payload);
    });
  });

  it('is refused in no transaction before anything is stored, with the call that is right', async () => {
    const client = driver.db.$client as Pool & Awaited<ReturnType<Pool['connect']>>;
    const connection = name === 'PGlite' ? client : await (client as Pool).connect();
    // Hides what the client knows of itself, so that the database alone can tell.
    const bare = { query: (text: string, values: unknown[]) => connection.query(text, values) };
    const given: [tx: unknown, example: string][] = [
      [driver.db, 'db.transaction(async (tx) =>'],
      [client, name === 'PGlite' ? 'db.transaction(' : "client.query('begin')"],
      [connection, name === 'PGlite' ? 'db.transaction(' : "client.query('begin')"],
      [bare, "client.query('begin')"],
    ];
    await driver.db.transaction((tx) =>
      emit(tx, 'payment.captured', payment(1), { at: '1h', timerKey: 'a' }),
    );
    for (const [tx, example] of given) {
      const any = tx as Transaction;
      const refused = { code: 'not_in_transaction', message: expect.stringContaining(example) as string };
      await expect(emit(any, 'payment.captured', payment(1))).rejects.toMatchObject(refused);
      await expect(store(any, outboxEvent('payment.captured', payment(1)))).rejects.toThrow(
        /transaction|expected|query/,
      );
      const timed = emit(any, 'payment.captured', payment(1), { at: '1h', timerKey: 'a' });
      await expect(timed).rejects.toMatchObject(refused);
      await expect(cancelTimer(any, 'payment.captured', 'a')).rejects.toMatchObject(refused);
    }
    expect(await stored()).toEqual([]);
    expect(await rows(driver.db, 'select from timers')).toHaveLength(1);
    await driver.db.transaction((tx) => cancelTimer(tx, 'payment.captured', 'a'));
    if ('release' in connection) (connection as { release(): void }).release();
  });

  it.for([
    ['as the first of its statements', []],
    ['behind a savepoint', ['savepoint a']],
    ['behind a savepoint that was rolled back', ['savepoint a', 'create table t ()', 'rollback to a']],
    ['where all constraints are immediate', ['set constraints all immediate']],
    ['where it is serializable', ['set transaction isolation level serializable']],
  ] as const)('is taken in a transaction of the bare client %s', async ([, before]) => {
    await driver.bare(async (tx) => {
      for (const text of before) await run(tx, { text, values: [] });
      await emit(tx, 'payment.captured', payment(1));
      await emit(tx, 'payment.captured', payment(2), { at: '1h', timerKey: 'b' });
      await run(tx, { text: 'set constraints all immediate', values: [] });
    });
    expect(await stored()).toHaveLength(1);
    await driver.bare((tx) => cancelTimer(tx, 'payment.captured', 'b'));
    await driver.bare((tx) => store(tx, outboxEvent('payment.captured', payment(3))));
    expect(await stored()).toHaveLength(2);
  });

  it('commits with the delivery in a transactional handler, and is rolled back with a failed one', async () => {
    const writing = (fails: boolean) =>
      subscriber(
        'ledger',
        {
          'payment.captured': async ({ payload }, { tx }) => {
            await emit(
              tx,
              'payment.failed',
              payloadOf('payment.failed', { reason: `${payload.amountMinor}` }),
            );
            if (fails) throw new Error('after writing');
          },
        },
        { transactional: true },
      );
    await emitPayments(driver.db, 1, 2);
    expect(await drain(driver.db, [writing(true)])).toMatchObject({ delivered: 0, failed: 1 });
    expect(await stored()).toHaveLength(2);
    expect(await drain(driver.db, [writing(false)], { now: START + MINUTE })).toMatchObject({ delivered: 2 });
    expect(await stored()).toHaveLength(4);
    expect(await contradictions(driver.db)).toEqual([]);
  });

  it('is refused in a transactional handler after its time limit', async () => {
    const late = gate();
    let zombie: Promise<unknown> | undefined;
    const hanging = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) => {
          zombie = late.opened
            .then(() => emit(tx, 'payment.failed', payloadOf('payment.failed')))
            .catch((error) => error);
          await zombie;
        },
      },
      { transactional: true, timeoutMs: 50 },
    );
    await emitPayments(driver.db, 1, 1);
    expect(await drain(driver.db, [hanging])).toMatchObject({ delivered: 0, failed: 1 });
    late.open();
    expect(await zombie).toBeInstanceOf(Error);
    expect(await stored()).toHaveLength(1);
    expect((await deliveriesOf(driver.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      log: [{ kind: 'timeout' }],
    });
    expect(await drain(driver.db, [ledger()], { now: START + MINUTE })).toMatchObject({ delivered: 1 });
  });
});

describe('emit', () => {
  let connection: Connection;
  let url: string;
  beforeAll(async () => {
    url = await createDatabase(inject('postgresUrl'));
    connection = await connect(url);
  });
  afterAll(() => connection.close());
  afterEach(() => forgetEvents(connection.db));

  const emitted = (
    ...[topic, payload, options]: Parameters<typeof emit> extends [unknown, ...infer Rest] ? Rest : never
  ) => connection.db.transaction((tx) => emit(tx, topic, payload, options));
  const columns = (list: string) =>
    rows<Record<string, unknown>>(connection.db, `select ${list} from events order by created_at, seq`);

  it('gives UUIDs of version 7', async () => {
    const { id } = await emitted('payment.captured', payment(1));
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it('stamps an event with the time of its insert, not of the beginning of its transaction', async () => {
    const open = await openTransaction(url);
    const before = await open.client.query<{ at: Date }>('select clock_timestamp() as at');
    await open.emit('payment.captured', payment(1));
    await open.commit();
    const [event] = await columns('created_at as at');
    expect((event!.at as Date).getTime()).toBeGreaterThanOrEqual(before.rows[0]!.at.getTime());
  });

  it.each([
    ['payment.captured', { amountMinor: 'much' }, ['amountMinor']],
    ['payment.captured', { amountMinor: 1.5, currency: 'kr' }, ['amountMinor', 'currency']],
    [
      'booking.rescheduled',
      { previous: { startsAt: 'yesterday', endsAt: '2026-03-14T19:00:00Z' } },
      ['previous.startsAt'],
    ],
    ['payment.captured', { bookingId: 'a\0b' }, ['bookingId']],
    ['payment.captured', { bookingId: 'a\ud800b' }, ['bookingId']],
    ['payment.captured', { bookingId: '\udc00' }, ['bookingId']],
    ['webhook.cardpayments.received', { body: { deep: [{ text: 'a\0' }] } }, ['body.deep.0.text']],
    ['webhook.cardpayments.received', { body: { 'a\ud800': 1 } }, ['body.a\ud800']],
  ] as const)('refuses %s with %j and names the field', async (topic, fields, paths) => {
    const error: unknown = await emitted(topic, payloadOf(topic, fields)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidPayload);
    expect((error as InvalidPayload).topic).toBe(topic);
    expect((error as InvalidPayload).issues.map(({ path }) => path)).toEqual(paths);
    expect(await columns('id')).toEqual([]);
  });

  it.each(['orderingKey', 'dedupeKey', 'correlationId', 'causationId', 'traceparent'])(
    'refuses an option %s that the database could not store',
    async (option) => {
      for (const text of ['a\0b', '\ud800', 'x'.repeat(256)]) {
        const error: unknown = await emitted('payment.captured', payment(1), { [option]: text }).catch(
          (thrown) => thrown,
        );
        expect(error).toMatchObject({ code: 'invalid_payload', issues: [{ path: option }] });
      }
    },
  );

  it.each([5_000, 50_000])(
    'refuses a body nested %d levels deep, before the transaction is lost',
    async (levels) => {
      let body: object = {};
      for (let level = 0; level < levels; level += 1) body = { body };
      const payload = payloadOf('webhook.cardpayments.received', { body });
      const open = await openTransaction(url);
      const error = await open
        .emit('webhook.cardpayments.received', payload)
        .catch((thrown: unknown) => thrown);
      expect((error as Error).name).toBe('InvalidPayload');
      await open.emit('payment.captured', payment(1));
      await open.commit();
      expect(await columns('topic')).toEqual([{ topic: 'payment.captured' }]);
    },
  );

  it('refuses a topic that the catalog does not have', async () => {
    // @ts-expect-error: the compiler refuses it too
    await expect(emitted('payment.imagined', {})).rejects.toBeInstanceOf(UnknownTopic);
    // @ts-expect-error: a name that every object has
    await expect(emitted('constructor', {})).rejects.toBeInstanceOf(UnknownTopic);
  });

  it('says what would be right when it is given no transaction', async () => {
    // @ts-expect-error: the compiler refuses it too
    await expect(emit({}, 'payment.captured', payment(1))).rejects.toThrow(
      'expected a database, client or transaction',
    );
    // @ts-expect-error: as a program without types may
    await expect(emit(undefined, 'payment.captured', payment(1))).rejects.toThrow(
      'expected a database, client or transaction',
    );
  });

  it('gives one event to twenty producers with the same dedupe key at the same moment', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, (_, number) =>
        emitted('payment.captured', payment(number), { dedupeKey: 'same' }),
      ),
    );
    expect(new Set(ids.map(({ id }) => id)).size).toBe(1);
    expect(await columns('id')).toHaveLength(1);
    expect(await awaitingPlace(connection.db)).toHaveLength(1);
  });

  it('waits for another producer of the same dedupe key, and is the first when that one is rolled back', async () => {
    const open = await openTransaction(url);
    const lost = await open.emit('payment.captured', payment(1), { dedupeKey: 'same' });
    const second = emitted('payment.captured', payment(2), { dedupeKey: 'same' });
    await open.rollback();
    expect((await second).id).not.toBe(lost);
    expect(await awaitingPlace(connection.db)).toHaveLength(1);
  });

  it('keeps a dedupe key apart for each topic', async () => {
    await emitted('payment.captured', payment(1), { dedupeKey: 'same' });
    await emitted('payment.failed', payloadOf('payment.failed'), { dedupeKey: 'same' });
    expect(await columns('id')).toHaveLength(2);
  });

  it('takes the ordering key of its option, else that of the catalog, else none', async () => {
    await emitted('booking.rescheduled', payloadOf('booking.rescheduled', { bookingId: 'bkg_1' }), {
      orderingKey: 'own',
    });
    await emitted('booking.rescheduled', payloadOf('booking.rescheduled', { bookingId: 'bkg_1' }));
    await emitted('payment.captured', payment(1));
    expect((await columns('ordering_key as key')).map(({ key }) => key)).toEqual(['own', 'bkg_1', '']);
  });

  it('begins a correlation with the event itself, or continues that of its cause', async () => {
    const { id } = await emitted('payment.captured', payment(1));
    await emitted('payment.captured', payment(2), { causationId: id });
    await emitted('payment.captured', payment(3), {
      causationId: id,
      correlationId: 'request',
      traceparent: '00-a-b-01',
    });
    expect(await columns('correlation_id as correlation, causation_id as causation, traceparent')).toEqual([
      { correlation: id, causation: null, traceparent: null },
      { correlation: id, causation: id, traceparent: null },
      { correlation: 'request', causation: id, traceparent: '00-a-b-01' },
    ]);
  });

  it('stores the payload as its schema parses it, without unknown fields', async () => {
    await emitted('payment.captured', { ...payment(1), stranger: true } as never);
    expect(await columns('payload')).toEqual([{ payload: payment(1) }]);
  });

  it('is undone by rolling back to a savepoint', async () => {
    await connection.db.transaction(async (tx) => {
      await emit(tx, 'payment.captured', payment(1));
      await tx
        .transaction(async (inner) => {
          await emit(inner, 'payment.captured', payment(2));
          throw new Error('only this');
        })
        .catch(() => undefined);
      await emit(tx, 'payment.captured', payment(3));
    });
    expect((await columns("payload -> 'amountMinor' as number")).map(({ number }) => number)).toEqual([1, 3]);
  });

  it('is taken as the only write of a transaction, also where the commit comes in the same millisecond', async () => {
    const set = async (number: number) =>
      await connection.db.transaction((tx) => emit(tx, 'payment.captured', payment(number), { at: '1h' }));
    for (let number = 1; number <= 40; number += 1) await set(number);
    const [timers] = await rows<{ count: number }>(connection.db, 'select count(*)::int from timers');
    expect(timers).toEqual({ count: 40 });
  });
});
