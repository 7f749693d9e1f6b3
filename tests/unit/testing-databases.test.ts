import { sql } from 'drizzle-orm';
import type { TestBus } from 'postbud/testing';
import { describe, expect } from 'vitest';

import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { rows } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { busTest as test } from '../support/test-bus.ts';

// Each of these opens a database, which takes seconds; the others share one: testing.test.ts.

describe('a test bus', () => {
  test('does not hand on a database whose functions or columns the test changed', async ({ open }) => {
    const bus = await open([]);
    const { db } = bus;
    await db.execute(sql`alter table journal add column more text`);
    await bus.close();
    const next = await open([]);
    expect(next.db).not.toBe(db);
    await expect(rows(next.db, 'select more from journal')).rejects.toThrow('does not exist');
  });

  test('is one of several that are open at the same time, each with a database of its own', async ({
    open,
  }) => {
    const [one, other] = [await open([]), await open([])];
    await one.emit('payment.captured');
    expect([(await one.events()).length, (await other.events()).length]).toEqual([1, 0]);
  });
});

describe('wrong use of a test bus is refused with what would be right:', () => {
  test('a handler that never ends', async ({ open }) => {
    const bus = await open([ledger(() => new Promise(() => undefined))], { stuckAfterMs: 100 });
    const { id } = await bus.emit('payment.captured');
    await expect(bus.drain()).rejects.toThrow(
      `The handler of ledger for payment.captured (event ${id}, attempt 1) has not ended after 100 ms. If it has to take that long, give testBus a larger stuckAfterMs.`,
    );
    await expect(bus.drain()).rejects.toThrow('The bus is stuck, see the error of its drain: close it.');
  });

  test('a transactional handler that waits for the only connection', async ({ open }) => {
    const bus: TestBus = await open(
      [
        subscriber(
          'ledger',
          { 'payment.captured': async () => void (await bus.db.execute(sql`select 1`)) },
          { transactional: true },
        ),
      ],
      { stuckAfterMs: 100 },
    );
    await bus.emit('payment.captured');
    await expect(bus.drain()).rejects.toThrow('A transactional handler may use only its tx');
  });

  test('a drain while a transaction is open', async ({ open }) => {
    const bus = await open([], { stuckAfterMs: 100 });
    await expect(bus.db.transaction(async () => await bus.drain())).rejects.toThrow(
      'end the transaction that is open, then drain',
    );
  });

  test('a handler that waits for 0 ms again and again', async ({ open }) => {
    const bus = await open([
      ledger(async () => {
        await Promise.resolve();
        throw new RetryAfter(0);
      }),
    ]);
    await bus.emit('payment.captured');
    await expect(bus.drain()).rejects.toThrow('a handler that throws RetryAfter must wait at least 1 ms');
  });
});
