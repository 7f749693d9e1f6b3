import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { createKick } from '../../lib/bus/relay/kick.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';
import { duties } from '../../lib/edge/cron/duties.ts';
import type { Duty } from '../../lib/edge/cron/duties.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { RELAY_LIFE_MS, FUNCTION_LIFE_MS, handlersUntil, withinLife } from '../../lib/platform/lifetime.ts';
import { logTo } from '../../lib/platform/log.ts';
import type { LogLine } from '../../lib/platform/log.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { emitPayments, rows } from '../support/bus.ts';
import { deliveriesOf, leasedLanes } from '../support/records.ts';
import { simulateTime } from '../support/simulated-time.ts';
import type { SimulatedTime } from '../support/simulated-time.ts';

// Minutes of many small looks for work take some real seconds.
vi.setConfig({ testTimeout: 60_000 });

let time: SimulatedTime;
/** Which payments handlers were handed, and when. */
let handed: { payment: number; at: number }[];
let lines: LogLine[];

beforeAll(async () => {
  time = await simulateTime();
});
afterAll(() => time.close());
beforeEach(async () => {
  handed = [];
  lines = [];
  logTo((line) => lines.push(line));
  await time.begin();
});
afterEach(() => vi.useRealTimers());

/** A ledger whose handlers take so long. */
const slow = (tookMs: number, options: SubscriberOptions = {}) =>
  subscriber(
    'ledger',
    {
      'payment.captured': async ({ payload }) => {
        handed.push({ payment: payload.amountMinor, at: time.now() });
        await sleep(tookMs);
      },
    },
    options,
  );

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** Emits one payment after the other, in a lane each or all in one. @param then is done after each commit. */
async function traffic(count: number, everyMs: number, { lanes }: { lanes: boolean }, then = () => {}) {
  const emittedAt: number[] = [];
  for (const number of numbers(count)) {
    await emitPayments(time.db, number, number, lanes ? { orderingKey: `lane ${number}` } : {});
    emittedAt.push(time.now());
    then();
    await sleep(everyMs);
  }
  return emittedAt;
}

describe('the cron, called each minute for three minutes', () => {
  const END = 3 * MINUTE;

  async function callsOfTheCron(calls: readonly number[], attached: AttachedSubscriber[], toDo = duties) {
    const call = async (seconds: number) => {
      await sleep(seconds * SECOND);
      const life = () =>
        runCron({ db: time.db, subscribers: attached, duties: toDo, handlersUntil: handlersUntil() });
      const calledAt = time.now();
      const response = await withinLife(RELAY_LIFE_MS, life);
      return { livedMs: time.now() - calledAt, answer: (await response.json()) as Record<string, unknown> };
    };
    return await Promise.all(calls.map(call));
  }

  /** The longest time in which no relay looked for work. */
  function longestGap(): number {
    const within = [...time.ticks.filter((at) => at <= END), END];
    return Math.max(...within.map((at, index) => at - (within[index - 1] ?? 0)));
  }

  it.each<[how: string, at: number[]]>([
    ['on time', [0, 60, 120]],
    ['up to ten seconds late', [0, 70, 125]],
    ['twice each time', [0, 0, 60, 61, 120, 122]],
  ])('looks for work at least every six seconds when it is called %s', async (_, at) => {
    await time.through(callsOfTheCron(at, [slow(0)]));
    expect(longestGap()).toBeLessThanOrEqual(6 * SECOND);
  });

  it('looks for work as often while handlers take nine seconds each, and ends within its life', async () => {
    const [calls] = await time.through(
      Promise.all([
        callsOfTheCron([0, 60, 120], [slow(9 * SECOND)]),
        traffic(80, 2 * SECOND, { lanes: false }),
      ]),
    );
    expect(longestGap()).toBeLessThanOrEqual(6 * SECOND);
    for (const { livedMs } of calls) expect(livedMs).toBeLessThanOrEqual(RELAY_LIFE_MS - 5 * SECOND);
    expect(handed.map(({ payment }) => payment)).toEqual(numbers(handed.length));
  });

  it('looks for work as often while its other duties are blocked, and names them', async () => {
    const failing: Duty = { name: 'one that throws', run: () => Promise.reject(new Error('no')) };
    const hanging: Duty = { name: 'one that hangs', run: () => new Promise(() => undefined) };
    const throwing: Duty = {
      name: 'one that throws at once',
      run: () => {
        throw new Error('no');
      },
    };
    const clock = duties[0]!;
    const [calls, emittedAt] = await time.through(
      Promise.all([
        callsOfTheCron([0, 60, 120], [slow(0)], [failing, hanging, throwing, clock]),
        traffic(30, 6 * SECOND, { lanes: false }),
      ]),
    );
    expect(longestGap()).toBeLessThanOrEqual(6 * SECOND);
    for (const { livedMs, answer } of calls) {
      expect(livedMs).toBeLessThanOrEqual(RELAY_LIFE_MS);
      expect(answer).toMatchObject({
        undone: ['one that throws', 'one that hangs', 'one that throws at once'],
        struck: expect.any(Array),
      });
    }
    expect(lines.filter(({ message }) => message === 'a duty of the cron failed')).toHaveLength(9);
    for (const [index, { at }] of handed.entries()) expect(at - emittedAt[index]!).toBeLessThan(6 * SECOND);
    expect(handed).toHaveLength(30);
  });

  it('continues with its next look after the database failed under a relay', async () => {
    const client = time.db.$client as { query(...asked: unknown[]): Promise<unknown> };
    const { query } = client;
    let failures = 3;
    client.query = async (...asked) => {
      if (String(asked[0]).includes('postbud_turn') && (failures -= 1) >= 0)
        throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
      return await query(...asked);
    };
    const [[call]] = await time.through(
      Promise.all([callsOfTheCron([0], [slow(0)]), traffic(1, 0, { lanes: false })]),
    );
    client.query = query;
    expect(call!.answer).toMatchObject({ delivered: 1 });
    expect(handed).toEqual([{ payment: 1, at: 15 * SECOND }]);
    expect(lines.filter(({ message }) => message.startsWith('the relay stopped'))).toHaveLength(3);
  });
});

describe('a kick', () => {
  /** How long each kick kept its function alive. */
  let lived: number[];
  let working: Promise<unknown>[];
  let errors: unknown[];

  function kicker(attached: AttachedSubscriber[], until?: () => number) {
    lived = [];
    working = [];
    errors = [];
    return createKick({
      db: time.db,
      subscribers: attached,
      waitUntil: (work) => {
        const kickedAt = time.now();
        working.push(work.then(() => lived.push(time.now() - kickedAt)));
      },
      onError: (error) => errors.push(error),
      ...(until && { handlersUntil: until }),
    });
  }

  it.each<[where: string, lanes: boolean]>([
    ['in a lane each', true],
    ['in one lane', false],
  ])(
    'under steady traffic %s with slow handlers ends within ten seconds and the handler limit',
    async (_, lanes) => {
      const kick = kicker([slow(9 * SECOND, { timeoutMs: 10 * SECOND })]);
      const emittedAt = await time.through(traffic(50, 900, { lanes }, kick));
      await time.through(Promise.all(working));
      expect(errors).toEqual([]);
      expect(lived).toHaveLength(50);
      expect(Math.max(...lived)).toBeLessThanOrEqual(20 * SECOND);
      if (!lanes) {
        expect(handed.map(({ payment }) => payment)).toEqual(numbers(handed.length));
        return;
      }
      // No kick is left to the cron. A key waits for another's handler at most, where that runs in the same lane, in a relay
      // that looks for nothing more.
      expect(handed.map(({ payment }) => payment).sort((one, other) => one - other)).toEqual(numbers(50));
      for (const { payment, at } of handed) expect(at - emittedAt[payment - 1]!).toBeLessThan(9 * SECOND);
    },
  );

  it('finds what an earlier one claimed when its time to look was just over', async () => {
    const kick = kicker([slow(9900, { timeoutMs: 10 * SECOND })]);
    const client = time.db.$client as { query(...asked: unknown[]): Promise<unknown> };
    const { query } = client;
    let isSlow = false;
    client.query = async (...asked) => {
      if (isSlow && String(asked[0]).includes('postbud_turn')) {
        isSlow = false;
        await sleep(200);
      }
      return await query(...asked);
    };
    const happening = async () => {
      await emitPayments(time.db, 1, 1, { orderingKey: 'first' });
      kick();
      await sleep(9850);
      await emitPayments(time.db, 2, 2, { orderingKey: 'second' });
      isSlow = true;
      kick();
      await sleep(0);
      await Promise.all(working);
    };
    await time.through(happening());
    client.query = query;
    expect(isSlow).toBe(false);
    expect(handed.map(({ payment }) => payment)).toEqual([1, 2]);
    expect(handed[1]!.at).toBeLessThan(11 * SECOND);
  });

  it('does not wait for the handlers of an earlier kick', async () => {
    const kick = kicker([slow(9 * SECOND)]);
    const happening = async () => {
      await emitPayments(time.db, 1, 1, { orderingKey: 'first' });
      kick();
      await sleep(8 * SECOND);
      await emitPayments(time.db, 2, 2, { orderingKey: 'second' });
      kick();
      await sleep(4 * SECOND);
      await emitPayments(time.db, 3, 3, { orderingKey: 'third' });
      kick();
      await sleep(0);
      await Promise.all(working);
    };
    await time.through(happening());
    expect(handed.map(({ payment }) => payment)).toEqual([1, 2, 3]);
    expect(handed[2]!.at).toBeLessThan(12 * SECOND + 500);
    expect(Math.max(...lived)).toBeLessThanOrEqual(20 * SECOND);
  });

  it('late in the life of its function begins no handler that would outlive it; the cron’s relay begins it', async () => {
    const both = [
      slow(0, { timeoutMs: 15 * SECOND }),
      subscriber('bookings', { 'payment.captured': () => undefined }, { timeoutMs: 10 * SECOND }),
    ];
    const kick = kicker(both, handlersUntil);
    // The request took 12 of its function's 30 seconds until its commit: 13 are left, and 5 to settle.
    await time.through(
      withinLife(FUNCTION_LIFE_MS, async () => {
        await sleep(12 * SECOND);
        await emitPayments(time.db, 1, 1);
        kick();
        await Promise.all(working);
      }),
    );
    expect(await attemptsOf('bookings')).toEqual(['delivered 1']);
    expect(await attemptsOf('ledger')).toEqual(['pending 0']);
    await time.through(
      withinLife(RELAY_LIFE_MS, () =>
        runCron({ db: time.db, subscribers: both, duties: [], handlersUntil: handlersUntil() }),
      ),
    );
    expect(await attemptsOf('ledger')).toEqual(['delivered 1']);
  });
});

const attemptsOf = async (name: string) =>
  (await time.through(deliveriesOf(time.db, name))).map(({ state, attempts }) => `${state} ${attempts}`);

describe('a relay whose host lives so long', () => {
  const drain = async (attached: AttachedSubscriber[], handlersMs: number, ms = 30 * SECOND) =>
    await time.through(
      relay({
        db: time.db,
        subscribers: attached,
        until: Date.now() + ms,
        handlersUntil: Date.now() + handlersMs,
      }),
    );
  const leased = async () => await time.through(leasedLanes(time.db));

  it('leaves a lane whose handler does not fit alone, without an attempt, a lease or another look', async () => {
    await time.through(emitPayments(time.db, 1, 2));
    const report = await drain([slow(0, { timeoutMs: 10 * SECOND })], 10 * SECOND - 1);
    expect(report).toMatchObject({ placed: 2, delivered: 0, failed: 0, waited: 0 });
    // The first look is in the instant of the commit, the second places them and finds nothing that it may begin.
    expect(report.ticks).toBe(2);
    expect(await attemptsOf('ledger')).toEqual(['pending 0', 'pending 0']);
    expect(await leased()).toEqual([]);
    expect((await drain([slow(0, { timeoutMs: 10 * SECOND })], 10 * SECOND)).delivered).toBe(2);
  });

  it('stops in the middle of a lane when the next handler no longer fits, and settles the earlier deliveries', async () => {
    await time.through(emitPayments(time.db, 1, 5));
    const began = time.now();
    const report = await drain([slow(2 * SECOND, { timeoutMs: 10 * SECOND })], 15 * SECOND);
    // Begun after 0, 2 and 4 seconds; after 6 there are 9 left.
    expect(handed.map(({ payment, at }) => [payment, Math.round((at - began) / SECOND)])).toEqual([
      [1, 0],
      [2, 2],
      [3, 4],
    ]);
    expect(report).toMatchObject({ delivered: 3, failed: 0, waited: 0, leasesLost: 0 });
    expect(await attemptsOf('ledger')).toEqual([
      ...Array.from({ length: 3 }, () => 'delivered 1'),
      ...Array.from({ length: 2 }, () => 'pending 0'),
    ]);
    expect((await drain([slow(0)], MINUTE)).delivered).toBe(2);
  });

  it('does not begin a transactional handler that waited for a connection until it no longer fits', async () => {
    // The embedded database has one connection.
    const transactional = subscriber(
      'ledger',
      {
        'payment.captured': async ({ payload }) => {
          handed.push({ payment: payload.amountMinor, at: time.now() });
          await sleep(3 * SECOND);
        },
      },
      { transactional: true, timeoutMs: 5 * SECOND },
    );
    for (const number of numbers(4)) {
      await time.through(emitPayments(time.db, number, number, { orderingKey: `lane ${number}` }));
    }
    const report = await drain([transactional], 12 * SECOND);
    // Each waits for those before it; the fourth would begin after 9 seconds and end after 14.
    expect(report).toMatchObject({ delivered: 3, failed: 0, waited: 0, deadLettered: 0 });
    expect((await attemptsOf('ledger')).sort()).toEqual([
      'delivered 1',
      'delivered 1',
      'delivered 1',
      'pending 0',
    ]);
    expect(handed).toHaveLength(3);
    expect((await drain([transactional], MINUTE)).delivered).toBe(1);
  });

  it('gives each of the transactional handlers that share a commit its own time', async () => {
    // 80 ms in all, where each has 60.
    const own = subscriber(
      'ledger',
      { 'payment.captured': () => sleep(40) },
      { transactional: true, timeoutMs: 60 },
    );
    await time.through(emitPayments(time.db, 1, 2));
    expect(await drain([own], MINUTE)).toMatchObject({ delivered: 2, failed: 0 });
    const found = await time.through(
      rows<{ xmin: string }>(time.db, 'select distinct xmin from journal where delivered > 0'),
    );
    expect(found).toHaveLength(1);
  });
});
