import { describe, expect } from 'vitest';

import { tailQuery, readTail } from '../../lib/console/tail/read.ts';
import { drainLive, emitPayments } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { test } from '../support/operator-test.ts';

const tailOf = async (bus: Bus, query: object = {}) => await readTail(bus.db, tailQuery.parse(query));

describe('the newest outcomes', () => {
  test('are what was delivered, what was given up and what waits for a retry, newest first', async ({
    bus,
    operators,
  }) => {
    const [dead] = await operators.died(1, 'refused');
    await emitPayments(bus.db, 2, 3);
    await drainLive(bus.db, [ledger()]);
    const [failing] = await operators.held(1);
    const { items } = await tailOf(bus, { subscriber: 'ledger' });
    expect(items.map(({ outcome, attempts }) => [outcome, attempts])).toEqual([
      ['failing', 1],
      ['delivered', 1],
      ['delivered', 1],
      ['dead_lettered', 1],
    ]);
    expect(items.map(({ at }) => at)).toEqual(
      items
        .map(({ at }) => at)
        .toSorted()
        .toReversed(),
    );
    expect(items[0]).toMatchObject({
      deliveryId: failing,
      topic: 'payment.captured',
      lastError: { kind: 'TypeError', message: 'the ledger is down' },
    });
    expect(items.at(-1)).toMatchObject({ deliveryId: dead, lastError: { message: 'refused' } });
  });

  test('can be only those of a topic, of a subscriber or of one outcome, and no more than asked for', async ({
    bus,
    operators,
  }) => {
    await operators.died(3);
    await emitPayments(bus.db, 4, 9);
    await drainLive(bus.db, [ledger()]);
    const outcomes = async (query: object) => (await tailOf(bus, query)).items.map(({ outcome }) => outcome);
    expect(await outcomes({ outcome: 'dead_lettered' })).toEqual(Array(3).fill('dead_lettered'));
    expect(await outcomes({ outcome: 'delivered', limit: 4 })).toEqual(Array(4).fill('delivered'));
    expect(await outcomes({ outcome: 'failing' })).toEqual([]);
    expect(await outcomes({ subscriber: 'audit' })).toEqual([]);
    expect(await outcomes({ topic: 'payment.failed' })).toEqual([]);
    expect(await outcomes({ topic: 'payment.captured', subscriber: 'ledger', limit: 100 })).toHaveLength(9);
  });

  test('have the deliveries of ordering keys, also of one that waits while the others go on', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'booking 1' });
    await emitPayments(bus.db, 2, 2, { orderingKey: 'booking 2' });
    const handle = (payment: number) => {
      if (payment === 1) throw new Error('not now');
    };
    await drainLive(bus.db, [ledger(handle)]);
    const { items } = await tailOf(bus, { subscriber: 'ledger' });
    expect(items.map(({ outcome }) => outcome).toSorted()).toEqual(['delivered', 'failing']);
  });
});
