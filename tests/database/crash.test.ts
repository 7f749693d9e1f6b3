import { describe, expect } from 'vitest';

import type { ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import type { LaneOutcome } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  emitPayments,
  eventStates,
  gate,
  numbers,
  rows,
  settle,
  START,
  statementsDuring,
} from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { freeLanes, stealLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { outcomeOf } from '../support/lane.ts';
import { relayInProcess } from '../support/relay-process.ts';

/** The handler's limit of 10 seconds, the margin of 20, and a little. */
const LAPSE = 31 * SECOND;

const ATTEMPT = { atMs: START, durationMs: 1, replays: 0 };

describe('a relay that is killed in the middle of a batch', () => {
  test('loses nothing and keeps the order: another relay takes its lane over when the lease runs out', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 20);
    const died = await relayInProcess({ url: bus.url, now: START, dieAt: 8 });
    expect(died).toEqual({ begun: numbers(1, 8), signal: 'SIGKILL', code: null });

    expect(await drain(bus.db, [ledger()], { now: START + 29 * SECOND })).toMatchObject({
      delivered: 0,
      failed: 0,
    });
    expect(await drain(bus.db, [ledger()], { now: START + LAPSE })).toMatchObject({
      delivered: 0,
      failed: 1,
    });
    expect(await contradictions(bus.db)).toEqual([]);
    const careful = await statementsDuring(async () => {
      expect(await drain(bus.db, [ledger()], { now: START + LAPSE + MINUTE })).toMatchObject({
        delivered: 20,
      });
    });
    expect(handed).toEqual(numbers(1, 20));
    // One by one: each has a turn of its own.
    expect(careful).toBeGreaterThanOrEqual(20);

    const [head, ...others] = await deliveriesOf(bus.db, 'ledger');
    expect(head).toMatchObject({
      attempts: 2,
      log: [
        {
          attempt: 1,
          outcome: 'failed',
          kind: 'lease_expired',
          at: new Date(START + 30 * SECOND).toISOString(),
        },
      ],
    });
    expect(others.map(({ attempts, log }) => `${attempts} ${log}`)).toEqual(Array(19).fill('1 null'));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('slows down only the deliveries that it may have begun: later ones are handed over in whole batches', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 5);
    await relayInProcess({ url: bus.url, now: START, dieAt: 2 });
    await drain(bus.db, [ledger()], { now: START + LAPSE });
    await emitPayments(bus.db, 6, 500);
    const statements = await statementsDuring(() =>
      drain(bus.db, [ledger()], { now: START + LAPSE + MINUTE }),
    );
    expect(handed).toEqual(numbers(1, 500));
    expect(statements).toBeLessThan(30);
  });

  test.for<[of: string, options: EmitOptions]>([
    ['a topic', {}],
    ['a key, which leaves its shared lane', { orderingKey: 'booking 1' }],
  ])(
    'makes an event of %s that kills every relay a dead letter after five attempts, and its neighbours are delivered',
    async ([, options], { bus, handed, ledger }) => {
      await emitPayments(bus.db, 1, 6, options);
      // The first crash is laid to the head, which alone is known to have begun. From then on it is one by one.
      const waits = [
        0,
        LAPSE + MINUTE,
        LAPSE + MINUTE,
        LAPSE + 5 * MINUTE,
        LAPSE + 30 * MINUTE,
        LAPSE + 360 * MINUTE,
      ];
      let now = START;
      const begun: number[][] = [];
      for (const wait of waits) {
        now += wait;
        begun.push((await relayInProcess({ url: bus.url, now, dieAt: 2 })).begun);
      }
      expect(begun).toEqual([[1, 2], [1, 2], [2], [2], [2], [2]]);
      expect(await drain(bus.db, [ledger()], { now: now + LAPSE })).toMatchObject({
        deadLettered: 1,
        delivered: 4,
      });
      expect(handed).toEqual([3, 4, 5, 6]);
      const stored = await deliveriesOf(bus.db, 'ledger');
      expect(stored.map(({ state }) => state)).toEqual([
        'delivered',
        'dead_lettered',
        ...Array(4).fill('delivered'),
      ]);
      expect(stored[1]).toMatchObject({ attempts: 5 });
      expect(stored[1]!.log!.map(({ kind }) => kind)).toEqual(Array(5).fill('lease_expired'));
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test.for<[of: string, options: EmitOptions]>([
    ['a topic', {}],
    ['a key', { orderingKey: 'booking 1' }],
  ])(
    'has its death laid to what it had begun in the lane of %s, not to what an operator put before it meanwhile',
    async ([, options], { bus, handed, ledger }) => {
      await emitPayments(bus.db, 1, 4, options);
      await relayInProcess({ url: bus.url, now: START, dieAt: 3 });
      const now = START + LAPSE + MINUTE;
      expect((await relayInProcess({ url: bus.url, now, dieAt: 3 })).begun).toEqual([1, 2, 3]);
      const replayed = { topic: 'payment.captured', since: '1d', include: 'all' } as const;
      expect(await replay(bus.db, replayed, 'kari', new Date(now + SECOND))).toMatchObject({ replayed: 2 });

      expect(await drain(bus.db, [ledger()], { now: now + LAPSE })).toMatchObject({
        delivered: 2,
        failed: 1,
      });
      expect(handed).toEqual([1, 2]);
      const lapses = (await deliveriesOf(bus.db, 'ledger')).map(
        ({ attempts, log }) => `${attempts} ${log?.filter(({ kind }) => kind === 'lease_expired').length}`,
      );
      // The first death was laid to the first delivery, before it was replayed.
      expect(lapses).toEqual(['1 1', '1 0', '1 1', '0 undefined']);
      expect(await drain(bus.db, [ledger()], { now: now + LAPSE + MINUTE })).toMatchObject({ delivered: 2 });
      expect(handed).toEqual([1, 2, 3, 4]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('leaves no transactional effects behind, and each effect is committed once later', async ({ bus }) => {
    await emitPayments(bus.db, 1, 5);
    await relayInProcess({ url: bus.url, now: START, dieAt: 3, transactional: true });
    // They shared a commit, and which of them it was is unknown: one by one, and no attempt is burnt.
    const ended = await relayInProcess({ url: bus.url, now: START + LAPSE, transactional: true });
    expect(ended).toEqual({ begun: [1, 2, 3, 4, 5], signal: null, code: 0 });
    const reasons = await rows<{ reason: string }>(
      bus.db,
      "select payload ->> 'reason' as reason from events where topic = 'payment.failed' order by created_at, seq",
    );
    expect(reasons.map(({ reason }) => reason)).toEqual(['1', '2', '3', '4', '5']);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1, 1]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('loses no dead letter that it had not recorded before a later transactional delivery committed', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await relayInProcess({ url: bus.url, now: START, refuse: 1, dieAt: 3, transactional: true });
    expect(await contradictions(bus.db)).toEqual([]);
    await drain(bus.db, [ledger()], { now: START + LAPSE });
    await drain(bus.db, [ledger()], { now: START + LAPSE + MINUTE });
    const states = (await deliveriesOf(bus.db, 'ledger')).map(({ state }) => state);
    expect(['dead_lettered', 'delivered']).toContain(states[0]);
    expect(states.slice(1)).toEqual(['delivered', 'delivered', 'delivered']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a relay that has lost its lease', () => {
  /** The whole of the tables, as text. */
  const dump = async (bus: Bus) =>
    await rows(
      bus.db,
      `select 'event' as kind, events::text as row from events union all select 'journal', journal::text from journal
       union all select 'exception', exceptions::text from exceptions order by kind, row`,
    );

  /** The lane of three payments, as a relay claims it that holds it for a minute. */
  const claimed = async (bus: Bus, attached: AttachedSubscriber): Promise<ClaimedLane> => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, []);
    const { lanes } = await takeTurn(bus.db, {
      outcomes: [],
      continued: [],
      behind: null,
      topics: [],
      subscriptions: subscriptionsOf([attached]),
      maxLanes: 1,
      share: null,
      maxDeliveries: 10,
      maxEvents: 10,
      isLooking: true,
      awaited: [],
      clockMs: START,
      now: new Date(START).toISOString(),
    });
    return lanes[0]!;
  };
  /** The first is delivered, and the second is a dead letter. */
  const outcomeFor = (lane: ClaimedLane): LaneOutcome => {
    const [first, second] = lane.deliveries.map(({ position }) => position) as [number, number];
    return outcomeOf(lane, {
      head: second,
      first,
      delivered: [{ position: first, ...ATTEMPT, recordedAtMs: START }],
      exceptional: [
        {
          position: second,
          kind: 'dead',
          replays: null,
          attempt: {
            position: second,
            ...ATTEMPT,
            isLapse: false,
            outcome: 'failed',
            nextAttemptAtMs: null,
            errorGroup: { key: '0123456789abcdef', kind: 'x', message: 'x' },
            kind: 'Error',
            message: 'late',
            answer: null,
            halts: false,
            isAbsent: null,
          },
        },
      ],
      carefulTo: second,
    });
  };

  test('changes no row when it settles', async ({ bus, ledger }) => {
    const lane = await claimed(bus, ledger());
    const outcome = outcomeFor(lane);
    // Another relay holds the lane; then nobody does.
    for (const lose of [() => stealLanes(bus.db, 'ledger'), () => freeLanes(bus.db)]) {
      await lose();
      const before = await dump(bus);
      const { held } = await settle(bus.db, [outcome]);
      expect(held.has(lane.lane)).toBe(false);
      expect(await dump(bus)).toEqual(before);
    }
  });

  test('changes nothing when it repeats a settlement whose answer was lost', async ({ bus, ledger }) => {
    const lane = await claimed(bus, ledger());
    for (const keepMs of [MINUTE, null]) {
      const number = keepMs === null ? lane.number + 1 : lane.number;
      const outcome = { ...outcomeFor(lane), number, keepMs };
      expect((await settle(bus.db, [outcome])).held.has(lane.lane)).toBe(true);
      const before = await dump(bus);
      const { held, repeated } = await settle(bus.db, [outcome]);
      expect([held.size, repeated.has(lane.lane)]).toEqual([0, true]);
      expect(await dump(bus)).toEqual(before);
    }
    expect(
      (await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => `${state} ${attempts}`),
    ).toEqual(['delivered 1', 'dead_lettered 1', 'pending 0']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('stops after its current delivery, and the relay that took over records the outcome', async ({
    bus,
    ledger,
  }) => {
    const held = gate();
    const begun = gate();
    await emitPayments(bus.db, 1, 3);
    const slow = drain(bus.db, [
      ledger(async () => {
        begun.open();
        await held.opened;
      }),
    ]);
    await begun.opened;
    expect(await drain(bus.db, [ledger()], { now: START + LAPSE })).toMatchObject({ failed: 1 });
    const before = await dump(bus);
    held.open();
    expect(await slow).toMatchObject({ delivered: 0, failed: 0, leasesLost: 1 });
    expect(await dump(bus)).toEqual(before);
    expect(await eventStates(bus.db)).toEqual(['failing', 'pending', 'pending']);
    expect(await drain(bus.db, [ledger()], { now: START + LAPSE + MINUTE })).toMatchObject({ delivered: 3 });
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
