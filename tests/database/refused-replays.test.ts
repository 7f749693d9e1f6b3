import { describe, expect } from 'vitest';

import { replayRequest } from '../../lib/console/kit/replay-request.ts';
import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach, attachBatches, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';
import { previewReplay } from '../../lib/console/replays/preview.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import { RECORDS, deliveryIdsOf } from '../support/records.ts';
import { changeDeliveries } from '../support/scenes.ts';

type Refusing = SubscriberOptions & { readonly isTaking?: boolean };

/** Mails for captured payments, and refuses replays. Without `isTaking` every mail is given up. */
const mailer = (handed: number[], { isTaking = true, ...options }: Refusing = {}): AttachedSubscriber =>
  subscriber(
    'notifications',
    {
      'payment.captured': ({ payload }) => {
        if (!isTaking) throw new PermanentError('no such address');
        handed.push(payload.amountMinor);
      },
    },
    { onReplay: 'refuse', ...options },
  );

const refused = () => {
  throw new PermanentError('refused');
};

describe('a handler that refuses replays (rule 15)', () => {
  /** Every way to choose the deliveries of a topic; the error group is read first. */
  const WAYS: readonly [name: string, request: Partial<ReplayRequest>][] = [
    ['its dead letters', {}],
    ['everything', { include: 'all' }],
    ['one subscriber', { subscriber: 'notifications' }],
    ['one error group', { group: '' }],
    ['deliveries by their ids', { deliveryIds: [] }],
  ];

  test.for(WAYS)(
    'is left out of a replay of %s, alone or beside others',
    async ([, way], { bus, ledger }) => {
      await emitPayments(bus.db, 1, 3);
      const handed: number[] = [];
      const attached = [ledger(refused), mailer(handed, { isTaking: false })];
      await drainLive(bus.db, attached);
      const mails = await deliveryIdsOf(bus.db, 'notifications');
      const [group] = await rows<{ key: string }>(
        bus.db,
        `select key from error_groups where subscriber = 'notifications'`,
      );
      const request = {
        topic: 'payment.captured',
        since: '1h',
        ...way,
        ...(way.group !== undefined && { group: group!.key }),
        ...(way.deliveryIds && { deliveryIds: mails }),
      };
      const alone = way.subscriber || way.group !== undefined || way.deliveryIds;
      const preview = await previewReplay(bus.db, attached, replayRequest.parse(request));
      expect(preview.leftOut).toEqual([
        { topic: 'payment.captured', subscriber: 'notifications', count: 3, reason: 'refuses_replays' },
      ]);
      expect(preview.matched).toBe(alone ? 0 : 3);
      const done = replay(bus.db, request, 'kari', undefined, attached);
      if (alone) await expect(done).rejects.toMatchObject({ code: 'replay_refused' });
      else expect(await done).toMatchObject({ matched: 3, replayed: 3 });
      expect(await rows(bus.db, 'select from replays')).toHaveLength(alone ? 0 : 1);
      await drainLive(bus.db, [ledger(), mailer(handed)]);
      expect(handed).toEqual([]);
      const both = {
        deliveryIds: [...mails, ...(await deliveryIdsOf(bus.db, 'ledger'))],
        include: 'all' as const,
      };
      expect(await replay(bus.db, both, 'kari', undefined, attached)).toMatchObject({
        matched: 3,
        replayed: 3,
      });
      expect(
        await rows(bus.db, `select distinct replays from ${RECORDS} where error_group is not null`),
      ).toEqual([{ replays: 0 }]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('is left out of a replay of dismissed dead letters', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    const handed: number[] = [];
    const attached = [mailer(handed, { isTaking: false })];
    await drainLive(bus.db, attached);
    const dismissed = 'dismissed_at = now(), dead_lettered_at = null, error_group = null';
    await changeDeliveries(bus.db, dismissed, `state = 'dead_lettered'`);
    const request = { topic: 'payment.captured', since: '1h', include: 'dismissed' } as const;
    const preview = await previewReplay(bus.db, attached, replayRequest.parse(request));
    expect(preview).toMatchObject({ matched: 0, leftOut: [{ count: 2, reason: 'refuses_replays' }] });
    await expect(replay(bus.db, request, 'kari', undefined, attached)).rejects.toThrow(
      'Replays leave out notifications for payment.captured',
    );
  });

  test('refuses only the topics of the part that says so', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    const other = subscriber('notifications', { 'booking.created': () => undefined }, { onReplay: 'refuse' });
    const part = subscriber('notifications', { 'payment.captured': refused });
    await drainLive(bus.db, [ledger(), part]);
    const request = { topic: 'payment.captured', since: '1h', subscriber: 'notifications' };
    expect(await replay(bus.db, request, 'kari', undefined, [part, other])).toMatchObject({ replayed: 1 });
  });

  const BATCHES = ['one by one', 'transactional', 'batch'] as const;

  test.for(BATCHES)(
    'is not called with a delivery that another release replayed, which is dead-lettered at once: %s',
    async (how, { bus }) => {
      const handed: number[] = [];
      const take = (events: readonly { payload: { amountMinor: number } }[]) => {
        handed.push(...events.map(({ payload }) => payload.amountMinor));
      };
      const make = (onReplay: 'run' | 'refuse') =>
        how === 'batch'
          ? attachBatches(
              'notifications',
              { 'payment.captured': (events) => take(events as never) },
              { onReplay },
            )
          : attach(
              'notifications',
              { 'payment.captured': (event) => take([event as never]) },
              { transactional: how === 'transactional', onReplay },
            );
      await emitPayments(bus.db, 1, 3);
      await drainLive(bus.db, [make('run')]);
      const [, second] = await deliveryIdsOf(bus.db, 'notifications');
      // A release that does not know of the option.
      await replay(bus.db, { deliveryIds: [second!], include: 'all' }, 'kari');
      await emitPayments(bus.db, 4, 6);
      expect(await drainLive(bus.db, [make('refuse')])).toMatchObject({
        delivered: 3,
        deadLettered: 1,
        failed: 0,
      });
      expect(handed).toEqual([1, 2, 3, 4, 5, 6]);
      expect(await rows(bus.db, 'select kind from error_groups')).toEqual([{ kind: 'replay_refused' }]);
    },
  );
});
