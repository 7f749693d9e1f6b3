import { describe, expect } from 'vitest';

import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { dismissMatching } from '../../lib/console/dismissals/dismiss-matching.ts';
import { dismissRequest, previewDismissal } from '../../lib/console/dismissals/operations.ts';
import type { Database } from '../../lib/platform/db/database.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import { deliveryIdsOf, RECORDS, countDeliveries } from '../support/records.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';

const HOW = { action: 'dismiss', by: 'kari', reason: 'test data' } as const;

const dismissAll = (db: Database, request: object, until = Date.now() + MINUTE) =>
  dismissMatching(db, dismissRequest.parse(request), { ...HOW, until });

describe('a dismissal of all that match', () => {
  test('takes what its preview counted, leaves the rest, and is in the log once', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drainLive(bus.db, [ledger(refuse)]);
    const [, second] = await deliveryIdsOf(bus.db, 'ledger');
    const request = { topic: 'payment.captured', since: '3650d' };
    const preview = await previewDismissal(bus.db, dismissRequest.parse(request));
    expect(preview).toMatchObject({
      matched: 3,
      subscriptions: [{ subscriber: 'ledger', count: 3 }],
    });

    await expect(dismissAll(bus.db, { ...request, expectedCount: 2 })).rejects.toThrow(
      'Nothing was dismissed: 3 deliveries match, not 2. Preview it again.',
    );
    expect(await dismissAll(bus.db, { deliveryIds: [second] })).toMatchObject({ dismissed: 1, left: 0 });
    expect(await dismissAll(bus.db, { ...preview.request, expectedCount: 2 })).toMatchObject({
      matched: 2,
      dismissed: 2,
      left: 0,
    });
    expect(await dismissAll(bus.db, request)).toMatchObject({ matched: 0, dismissed: 0 });
    expect(
      await rows(bus.db, 'select operator, action, topic, subscriber, reason from operator_actions'),
    ).toEqual(
      Array.from({ length: 2 }, () => ({
        operator: 'kari',
        action: 'dismiss',
        topic: 'payment.captured',
        subscriber: 'ledger',
        reason: 'test data',
      })),
    );
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('tells the deliveries that an operator skipped from the others', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger(refuse)]);
    await emitPayments(bus.db, 3, 3);
    await drainLive(bus.db, [ledger(fail)]);
    const [, , failing] = await deliveryIdsOf(bus.db, 'ledger');
    await skip(bus.db, { deliveryId: failing!, by: 'kari', reason: 'hopeless' });
    for (const request of [{ topic: 'payment.captured', since: '1h' }, { deliveryIds: [failing] }]) {
      const { subscriptions } = await previewDismissal(bus.db, dismissRequest.parse(request));
      expect(subscriptions).toMatchObject([{ count: 'deliveryIds' in request ? 1 : 3, skipped: 1 }]);
    }
  });

  test('matches by the words of the error and by time, and by nothing that died later', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger(refuse)]);
    const others = [
      { q: 'no such words' },
      { until: '3000d' },
      { subscriber: 'audit' },
      { group: '0123456789abcdef' },
    ];
    const request = { topic: 'payment.captured', since: '3650d' };
    for (const other of others)
      expect(await dismissAll(bus.db, { ...request, ...other })).toMatchObject({ matched: 0, dismissed: 0 });
    const pinned = (await previewDismissal(bus.db, dismissRequest.parse(request))).request;
    await emitPayments(bus.db, 3, 3);
    await drainLive(bus.db, [ledger(refuse)]);
    expect(await dismissAll(bus.db, { ...pinned, q: 'REFUSED' })).toMatchObject({ dismissed: 2, left: 0 });
    expect(await countDeliveries(bus.db, 'dead_lettered_at is not null')).toBe(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('leaves a chosen one alone that was replayed after the preview and died again', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger(refuse)]);
    const deliveryIds = await deliveryIdsOf(bus.db, 'ledger');
    const { request } = await previewDismissal(bus.db, dismissRequest.parse({ deliveryIds }));
    const { until } = request;
    await replay(bus.db, { deliveryIds: [deliveryIds[1]!] }, 'kari');
    await drainLive(bus.db, [ledger(refuse)]);
    await expect(dismissAll(bus.db, request)).rejects.toThrow('1 delivery matches, not 2');
    expect(await dismissAll(bus.db, { deliveryIds, until })).toMatchObject({
      matched: 1,
      dismissed: 1,
      left: 0,
    });
    expect(await rows(bus.db, `select replays from ${RECORDS} where dead_lettered_at is not null`)).toEqual([
      { replays: 1 },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that ran out of time says how many are left, and goes on with that number', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger(refuse)]);
    const request = { subscriber: 'ledger', since: '3650d' };
    const { matched } = await previewDismissal(bus.db, dismissRequest.parse(request));
    expect(await dismissAll(bus.db, request, Date.now() - 1)).toMatchObject({ dismissed: 0, left: matched });
    expect(await dismissAll(bus.db, { ...request, expectedCount: matched })).toMatchObject({
      dismissed: matched,
      left: 0,
    });
  });

  test.for([
    [{ since: '24h' }, 'expected a topic, a subscriber, a group, q or deliveryIds'],
    [{ topic: 'payment.captured' }, 'expected a time span'],
    [{ q: 'closed', deliveryIds: ['1-1'] }, 'expected neither group nor q beside it'],
  ] as const)('%j is refused', ([request, message]) => {
    expect(() => dismissRequest.parse(request)).toThrow(message);
  });
});
