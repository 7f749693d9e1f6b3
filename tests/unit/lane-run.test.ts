import { describe, expect, it, vi } from 'vitest';

import { LaneRun } from '../../lib/bus/relay/lane-run.ts';
import { RelayTime } from '../../lib/bus/relay/relay-time.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, attachBatches } from '../../lib/bus/subscribers/subscriber.ts';
import type { BatchContext, BusEvent, DeliveryContext } from '../../lib/bus/subscribers/subscriber.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { gate } from '../support/bus.ts';
import { clocksAt, deliveredIn, laneOf, options, parkedIn, runLane, unfinishedIn } from '../support/lane.ts';

const still = clocksAt(() => 0);

type Handle = (position: number, context: DeliveryContext) => unknown;

const positionOf = ({ id }: BusEvent) => Number(id.slice('event '.length));

/** A ledger that does this with the deliveries at each position. */
const ledger = (handle: Handle, more: { timeoutMs?: number; maxAttempts?: number } = {}) =>
  attach(
    'ledger',
    { 'payment.captured': (event: BusEvent, context) => handle(positionOf(event), context) },
    more,
  );

/** A ledger that notes what it is handed, and then does this with each. */
function noting(then: Handle = () => undefined) {
  const handed: number[] = [];
  const noted = ledger((position, context) => {
    handed.push(position);
    return then(position, context);
  });
  return { handed, noted };
}

const fail = () => {
  throw new Error('as planned');
};

describe('a lane', () => {
  it('a lane goes on only when its lease is long enough at its arrival', async () => {
    let now = 0;
    const called: string[] = [];
    let finish = () => {};
    const slow = ledger(async (position) => {
      called.push(`event ${position} at ${now / SECOND} s`);
      await new Promise<void>((resolve) => (finish = resolve));
    });
    const lane = laneOf(slow, ['', ''], { isKeyed: false });
    const { leaseMs } = lane.subscription;
    const run = new LaneRun(
      lane,
      0,
      clocksAt(() => now),
      options(),
    );
    await sleep(1);
    // The first handler takes so long that too little of the lease is left for another.
    now = leaseMs - 11 * SECOND;
    finish();
    await sleep(1);
    const asked = run.yieldOutcome(false);
    expect(asked).toMatchObject({ head: 1, keepMs: leaseMs });
    const until = now + leaseMs;
    // Made in time, but known only when the new lease is over as well: another relay may have the lane.
    now += leaseMs + SECOND;
    run.keep(2, until);
    await sleep(1);
    expect(called).toEqual(['event 1 at 0 s']);
    // Asks again; and nobody has taken it.
    const again = run.yieldOutcome(false);
    expect(again).toMatchObject({ number: 2, keepMs: leaseMs });
    run.keep(3, now + leaseMs);
    await sleep(1);
    expect(called).toEqual(['event 1 at 0 s', `event 2 at ${now / SECOND} s`]);
  });
});

describe('in a lane with keys', () => {
  it('handlers of different keys run side by side, 32 at most, and each key is in order', async () => {
    const open = new Map<number, () => void>();
    const begun: number[] = [];
    const waiting = ledger(async (position) => {
      begun.push(position);
      await new Promise<void>((resolve) => open.set(position, resolve));
    });
    // Forty keys, each twice.
    const keys = Array.from({ length: 80 }, (_, index) => `key ${index % 40}`);
    const running = runLane(laneOf(waiting, keys));
    await sleep(1);
    expect(begun).toEqual(Array.from({ length: 32 }, (_, index) => index + 1));
    open.get(3)!();
    await sleep(1);
    // The next key comes before the second of one that is at work, and that of the third key is not yet there.
    expect(begun.slice(32)).toEqual([33]);
    while (begun.length < 80) {
      for (const position of [...begun].toReversed()) open.get(position)!();
      await sleep(1);
    }
    for (const resolve of open.values()) resolve();
    expect(await running).toMatchObject({ head: 80, exceptional: [] });
    for (let key = 1; key <= 40; key += 1) expect(begun.indexOf(key)).toBeLessThan(begun.indexOf(key + 40));
  });

  it.each([
    ['fails', () => fail(), MINUTE],
    [
      'asks to wait',
      () => {
        throw new RetryAfter(7 * SECOND);
      },
      7 * SECOND,
    ],
  ])('a key that %s stops while the others go on', async (_, act, waitMs) => {
    const { handed, noted } = noting((position) => (position === 2 ? act() : undefined));
    const outcome = await runLane(laneOf(noted, ['a', 'b', 'b', 'a', 'b']));
    expect(handed).toEqual([1, 2, 4]);
    expect(outcome).toMatchObject({ head: 5, keepMs: null, carefulTo: null });
    expect(deliveredIn(outcome!)).toEqual([1, 4]);
    expect(unfinishedIn(outcome!)).toMatchObject([{ position: 2, nextAttemptAtMs: waitMs }]);
    expect(parkedIn(outcome!)).toEqual([3, 5]);
  });

  it('a dead letter lets its key go on', async () => {
    const { handed, noted } = noting((position) => {
      if (position === 1) throw new PermanentError('never');
    });
    const outcome = await runLane(laneOf(noted, ['a', 'a', 'b']));
    expect(handed).toEqual([1, 2, 3]);
    expect(outcome).toMatchObject({ head: 3, exceptional: [{ kind: 'dead', position: 1 }] });
  });

  it('a key that is early stops until then', async () => {
    const { handed, noted } = noting();
    const early = { key: 'b', isException: true, nextAttemptAtMs: 5 * SECOND };
    const outcome = await runLane(laneOf(noted, [early, 'a', 'b', 'a'], { head: 1 }));
    expect(handed).toEqual([2, 4]);
    expect(outcome).toMatchObject({ head: 4, exceptional: [{ kind: 'parked', position: 3 }] });
    expect(deliveredIn(outcome!)).toEqual([2, 4]);
  });

  it('a key that an exception holds back which is not due is parked', async () => {
    const { handed, noted } = noting();
    const outcome = await runLane(laneOf(noted, ['a', 'b', 'a'], { openKeys: new Set(['b']) }));
    expect(handed).toEqual([1, 3]);
    expect(outcome).toMatchObject({ head: 3, exceptional: [{ kind: 'parked', position: 2 }] });
  });

  it('the head waits for a running handler, and what failed beyond it waits for the head', async () => {
    const slow = gate();
    const { noted } = noting((position) =>
      position === 2 ? slow.opened : position === 3 ? fail() : undefined,
    );
    const run = new LaneRun(laneOf(noted, ['a', 'slow', 'b', 'c', 'slow', 'b']), 0, still, options());
    await sleep(1);
    const partial = run.yieldOutcome(true)!;
    expect(partial).toMatchObject({ head: 1, exceptional: [] });
    expect(deliveredIn(partial)).toEqual([1]);
    expect(run.yieldOutcome(true)).toBeNull();
    slow.open();
    await run.pauses();
    const rest = run.yieldOutcome(false)!;
    expect(rest).toMatchObject({ head: 6, keepMs: null });
    expect(rest.exceptional).toContainEqual(expect.objectContaining({ kind: 'failed', position: 3 }));
    expect(deliveredIn(rest)).toEqual([2, 4, 5]);
    expect(parkedIn(rest)).toEqual([6]);
  });

  it('a handler that runs for long is left behind with its key, and the head passes both', async () => {
    const slow = gate();
    const now = performance.now.bind(performance);
    const { noted } = noting((position) => (position === 1 ? slow.opened : undefined));
    const lane = laneOf(noted, ['slow', 'b', 'slow']);
    const run = new LaneRun(lane, 0, still, options());
    await sleep(1);
    expect(run.yieldOutcome(false)).toBeNull();
    vi.spyOn(performance, 'now').mockImplementation(() => now() + 200);
    const outcome = run.yieldOutcome(false)!;
    expect(outcome).toMatchObject({ head: 3, keepMs: lane.subscription.leaseMs, nextClaimed: 1 });
    expect(outcome.exceptional.map(({ kind, position }) => `${kind} ${position}`)).toEqual([
      'running 1',
      'parked 3',
    ]);
    expect(run.mayGoOn).toBe(true);
    slow.open();
    await run.pauses();
    expect(run.yieldOutcome(false)).toMatchObject({
      head: 3,
      keepMs: null,
      exceptional: [{ kind: 'delivered', position: 1 }],
    });
  });

  it('a lane that went on settles what waits behind a handler that runs for long before it goes on again', async () => {
    const slow = gate();
    const now = performance.now.bind(performance);
    const { handed, noted } = noting((position) => (position === 1 ? slow.opened : undefined));
    const run = new LaneRun(laneOf(noted, ['slow']), 0, still, options());
    await sleep(1);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + 200);
    run.yieldOutcome(false);
    const [, ...deliveries] = laneOf(noted, ['slow', 'slow', 'b']).deliveries;
    run.goOn(laneOf(noted, [], { number: 2, head: 1, deliveries, isContinued: true, claimedTo: 3 }), still);
    await sleep(1);
    expect(handed).toEqual([1, 3]);
    // A claim would read both again.
    expect(run.mayGoOn).toBe(false);
    const outcome = run.yieldOutcome(false)!;
    expect(outcome).toMatchObject({ head: 3, nextClaimed: 1 });
    expect([deliveredIn(outcome), parkedIn(outcome)]).toEqual([[3], [2]]);
    expect(run.mayGoOn).toBe(true);
    slow.open();
  });

  it('no handler is begun once time is up', async () => {
    const { handed, noted } = noting();
    const outcome = await runLane(laneOf(noted, ['a', 'b', 'c', 'a']), { isOver: () => handed.length === 2 });
    expect(handed).toEqual([1, 2]);
    expect(outcome).toMatchObject({ head: 2, exceptional: [] });
  });

  it('nothing is begun or settled once another relay has the lane', async () => {
    const held = gate();
    const { handed, noted } = noting(() => held.opened);
    const run = new LaneRun(laneOf(noted, ['a', 'b', 'a', 'b']), 0, still, options());
    await sleep(1);
    run.lose();
    held.open();
    await run.pauses();
    expect(handed).toEqual([1, 2]);
    expect(run.yieldOutcome(false)).toBeNull();
  });

  it('several keys wait for one renewed lease', async () => {
    let now = 0;
    const held = gate();
    const { handed, noted } = noting((position) => (position <= 2 ? held.opened : undefined));
    const run = new LaneRun(
      laneOf(noted, ['a', 'b', 'a', 'b']),
      0,
      clocksAt(() => now),
      options(),
    );
    now = 15 * SECOND;
    held.open();
    await run.pauses();
    await sleep(1);
    expect(handed).toEqual([1, 2]);
    const asked = run.yieldOutcome(false)!;
    expect(asked).toMatchObject({ head: 2, keepMs: 30 * SECOND });
    run.keep(2, now + 30 * SECOND);
    await run.pauses();
    expect(handed).toEqual([1, 2, 3, 4]);
    expect(run.yieldOutcome(false)).toMatchObject({ head: 4, keepMs: null });
  });

  it('the first delivery of a dead relay has failed, and the others go one by one', async () => {
    const { handed, noted } = noting();
    const outcome = await runLane(laneOf(noted, ['a'], { lapsedAtMs: 0, claimedTo: 4 }));
    expect(handed).toEqual([]);
    expect(outcome).toMatchObject({ head: 1, carefulTo: 4, delivered: [] });
    expect(unfinishedIn(outcome!)).toMatchObject([
      { position: 1, kind: 'lease_expired', nextAttemptAtMs: MINUTE },
    ]);
  });
});

describe('a batch', () => {
  type HandleBatch = (positions: number[], context: BatchContext) => unknown;
  /** A ledger that notes the batches that it is handed, and then does this with each. */
  function inBatches(then: HandleBatch = () => undefined, more: { maxAttempts?: number } = {}) {
    const handed: number[][] = [];
    const handle = (events: readonly BusEvent[], context: BatchContext) => {
      handed.push(events.map(positionOf));
      return then(handed.at(-1)!, context);
    };
    return { handed, noted: attachBatches('ledger', { 'payment.captured': handle }, more) };
  }

  it('a batch holds a hundred events at most, in order, of several keys', async () => {
    const { handed, noted } = inBatches();
    const outcome = await runLane(
      laneOf(
        noted,
        Array.from({ length: 150 }, (_, index) => `key ${index % 7}`),
      ),
    );
    expect(handed.map(({ length }) => length)).toEqual([100, 50]);
    expect(handed.flat()).toEqual(Array.from({ length: 150 }, (_, index) => index + 1));
    expect(outcome).toMatchObject({ head: 150, exceptional: [] });
  });

  it('a batch reports each of its deliveries', async () => {
    const seen: unknown[] = [];
    const { noted } = inBatches((_, { deliveries, attemptedAt, signal }) => {
      seen.push(deliveries, attemptedAt, signal.aborted);
    });
    await runLane(laneOf(noted, ['a', { key: 'b', attempts: 1, replays: 1 }]));
    expect(seen).toEqual([
      [
        { deliveryId: 'event 1.ledger', attempt: 1, replayed: false },
        { deliveryId: 'event 2.ledger', attempt: 2, replayed: true },
      ],
      new Date(0),
      false,
    ]);
  });

  it('a batch is taken as far as its handler says, and the next one has failed', async () => {
    const { handed, noted } = inBatches(() => (handed.length === 1 ? 2 : undefined));
    const outcome = await runLane(laneOf(noted, ['', '', '', ''], { isKeyed: false }));
    expect(handed).toEqual([[1, 2, 3, 4]]);
    expect(outcome).toMatchObject({ head: 3 });
    expect(deliveredIn(outcome!)).toEqual([1, 2]);
    expect(unfinishedIn(outcome!)).toMatchObject([
      {
        position: 3,
        kind: 'not_taken',
        message: 'the handler took 2 of 4 events',
        nextAttemptAtMs: MINUTE,
      },
    ]);
  });

  it('the other keys go on behind an event that was not taken', async () => {
    const { handed, noted } = inBatches(() => (handed.length === 1 ? 1 : undefined));
    const outcome = await runLane(laneOf(noted, ['a', 'b', 'a', 'b', 'c']));
    expect(handed).toEqual([
      [1, 2, 3, 4, 5],
      [3, 5],
    ]);
    expect(outcome).toMatchObject({ head: 5 });
    expect(unfinishedIn(outcome!)).toMatchObject([{ position: 2 }]);
    expect(parkedIn(outcome!)).toEqual([4]);
  });

  it.each([
    ['an error fails with', () => fail(), { kind: 'Error', outcome: 'failed', nextAttemptAtMs: MINUTE }],
    [
      'RetryAfter waits with',
      () => {
        throw new RetryAfter(SECOND);
      },
      { kind: 'retry_after', outcome: 'waited', nextAttemptAtMs: SECOND },
    ],
    ['-1 fails with', () => -1, { kind: 'wrong_count' }],
    ['more than it was handed fails with', () => 4, { kind: 'wrong_count' }],
    ['a half fails with', () => 0.5, { kind: 'wrong_count' }],
    [
      'a text fails with',
      () => '3',
      {
        kind: 'wrong_count',
        message:
          'the handler returned a string for 3 events: return how many it took, 0 to 3, or nothing for all',
      },
    ],
    ['null fails with', () => null, { kind: 'wrong_count' }],
  ])('a batch whose handler throws or returns %s its first', async (_, act, expected) => {
    for (const later of [act, async () => act()]) {
      const { handed, noted } = inBatches(later);
      const outcome = await runLane(laneOf(noted, ['', '', ''], { isKeyed: false }));
      expect(handed).toEqual([[1, 2, 3]]);
      expect(outcome).toMatchObject({ head: 1, delivered: [] });
      expect(unfinishedIn(outcome!)).toMatchObject([{ position: 1, ...expected }]);
    }
  });

  it('a batch goes on behind its first when that is dead-lettered', async () => {
    const { handed, noted } = inBatches(() => {
      if (handed.length === 1) throw new PermanentError('never');
    });
    const outcome = await runLane(laneOf(noted, ['', '', ''], { isKeyed: false }));
    expect(handed).toEqual([
      [1, 2, 3],
      [2, 3],
    ]);
    expect(outcome).toMatchObject({ head: 3, exceptional: [{ kind: 'dead', position: 1 }] });
  });

  it('a batch that overruns its time limit fails its first', async () => {
    const never = { ...inBatches(() => new Promise(() => undefined)).noted, timeoutMs: 10 };
    const outcome = await runLane(laneOf(never, ['', ''], { isKeyed: false }));
    expect(unfinishedIn(outcome!)).toMatchObject([{ position: 1, kind: 'timeout' }]);
  });

  it.each([
    ['failed twice', 5, 2],
    ['has its last attempt', 2, 1],
  ])('an event that %s has a batch of its own', async (_, maxAttempts, attempts) => {
    const { handed, noted } = inBatches(undefined, { maxAttempts });
    const failed = { attempts, isException: true };
    const laid = [{ key: 'a', ...failed }, { key: 'd', ...failed }, 'b', 'c', 'e'];
    await runLane(laneOf(noted, laid, { head: 2 }));
    expect(handed).toEqual([[1], [2], [3, 4, 5]]);
  });

  it('a batch may begin with an event that failed once', async () => {
    const { handed, noted } = inBatches();
    await runLane(laneOf(noted, [{ key: 'a', attempts: 1, isException: true }, 'b'], { head: 1 }));
    expect(handed).toEqual([[1, 2]]);
  });

  it('a batch ends before an event that is early', async () => {
    const { handed, noted } = inBatches();
    const laid = [{ key: 'a' }, { key: 'b', nextAttemptAtMs: SECOND }, { key: 'c' }];
    const outcome = await runLane(
      laneOf(
        noted,
        laid.map((one) => ({ ...one, isException: true })),
        { head: 3 },
      ),
    );
    expect(handed).toEqual([[1], [3]]);
    expect(deliveredIn(outcome!)).toEqual([1, 3]);
  });

  it('a batch cut off by the end of its relay counts as not tried', async () => {
    const stop = new AbortController();
    const { noted } = inBatches(async () => {
      stop.abort();
      await new Promise(() => undefined);
    });
    const outcome = await runLane(laneOf(noted, ['a', 'b']), {
      time: new RelayTime({ until: Infinity, signal: stop.signal }),
    });
    expect(outcome).toMatchObject({ head: 0, delivered: [], exceptional: [] });
  });
});
