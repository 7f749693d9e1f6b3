import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';

import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { drain, emitPayments, openBus, payment as paymentOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { deliveryIdsOf } from '../support/records.ts';

let bus: Bus;
beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
});
afterAll(() => bus.close());
beforeEach(async () => {
  await bus.reset();
  await rows(bus.db, 'truncate replays, operator_actions, pauses');
});

/** How often a commit was reported from now on. */
function reports(): () => number {
  const listener = vi.fn<() => void>();
  onTestFinished(onDue(bus.db, listener));
  return () => listener.mock.calls.length;
}

/** Delivers with a ledger that throws this. @returns the id of its first delivery. */
async function failWith(error: Error): Promise<string> {
  const failing = subscriber('ledger', {
    'payment.captured': () => {
      throw error;
    },
  });
  await drain(bus.db, [failing]);
  return (await deliveryIdsOf(bus.db))[0]!;
}

const payment = paymentOf(1);
const by = 'kari';

describe('a commit is reported to the kick', () => {
  it.each<[string, () => Promise<unknown>]>([
    [
      'of a transaction that emitted',
      () => bus.db.transaction((tx) => emit(tx, 'payment.captured', payment)),
    ],
    [
      'of a transaction that emitted in a nested one',
      () =>
        bus.db.transaction((tx) =>
          tx.transaction((inner) =>
            inner.transaction((innermost) => emit(innermost, 'payment.captured', payment)),
          ),
        ),
    ],
    ['of an emit outside of any transaction', () => emitAlone(bus.db, 'payment.captured', payment)],
  ])('%s', async (_, commit) => {
    const reported = reports();
    await commit();
    expect(reported()).toBe(1);
  });

  it('of an operator who retries, skips, replays or resumes', async () => {
    await emitPayments(bus.db, 1, 2);
    const deliveryId = await failWith(new Error('down'));
    const reported = reports();
    await retryNow(bus.db, { deliveryId, by });
    expect(reported()).toBe(1);
    await skip(bus.db, { deliveryId, by, reason: 'hopeless' });
    expect(reported()).toBe(2);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, by);
    expect(reported()).toBe(3);
    await pause(bus.db, { subscriber: 'ledger', topic: null }, by, 'a test');
    expect(reported()).toBe(3);
    await resume(bus.db, { subscriber: 'ledger', topic: null }, by, null);
    expect(reported()).toBe(4);
  });
});

describe('nothing is reported to the kick', () => {
  it('of a transaction that emitted and was rolled back, or that emitted nothing', async () => {
    const reported = reports();
    const rolledBack = bus.db.transaction(async (tx) => {
      await emit(tx, 'payment.captured', payment);
      throw new Error('no');
    });
    await expect(rolledBack).rejects.toThrow('no');
    await bus.db.transaction((tx) => tx.execute('select 1'));
    expect(reported()).toBe(0);
  });

  it('of an event that was emitted before under the same key', async () => {
    await emitAlone(bus.db, 'payment.captured', payment, { dedupeKey: 'once' });
    const reported = reports();
    await emitAlone(bus.db, 'payment.captured', payment, { dedupeKey: 'once' });
    expect(reported()).toBe(0);
  });

  it('of an emit on a connection of the caller’s own, who alone knows when it commits', async () => {
    const reported = reports();
    const client = new pg.Client({ connectionString: bus.url });
    await client.connect();
    await client.query('begin');
    await emit(client, 'payment.captured', payment);
    await client.query('commit');
    await client.end();
    expect(reported()).toBe(0);
  });

  it('of a replay that matches nothing, and of resuming a subscriber that is not paused', async () => {
    await emitPayments(bus.db, 1, 1);
    await failWith(new PermanentError('never'));
    const reported = reports();
    await replay(bus.db, { topic: 'payment.failed', since: '1h' }, by);
    await resume(bus.db, { subscriber: 'ledger', topic: null }, by, null);
    expect(reported()).toBe(0);
  });
});
