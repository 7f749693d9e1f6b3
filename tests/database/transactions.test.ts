import { describe, expect } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { SubscriberOptions, TransactionalContext } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { MINUTE, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, gate, payloadOf, rows, START } from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';

test.beforeAll(async ({ database: bus }) => {
  await rows(bus.db, 'create table effects (number int not null)');
});

/** Writes the number of each payment in the transaction it is given, then does as told. */
const writing = (
  then: (payment: number, context: TransactionalContext) => unknown = () => undefined,
  options: SubscriberOptions = {},
) =>
  subscriber(
    'ledger',
    {
      'payment.captured': async ({ payload }, context) => {
        await write(context.tx, payload.amountMinor);
        await then(payload.amountMinor, context);
      },
    },
    { ...options, transactional: true },
  );

const write = (tx: Transaction, number: number) =>
  run(tx, { text: 'insert into effects values ($1::int)', values: [number] });

/** The numbers that were written and committed, in the order of the rows. */
const effects = async (bus: Bus) =>
  (await rows<{ number: number }>(bus.db, 'select number from effects')).map(({ number }) => number);

describe('a transactional delivery (rule 7)', () => {
  test("commits together with its handler's effects", async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    const report = await drain(bus.db, [
      writing(async (number, { tx }) => {
        // Not yet for others to see, neither the one nor the other.
        expect(await effects(bus)).not.toContain(number);
        expect((await statesOf(bus.db))[number - 1]).toBe('pending');
        expect(
          await run(tx, { text: 'select number from effects where number = $1::int', values: [number] }),
        ).toHaveLength(1);
      }),
    ]);
    expect(report).toMatchObject({ delivered: 3, failed: 0 });
    expect(await effects(bus)).toEqual([1, 2, 3]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered', 'delivered']);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      attempts: 1,
      deliveredAt: expect.any(Number),
    });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('rolls back what its handler wrote before it threw, and records the failure', async ({ bus }) => {
    const attached = [
      writing((number, { attempt }) => {
        if (number === 1 && attempt === 1) throw new Error('after writing');
      }),
    ];
    await emitPayments(bus.db, 1, 2);
    expect(await drain(bus.db, attached)).toMatchObject({ delivered: 0, failed: 1 });
    expect(await effects(bus)).toEqual([]);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      attempts: 1,
      nextAttemptAt: START + MINUTE,
      log: [{ message: 'after writing' }],
    });
    expect(await drain(bus.db, attached, { now: START + MINUTE })).toMatchObject({ delivered: 2 });
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  const broken = (tx: Transaction) => run(tx, { text: 'select 1 / 0', values: [] });
  test.for([
    ['throws', broken],
    ['swallows', (tx: Transaction) => broken(tx).catch(() => undefined)],
  ] as const)(
    'has failed when its handler %s the error of a statement: its transaction cannot commit',
    async ([, breakIt], { bus }) => {
      await emitPayments(bus.db, 1, 1);
      await drain(bus.db, [writing((_, { tx }) => breakIt(tx))]);
      const [delivery] = await deliveriesOf(bus.db, 'ledger');
      expect(delivery).toMatchObject({ state: 'failing', attempts: 1 });
      expect(delivery!.log).toHaveLength(1);
      expect(await effects(bus)).toEqual([]);
    },
  );

  test('is tried again when its connection is lost between two statements', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const attached = [
      writing(async (_, { tx, attempt }) => {
        if (attempt > 1) return;
        const backend = await run<{ pid: number }>(tx, {
          text: 'select pg_backend_pid() as pid',
          values: [],
        });
        await rows(bus.db, 'select pg_terminate_backend($1::int)', [backend[0]!.pid]);
        // Nothing of ours waits for an answer when the news comes.
        await sleep(50);
      }),
    ];
    await drain(bus.db, attached);
    expect(await statesOf(bus.db)).toEqual(['failing']);
    expect(await effects(bus)).toEqual([]);
    await drain(bus.db, attached, { now: START + MINUTE });
    expect(await statesOf(bus.db)).toEqual(['delivered']);
    expect(await effects(bus)).toEqual([1]);
  });

  test.for([
    ['a PermanentError', () => new PermanentError('never'), 'dead_lettered', [2]],
    ['a RetryAfter', () => new RetryAfter(1000), 'pending', []],
  ] as const)('rolls back what was written before %s', async ([, error, state, left], { bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [
      writing((number) => {
        if (number === 1) throw error();
      }),
    ]);
    expect(await effects(bus)).toEqual(left);
    expect((await statesOf(bus.db))[0]).toBe(state);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is rolled back at the time limit, and nothing that its handler still does reaches the database', async ({
    bus,
  }) => {
    const late = gate();
    const zombies: Promise<unknown>[] = [];
    await emitPayments(bus.db, 1, 1);
    const attached = [
      writing(
        (number, { tx }) => {
          const zombie = late.opened.then(() => write(tx, number + 100));
          zombies.push(zombie.catch((error: unknown) => error));
          return zombie;
        },
        { timeoutMs: 50 },
      ),
    ];
    expect(await drain(bus.db, attached)).toMatchObject({ delivered: 0, failed: 1 });
    late.open();
    expect(await zombies[0]).toBeInstanceOf(Error);
    expect(await effects(bus)).toEqual([]);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      log: [{ kind: 'timeout' }],
    });
    // The connection that was cut is replaced, and its transaction is not left open.
    expect(await drain(bus.db, [writing()], { now: START + MINUTE })).toMatchObject({ delivered: 1 });
    // The server hears of the cut when it comes to it.
    const open = () =>
      rows(
        bus.db,
        "select from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()",
      );
    await expect.poll(open).toEqual([]);
  });

  test.for([0, 10, 100])(
    'has failed where its handler returns because its time limit has passed, %i microtasks later',
    async (turns, { bus }) => {
      await emitPayments(bus.db, 1, 1);
      const stopping = writing(
        async (_, { signal }) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
        },
        { timeoutMs: 50 },
      );
      expect(await drain(bus.db, [stopping])).toMatchObject({ delivered: 0, failed: 1 });
      expect(await effects(bus)).toEqual([]);
      expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'failing', attempts: 1 }]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('waits for a connection when there are more lanes than connections', async ({ bus }) => {
    for (let number = 1; number <= 40; number += 1)
      await emitPayments(bus.db, number, number, { orderingKey: `${number}` });
    expect(await drain(bus.db, [writing()])).toMatchObject({ delivered: 40, failed: 0 });
    expect((await effects(bus)).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 40 }, (_, index) => index + 1),
    );
  });

  test('leaves other relays on the same pool a connection while slow handlers hold theirs', async ({
    bus,
  }) => {
    const held = gate();
    let begun = 0;
    const slow = (name: 'bookings' | 'ledger' | 'notifications') => {
      const handle = async () => {
        begun += 1;
        await held.opened;
      };
      return subscriber(name, { 'payment.captured': handle }, { transactional: true });
    };
    for (let number = 1; number <= 8; number += 1)
      await emitPayments(bus.db, number, number, { orderingKey: `${number}` });
    await drain(bus.db, []);
    const relays = (['bookings', 'ledger', 'notifications'] as const).map((name) =>
      drain(bus.db, [slow(name)]),
    );
    const ended = Promise.allSettled(relays);
    await expect.poll(() => begun).toBeGreaterThanOrEqual(6);
    // Longer than the 5 seconds that a statement waits for a connection.
    setTimeout(held.open, 5500);
    expect(
      (await ended).map((result) => (result.status === 'rejected' ? String(result.reason) : 'ended')),
    ).toEqual(Array(3).fill('ended'));
    expect((await deliveriesOf(bus.db)).filter(({ state }) => state === 'delivered')).toHaveLength(24);
  });

  test('does not count as tried when the relay is told to stop', async ({ bus }) => {
    const stop = new AbortController();
    await emitPayments(bus.db, 1, 2);
    const attached = [
      writing((number) => {
        if (number === 2) stop.abort();
        return number === 2 ? new Promise(() => undefined) : undefined;
      }),
    ];
    expect(await drain(bus.db, attached, { signal: stop.signal })).toMatchObject({ delivered: 0, failed: 0 });
    // They shared a commit.
    expect(await effects(bus)).toEqual([]);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([0, 0]);
    expect(await drain(bus.db, [writing()])).toMatchObject({ delivered: 2 });
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('does not deadlock when two relays settle side by side, in transactions and in batches', async ({
    bus,
  }) => {
    const quick = subscriber('bookings', { 'payment.captured': () => undefined });
    const other = await connect(bus.url);
    await bus.db.transaction(async (tx) => {
      for (let number = 1; number <= 400; number += 1) {
        await emit(tx, 'payment.captured', payloadOf('payment.captured', { amountMinor: number }), {
          orderingKey: `${number % 20}`,
        });
      }
    });
    const reports = await Promise.all([
      drain(bus.db, [writing(), quick]),
      drain(other.db, [quick, writing()]),
    ]);
    await other.close();
    expect(reports.map(({ delivered }) => delivered).reduce((sum, delivered) => sum + delivered)).toBe(800);
    expect(await effects(bus)).toHaveLength(400);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
