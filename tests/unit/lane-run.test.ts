import { expect, it } from 'vitest';

import type { Database } from '../../lib/db/connect.ts';
import type { ClaimedLane } from '../../lib/deliveries/claim.ts';
import { LaneRun } from '../../lib/relay/lane-run.ts';
import { Slots } from '../../lib/relay/slots.ts';
import { subscriptionsOf } from '../../lib/deliveries/subscription.ts';
import { attach } from '../../lib/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/subscribers/subscriber.ts';
import { SECOND, sleep } from '../../lib/time.ts';

it('a lane is gone on with only when its lease is long enough once it is known, not when it was asked for', async () => {
  let now = 0;
  const called: string[] = [];
  let finish = () => {};
  const ledger = attach(
    'ledger',
    {
      'payment.captured': async ({ id }: BusEvent) => {
        called.push(`${id} at ${now / SECOND} s`);
        await new Promise<void>((resolve) => (finish = resolve));
      },
    },
    { timeoutMs: 10 * SECOND },
  );
  const [subscription] = subscriptionsOf([ledger]);
  const { leaseMs } = subscription!;
  const run = new LaneRun(laneOf({ subscription: subscription!, positions: [1, 2] }), 0, {
    // Nothing here is settled in a transaction.
    db: undefined as unknown as Database,
    signal: undefined,
    transactions: new Slots(1),
    clock: () => now,
    leaseClock: () => now,
    isOver: () => false,
    fits: () => true,
  });
  run.start();
  await sleep(1);
  // The first handler takes so long that too little of the lease is left for another.
  now = leaseMs - 11 * SECOND;
  finish();
  await sleep(1);
  const asked = run.takeOutcome(false);
  expect(asked).toMatchObject({ to: 1, keepUntilMs: now + leaseMs });
  // Made in time, but known only when the new lease is over as well: another relay may have the lane.
  now += leaseMs + SECOND;
  run.keep(asked!.keepUntilMs);
  await sleep(1);
  expect(called).toEqual(['event 1 at 0 s']);
  // Asks again; and nobody has taken it.
  const again = run.takeOutcome(false);
  expect(again).toMatchObject({ keepUntilMs: now + leaseMs });
  run.keep(again!.keepUntilMs);
  await sleep(1);
  expect(called).toEqual(['event 1 at 0 s', `event 2 at ${now / SECOND} s`]);
});

function laneOf({
  subscription,
  positions,
}: Pick<ClaimedLane, 'subscription'> & { positions: readonly number[] }): ClaimedLane {
  return {
    id: '1',
    home: '1',
    isShared: false,
    token: '00000000-0000-4000-8000-000000000000',
    subscription,
    head: 0,
    newest: positions.at(-1)!,
    lapsedAtMs: null,
    lapsedVersion: null,
    isWhole: true,
    unreadable: [],
    deliveries: positions.map((position) => ({
      position,
      attempts: 0,
      replayed: false,
      nextAttemptAtMs: null,
      event: { id: `event ${position}` } as BusEvent,
    })),
  };
}
