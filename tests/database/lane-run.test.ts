import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, vi } from 'vitest';

import type { ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import type { LaneOutcome } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, attachBatches } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, drain, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { positionsOf, runLane } from '../support/lane.ts';
test.beforeAll(async ({ database: bus }) => {
  await rows(bus.db, 'create table effects (number int not null)');
});

const FATES = ['ok', 'fails', 'throws a string', 'asks to wait', 'is given up', 'overruns'] as const;
type Fate = (typeof FATES)[number];

/** How a handler takes what it is handed. */
interface Way {
  readonly transactional: boolean;
  readonly batch: boolean;
  readonly isShared: boolean;
}

const scenario = fc.record({
  way: fc.record({ transactional: fc.boolean(), batch: fc.boolean(), isShared: fc.boolean() }),
  laid: fc.array(
    fc.record({
      key: fc.constantFrom('a', 'b', 'c'),
      fate: fc.oneof({ weight: 5, arbitrary: fc.constant<Fate>('ok') }, fc.constantFrom(...FATES)),
    }),
    { minLength: 1, maxLength: 12, size: 'max' },
  ),
});
type Laid = readonly { readonly key: string; readonly fate: Fate }[];

function act(fate: Fate): Promise<void> | undefined {
  switch (fate) {
    case 'ok':
      return undefined;
    case 'fails':
      throw new Error('as planned');
    case 'throws a string':
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      throw 'as planned';
    case 'asks to wait':
      throw new RetryAfter(HOUR);
    case 'is given up':
      throw new PermanentError('as planned');
    case 'overruns':
      return new Promise(() => undefined);
  }
}

const KINDS = {
  fails: 'Error',
  'throws a string': 'thrown',
  'asks to wait': 'retry_after',
  'is given up': 'permanent',
  overruns: 'timeout',
} as const;

/** What should become of the deliveries: which are delivered, which failed of what, and where the head stands. */
function model({ transactional, batch, isShared }: Way, laid: Laid) {
  const delivered: number[] = [];
  const failed: { number: number; kind: string }[] = [];
  const stopped = new Set<string>();
  const held = new Set<string>();
  const keyOf = (number: number) => (isShared ? laid[number - 1]!.key : '');
  const isOpen = (number: number) => !stopped.has(keyOf(number)) && !held.has(keyOf(number));
  const fail = (number: number, kind: string) => {
    failed.push({ number, kind });
    if (kind !== 'permanent') (isShared ? stopped : held).add(keyOf(number));
    else if (transactional) held.add(keyOf(number));
  };
  let next = 1;
  while (next <= laid.length) {
    if (!isOpen(next)) {
      next += 1;
      continue;
    }
    const handed = laid.flatMap((_, index) => (index + 1 >= next && isOpen(index + 1) ? [index + 1] : []));
    const taking = batch ? handed : handed.slice(0, 1);
    const bad = taking.findIndex((number) => laid[number - 1]!.fate !== 'ok');
    const fate = bad === -1 ? 'ok' : laid[taking[bad]! - 1]!.fate;
    if (fate === 'ok') {
      delivered.push(...taking);
      next = taking.at(-1)! + 1;
    } else if (bad === 0 || fate === 'overruns') {
      // A throw means that none was taken.
      fail(taking[0]!, KINDS[fate]);
      next = taking[0]! + 1;
    } else {
      delivered.push(...taking.slice(0, bad));
      fail(taking[bad]!, 'not_taken');
      next = taking[bad]! + 1;
    }
  }
  const isPassed = (number: number) =>
    delivered.includes(number) ||
    stopped.has(keyOf(number)) ||
    failed.some((one) => one.number === number && one.kind === 'permanent');
  const stays = laid.findIndex((_, index) => !isPassed(index + 1));
  return { delivered, failed, head: stays === -1 ? laid.length : stays };
}

/** A ledger that writes what it is handed in its transaction, if it has one, and then does as is laid down. */
function ledgerOf({ transactional, batch }: Way, laid: Laid, log: string[]) {
  const handle = async ({ payload }: BusEvent, tx: Transaction | undefined) => {
    const { amountMinor: number } = payload as { amountMinor: number };
    const { fate } = laid[number - 1]!;
    log.push(`${number} ${fate}`);
    // What a batch leaves behind it has no effect.
    if (tx && (!batch || fate === 'ok'))
      await run(tx, { text: 'insert into effects values ($1::int)', values: [number] });
    await act(fate);
  };
  const options = { transactional, timeoutMs: 600 };
  if (!batch) {
    return attach('ledger', { 'payment.captured': (event, { tx }) => handle(event, tx) }, options);
  }
  const inOrder = async (events: readonly BusEvent[], { tx }: { tx?: Transaction }) => {
    for (const [taken, event] of events.entries()) {
      try {
        await handle(event, tx);
      } catch (error) {
        if (taken === 0) throw error;
        return taken;
      }
    }
    return undefined;
  };
  return attachBatches('ledger', { 'payment.captured': inOrder }, options);
}

/** The lane of these deliveries, as it is claimed when it carries their keys. */
async function claimed(bus: Bus, { isShared }: Way, laid: Laid, subscriber: ReturnType<typeof ledgerOf>) {
  await emitPayments(bus.db, 1, laid.length);
  await drain(bus.db, []);
  const { lanes, nowMs } = await takeTurn(bus.db, {
    outcomes: [],
    maxFannedOut: 1000,
    isLooking: true,
    awaited: [],
    subscriptions: subscriptionsOf([subscriber]),
    maxLanes: 1,
    maxDeliveries: 100,
    now: new Date(START).toISOString(),
  });
  const [lane] = lanes as [ClaimedLane];
  const deliveries = lane.deliveries.map((delivery, index) => ({
    ...delivery,
    event: { ...delivery.event, orderingKey: laid[index]!.key },
  }));
  return { lane: { ...lane, isShared, deliveries: isShared ? deliveries : lane.deliveries }, nowMs };
}

// For a lane no time passes: how many handlers share a commit depends on how long they take.
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

describe('generated outcomes of any keys, in strict and shared lanes, one by one, in shared commits and in batches', () => {
  test('keep each key in order, fail no delivery for a neighbour, and keep the head before everything unsettled', async ({
    bus,
  }) => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ way, laid }) => {
        await bus.reset();
        await rows(bus.db, 'truncate effects');
        const log: string[] = [];
        const { lane, nowMs } = await claimed(bus, way, laid, ledgerOf(way, laid, log));
        const clock = () => nowMs;
        const outcome = (await runLane(lane, {
          db: bus.db,
          clock,
          leaseClock: clock,
        })) as LaneOutcome;

        const first = lane.deliveries[0]!.position;
        const numbers = (attempts: Parameters<typeof positionsOf>[0]) =>
          positionsOf(attempts).map((position) => position - first + 1);
        const stored = await rows<{ position: number; state: string; attempts: number }>(
          bus.db,
          `select position::int, state::text, attempts from deliveries join lanes on lanes.id = lane_id
           where subscriber = 'ledger' order by position`,
        );
        const committed = stored.filter(({ state }) => state === 'delivered');
        const expected = model(way, laid);

        expect(numbers([...outcome.delivered, ...committed])).toEqual(expected.delivered.toSorted(ascending));
        expect(
          outcome.unfinished.map(({ position, kind }) => ({ number: position - first + 1, kind })),
        ).toEqual(way.isShared ? expect.arrayContaining(expected.failed) : expected.failed);
        expect(outcome.unfinished).toHaveLength(expected.failed.length);
        expect(Math.max(0, outcome.to - first + 1)).toBe(expected.head);
        // A failure is told to the database when the relay settles, and to nobody before.
        for (const { state, attempts } of stored) expect(attempts).toBe(state === 'delivered' ? 1 : 0);
        if (way.transactional) {
          expect(outcome.delivered).toEqual([]);
          const effects = await rows<{ number: number }>(bus.db, 'select number from effects order by 1');
          expect(effects.map(({ number }) => number)).toEqual(expected.delivered.toSorted(ascending));
          const head = await rows<{ head: number }>(
            bus.db,
            `select head::int from lanes where subscriber = 'ledger'`,
          );
          const open = stored.find(({ state }) => state !== 'delivered')?.position ?? Infinity;
          expect(head[0]!.head).toBeLessThan(open);
        }
        // Each key in order: what was handed over before came before, but for what was rolled back and came again.
        for (const key of way.isShared ? ['a', 'b', 'c'] : ['']) {
          const ofKey = log
            .map((line) => Number(line.split(' ')[0]))
            .filter((number) => !way.isShared || laid[number - 1]!.key === key);
          expect([...new Set(ofKey)]).toEqual([...new Set(ofKey)].toSorted(ascending));
        }
      }),
      { numRuns: 150 },
    );
  }, 120_000);
});

const ascending = (one: number, other: number) => one - other;
