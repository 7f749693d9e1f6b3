import { describe, expect } from 'vitest';

import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drainLive, emitPayments, rows, eventStates } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, deliveryIdsOf } from '../support/records.ts';

const replayed = (bus: Bus, request: Partial<ReplayRequest> = {}, now?: Date) =>
  replay(bus.db, { topic: 'payment.captured', since: '1h', subscriber: 'ledger', ...request }, 'kari', now);

/** Refuses these payments permanently. */
const refuse =
  (...refused: readonly number[]) =>
  (payment: number) => {
    if (refused.includes(payment)) throw new PermanentError(`refused ${payment}`);
  };

describe('a replay (rule 6)', () => {
  test('has dead letters delivered before all that is newer, in creation order, under the same event ids', async ({
    bus,
    handed,
    ledger,
  }) => {
    const ids = await emitPayments(bus.db, 1, 5);
    expect(await drainLive(bus.db, [ledger(refuse(2, 4))])).toMatchObject({ delivered: 3, deadLettered: 2 });
    ids.push(...(await emitPayments(bus.db, 6, 6)));
    handed.length = 0;
    expect(await replayed(bus, { reason: 'fixed' })).toMatchObject({ matched: 2, replayed: 2, since: '1h' });
    const seen: string[] = [];
    await drainLive(bus.db, [ledger((_, __, { id }) => seen.push(id))]);
    expect(handed).toEqual([2, 4, 6]);
    expect(seen).toEqual([ids[1], ids[3], ids[5]]);
    expect(await rows(bus.db, 'select requested_by, reason, matched, replayed from replays')).toEqual([
      { requested_by: 'kari', reason: 'fixed', matched: 2, replayed: 2 },
    ]);
  });

  test('of everything delivers delivered events again, and keeps their first delivery in the history', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await drainLive(bus.db, [ledger()]);
    expect(await replayed(bus, { include: 'all' })).toMatchObject({ matched: 4, replayed: 4 });
    expect([...new Set(await eventStates(bus.db))]).toEqual(['pending']);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 3, 4, 1, 2, 3, 4]);
    const logs = await rows<{ log: { outcome: string }[] }>(
      bus.db,
      `select attempt_log as log from ${RECORDS} where attempt_log is not null`,
    );
    expect(logs.map(({ log }) => log.map(({ outcome }) => outcome))).toEqual(
      Array.from({ length: 4 }, () => ['delivered', 'replayed']),
    );
  });

  test('returns each dead letter once when two operators ask at the same moment', async ({
    bus,
    handed,
    ledger,
  }) => {
    const numbers = Array.from({ length: 20 }, (_, index) => index + 1);
    await emitPayments(bus.db, 1, 20);
    await drainLive(bus.db, [ledger(refuse(...numbers))]);
    handed.length = 0;
    const both = await Promise.all([replayed(bus), replayed(bus)]);
    expect(both[0].replayed + both[1].replayed).toBe(20);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers);
  });

  test('matches dead letters by when they died, within a window', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger(refuse(1, 2))]);
    const inTwoHours = new Date(Date.now() + 2 * HOUR);
    const within = (window: Partial<ReplayRequest>) => replayed(bus, window, inTwoHours);
    expect(await within({ since: '1h' })).toMatchObject({ matched: 0, replayed: 0 });
    expect(await within({ since: '3h', until: '150m' })).toMatchObject({ matched: 0, replayed: 0 });
    expect(await within({ since: '3h', until: '1h' })).toMatchObject({ matched: 2, replayed: 2 });
  });

  test('takes the oldest dead letters up to its limit, or exactly those that are named', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await drainLive(bus.db, [ledger(refuse(1, 2, 3, 4))]);
    const letters = await deliveryIdsOf(bus.db, 'ledger', 'dead_lettered');
    handed.length = 0;
    expect(await replayed(bus, { limit: 1 })).toMatchObject({ matched: 1, replayed: 1 });
    expect(await replayed(bus, { deliveryIds: [letters[3]!] })).toMatchObject({ matched: 1, replayed: 1 });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1, 4]);
  });
});
