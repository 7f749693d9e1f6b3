import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  drainLive,
  emitPayments,
  idsInOrder,
  openTransaction,
  payloadOf,
  payment,
  rows,
  storeBacklog,
} from '../support/bus.ts';
import { RECORDS, awaitingPlace, countDeliveries } from '../support/records.ts';

describe('the relay, when transactions overlap and commit out of order (rule 3),', () => {
  test('delivers nothing of a topic before the earlier transaction ends, and goes on delivering another topic', async ({
    bus,
    handed,
    ledger,
  }) => {
    const failures: string[] = [];
    const audit = subscriber('audit', {
      'payment.failed': ({ payload }) => void failures.push(payload.reason),
    });
    const attached = [ledger(), audit];
    const first = await openTransaction(bus.url);
    await first.client.query('create temporary table business (done bool)');
    const second = await openTransaction(bus.url);
    await second.emit('payment.captured', payment(1));
    await first.emit('payment.captured', payment(2));
    await first.commit();
    await bus.db.transaction(async (tx) => {
      await emit(tx, 'payment.failed', payloadOf('payment.failed', { reason: 'a' }));
    });

    expect(await drain(bus.db, attached)).toMatchObject({ placed: 1, delivered: 1 });
    expect(handed).toEqual([]);
    expect(failures).toEqual(['a']);

    await second.commit();
    expect(await drain(bus.db, attached)).toMatchObject({ placed: 2, delivered: 2 });
    expect(handed).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('continues within the same call as soon as the earlier transaction ends', async ({
    bus,
    handed,
    ledger,
  }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1));
    await emitPayments(bus.db, 2, 2);
    // Its patience is not what is tried here: for the relay no time passes.
    const now = performance.now();
    vi.spyOn(performance, 'now').mockReturnValue(now);
    const taken = vi.spyOn(pg.Pool.prototype, 'connect');
    onTestFinished(() => taken.mockRestore());
    const relaying = drain(bus.db, [ledger()]);
    await expect.poll(() => taken.mock.calls.length).toBeGreaterThan(3);
    expect(handed).toEqual([]);
    await open.commit();
    await relaying;
    expect(handed).toEqual([1, 2]);
  });

  test('does not wait for a transaction that was rolled back, and loses no event behind it', async ({
    bus,
    handed,
    ledger,
  }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1));
    await emitPayments(bus.db, 2, 2);
    await open.rollback();
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([2]);
  });

  test('does not wait for a transaction that writes but emits nothing, nor for one that only reads', async ({
    bus,
    handed,
    ledger,
  }) => {
    const open = await openTransaction(bus.url);
    await open.client.query('create table elsewhere (id int)');
    await open.client.query('select count(*) from events');
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1]);
    await open.rollback();
  });

  test('does not wait for a transaction that began after an event was recorded', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1);
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(3));
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1]);
    await emitPayments(bus.db, 4, 4);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1]);
    await open.commit();
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1, 3, 4]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('delivers the earlier events of a topic that is never quiet', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 3);
    let isOver = false;
    let emitted = 0;
    // Each begins before the one before it ends.
    const producer = async () => {
      let open = await openTransaction(bus.url);
      await open.emit('payment.captured', payment(1000));
      while (!isOver) {
        const next = await openTransaction(bus.url);
        await next.emit('payment.captured', payment(1000 + (emitted += 1)));
        await sleep(60);
        await open.commit();
        open = next;
      }
      await open.commit();
    };
    const producing = producer();
    await sleep(100);
    const subscribers = [ledger((number) => void (isOver ||= number >= 1003))];
    const until = Date.now() + 45_000;
    // A call ends where it finds nothing that is committed and waits.
    while (!isOver && Date.now() < until) await relay({ db: bus.db, subscribers, until });
    isOver = true;
    await producing;
    expect(handed.slice(0, 5)).toEqual([1, 2, 3, 1000, 1001]);
  });

  test('delivers a topic that is never quiet even when each of its transactions outlasts the wait of one call', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1);
    let isOver = false;
    // At any moment four are open, and the newest has more than 1.5 seconds to go.
    const producer = async (turn: number) => {
      await sleep(turn * 550);
      while (!isOver) {
        const open = await openTransaction(bus.url);
        await open.emit('payment.captured', payment(1000));
        for (let nap = 0; nap < 22 && !isOver; nap += 1) await sleep(100);
        await open.commit();
      }
    };
    const producing = Promise.all([0, 1, 2, 3].map(producer));
    await sleep(50);
    // As the cron function does, which calls it again and again.
    const giveUpAt = Date.now() + 45_000;
    while (handed.length === 0 && Date.now() < giveUpAt) await drain(bus.db, [ledger()]);
    isOver = true;
    await producing;
    expect(handed[0]).toBe(1);
  });

  test('keeps creation order beyond the limit of one turn', async ({ bus, handed, ledger }) => {
    await storeBacklog(bus.db, 'payment.captured', 7000);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(Array.from({ length: 7000 }, (_, index) => index + 1));
  });

  test('fans each event out once, however many relays run', async ({ bus, handed, ledger }) => {
    await storeBacklog(bus.db, 'payment.captured', 2000);
    const others = await Promise.all([1, 2, 3].map(() => connect(bus.url)));
    const reports = await Promise.all([bus, ...others].map(({ db }) => drain(db, [ledger()])));
    await Promise.all(others.map(({ close }) => close()));
    expect(reports.reduce((sum, { placed }) => sum + placed, 0)).toBe(2000);
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(Array.from({ length: 2000 }, (_, index) => index + 1));
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a producer’s transaction that is prepared and left', () => {
  /** Ends a transaction of this name, whatever becomes of the test. */
  const end = (how: 'commit' | 'rollback', name: string) => `${how} prepared '${name}'`;

  test('holds its topic back and no other, also after a relay has seen it open; what follows it comes after it', async ({
    bus,
    handed,
    ledger,
  }) => {
    const name = `left_${Math.random().toString(36).slice(2)}`;
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1));
    await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger()]);
    await open.client.query(`prepare transaction '${name}'`);
    await open.client.end();
    await bus.db.transaction((tx) => emit(tx, 'payment.failed', payloadOf('payment.failed')));

    expect(await drain(bus.db, [ledger()])).toMatchObject({ placed: 1 });
    expect(handed).toEqual([]);
    await rows(bus.db, end('commit', name));
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('keeps its topic in order while others like it follow one another without a gap', async ({
    bus,
    handed,
    ledger,
  }) => {
    const prefix = `one_of_${Math.random().toString(36).slice(2)}`;
    const prepare = async (number: number) => {
      const open = await openTransaction(bus.url);
      await open.emit('payment.captured', payment(number));
      await open.client.query(`prepare transaction '${prefix}_${number}'`);
      await open.client.end();
    };
    await prepare(1);
    // At each look another one is prepared that was not there at the look before.
    for (let number = 2; number <= 4; number += 1) {
      await drain(bus.db, [ledger()]);
      await prepare(number);
      await rows(bus.db, end('commit', `${prefix}_${number - 1}`));
    }
    await rows(bus.db, end('rollback', `${prefix}_4`));
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 3]);
  });
});

describe('a turn and a settlement outside of READ COMMITTED', () => {
  test.for(['repeatable read', 'serializable'])(
    'raise in %s, and decide nothing',
    async (isolation, { bus }) => {
      await emitPayments(bus.db, 1, 1);
      const { client, rollback } = await openTransaction(bus.url);
      await client.query(`set transaction isolation level ${isolation}`);
      await client.query('savepoint before');
      const turn = `select postbud_turn_5(null, null, gen_random_uuid(), '{}', '{}', '', '{}', '{}', '{}',
        '{"lanes": 1, "deliveries": 1, "events": 1, "looks": true}', null, null)`;
      const settlement = `select postbud_settle_alone_4('[]', null, null)`;
      for (const statement of [turn, settlement]) {
        await expect(client.query(statement)).rejects.toMatchObject({
          code: 'PB003',
          message: `the event bus decides in READ COMMITTED only, and this transaction is in ${isolation.toUpperCase()}`,
        });
        await client.query('rollback to savepoint before');
      }
      await rollback();
      expect(await awaitingPlace(bus.db)).toHaveLength(1);
    },
  );
});

describe('the bus under twelve producers and two relays (rule 3)', () => {
  test('loses no event, delivers none out of order or twice, and never deadlocks', async ({ bus }) => {
    const seen: Record<string, string[]> = { bookings: [], ledger: [], notifications: [], audit: [] };
    const attached = [
      subscriber('bookings', { 'payment.captured': ({ id }) => void seen.bookings!.push(id) }),
      subscriber('ledger', {
        'payment.captured': async ({ id }) => {
          seen.ledger!.push(id);
          await Promise.resolve();
        },
      }),
      subscriber(
        'notifications',
        { 'payment.captured': ({ id }) => void seen.notifications!.push(id) },
        { transactional: true },
      ),
      subscriber('audit', { 'payment.failed': ({ id }) => void seen.audit!.push(id) }),
    ];
    const committed = new Set<string>();
    const produce = async (producer: number) => {
      for (let turn = 0; turn < 80; turn += 1) {
        const own = await openTransaction(bus.url);
        const ids: string[] = [];
        const nap = () => sleep(Math.random() * 15);
        if (turn % 3 === 0) await nap();
        // Two topics, in either order: shared locks, so there is no ring to be caught in.
        const topics = ['payment.captured', 'payment.failed'] as const;
        for (const topic of producer % 2 ? topics : topics.toReversed()) {
          ids.push(await own.emit(topic, payloadOf(topic)));
          if (turn % 2 === 0) await nap();
        }
        if (turn % 4 === 0) ids.push(await own.emit('payment.captured', payment(turn)));
        await nap();
        if (Math.random() < 0.1) await own.rollback();
        else {
          await own.commit();
          for (const id of ids) committed.add(id);
        }
      }
    };
    const other = await connect(bus.url);
    let isProducing = true;
    const relaying = [bus.db, other.db].map(async (db) => {
      while (isProducing) await drainLive(db, attached);
    });
    await Promise.all(Array.from({ length: 12 }, (_, producer) => produce(producer)));
    isProducing = false;
    await Promise.all(relaying);
    await drain(bus.db, attached);
    await other.close();

    const captured = await idsInOrder(bus.db, 'payment.captured');
    const failed = await idsInOrder(bus.db, 'payment.failed');
    expect(new Set([...captured, ...failed])).toEqual(committed);
    expect(captured.length).toBeGreaterThan(200);
    expect(seen.bookings).toEqual(captured);
    expect(seen.ledger).toEqual(captured);
    expect(seen.notifications).toEqual(captured);
    expect(seen.audit).toEqual(failed);
    const [deadlocks] = await rows<{ count: number }>(
      bus.db,
      'select deadlocks::int as count from pg_stat_database where datname = current_database()',
    );
    expect(deadlocks).toEqual({ count: 0 });
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a producer that emits with a dedupe key that was used before', () => {
  test('holds back no delivery of other topics while its transaction is open', async ({
    bus,
    handed,
    ledger,
  }) => {
    const failures: string[] = [];
    const audit = subscriber('audit', {
      'payment.failed': ({ payload }) => void failures.push(payload.reason),
    });
    await emitPayments(bus.db, 1, 1, { dedupeKey: 'once' });
    await drain(bus.db, []);
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1), { dedupeKey: 'once' });
    await bus.db.transaction(async (tx) => {
      await emit(tx, 'payment.failed', payloadOf('payment.failed', { reason: 'a' }));
    });
    const relaying = drain(bus.db, [ledger(), audit]);
    await expect.poll(() => countDeliveries(bus.db, `state = 'delivered'`)).toBe(2);
    await open.commit();
    await relaying;
    expect(handed).toEqual([1]);
    expect(failures).toEqual(['a']);
  });

  test('never deadlocks with the relay that settles those events', async ({ bus, handed, ledger }) => {
    const keys = ['a', 'b'];
    for (const dedupeKey of keys) await emitPayments(bus.db, 1, 1, { dedupeKey });
    await drain(bus.db, []);
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1), { dedupeKey: 'b' });
    const relaying = drain(bus.db, [ledger()]);
    // It has settled them, or waits for a lock that would close the ring.
    await expect
      .poll(() =>
        rows(
          bus.db,
          `select 1 from ${RECORDS} where state = 'delivered' union all
           select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        ),
      )
      .not.toEqual([]);
    await open.emit('payment.captured', payment(1), { dedupeKey: 'a' });
    await open.commit();
    await relaying;
    expect(handed).toEqual([1, 1]);
    const [deadlocks] = await rows<{ count: number }>(
      bus.db,
      'select deadlocks::int as count from pg_stat_database where datname = current_database()',
    );
    expect(deadlocks).toEqual({ count: 0 });
  });
});
