import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

import type * as Turns from '../../lib/bus/deliveries/turn.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { Runs } from '../../lib/bus/relay/runs.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { KICK_BUDGET_MS } from '../../lib/platform/lifetime.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  WAITING,
  contradictions,
  drainLive,
  emitPayments,
  gate,
  numbers,
  onConnectionsOf,
  openTransaction,
  payment,
  rows,
  storeBacklog,
} from '../support/bus.ts';
import { statesOf, leasedLanes } from '../support/records.ts';
import { lockLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';

const turns = vi.hoisted(() => ({
  /** Takes the place of a turn that waits in the database, while a test has one. */
  awaiting: null as typeof Turns.takeTurn | null,
  /** What the next turn that settles fails with. */
  refusal: null as Error | null,
}));
vi.mock('../../lib/bus/deliveries/turn.ts', async (importOriginal) => {
  const original = await importOriginal<typeof Turns>();
  const takeTurn: typeof Turns.takeTurn = async (db, options) => {
    const { refusal } = turns;
    if (refusal && options.outcomes.length > 0) {
      turns.refusal = null;
      throw refusal;
    }
    return await (options.awaited.length > 0 && turns.awaiting ? turns.awaiting : original.takeTurn)(
      db,
      options,
    );
  };
  return { ...original, takeTurn };
});

/** A kick that commits call, until the test ends. */
function kicking(bus: Bus, subscribers: AttachedSubscriber[]) {
  const work: Promise<void>[] = [];
  const errors: unknown[] = [];
  const kick = createKick({
    db: bus.db,
    subscribers,
    waitUntil: (promise) => work.push(promise),
    onError: (error) => errors.push(error),
  });
  onTestFinished(onDue(bus.db, kick));
  const done = async () => {
    while (work.length > 0) await work.shift();
    expect(errors).toEqual([]);
  };
  return { kick, done };
}

type Settle = (error: Error | null, result?: unknown) => void;

/**
 * Notes when turns and commits are sent and answered.
 *
 * @param holds delays the answers to some of them.
 * @param holdsAnswer the same, by what is answered.
 */
function watch(
  holds: (sent: string) => Promise<void> | undefined = () => undefined,
  holdsAnswer: (answer: string) => Promise<void> | undefined = () => undefined,
): string[] {
  const query = pg.Client.prototype.query as (...asked: unknown[]) => unknown;
  const seen: string[] = [];
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...asked: unknown[]
  ): unknown {
    const sent = nameOf(asked[0]);
    const settle = asked.at(-1);
    if (sent === null || typeof settle !== 'function') return Reflect.apply(query, this, asked);
    seen.push(sent);
    const answered = (error: Error | null, result: unknown) => {
      seen.push(`${sent}: ${error ? 'failed' : 'answered'}`);
      (settle as Settle)(error, result);
    };
    const held = holds(sent);
    return Reflect.apply(query, this, [
      ...asked.slice(0, -1),
      (error: Error | null, result: unknown) =>
        after(held ?? holdsAnswer(JSON.stringify(result)), () => answered(error, result)),
    ]);
  });
  onTestFinished(() => spy.mockRestore());
  return seen;
}

function after(held: Promise<void> | undefined, call: () => void): void {
  if (held) void held.then(call);
  else call();
}

function nameOf(asked: unknown): string | null {
  if (asked === 'commit') return 'commit';
  const { text, values } = asked as { text?: string; values?: unknown[] };
  if (!text?.includes('postbud_turn')) return null;
  return values![0] === null ? 'look' : 'settlement';
}

/** The clocks of this process, which can be set ahead. */
function movableClock(): { aheadMs: number } {
  const clock = { aheadMs: 0 };
  for (const clocks of [Date, performance]) {
    const now = clocks.now.bind(clocks);
    const spy = vi.spyOn(clocks, 'now').mockImplementation(() => now() + clock.aheadMs);
    onTestFinished(() => spy.mockRestore());
  }
  return clock;
}

const emitOne = (bus: Bus, number: number) =>
  bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(number), { orderingKey: `${number}` }));

describe('a kick', () => {
  test('that comes while a settlement is in flight is answered by another loop at once', async ({
    bus,
    handed,
    ledger,
  }) => {
    const goOn = gate();
    const seen = watch((sent) => (sent === 'settlement' && !handed.includes(2) ? goOn.opened : undefined));
    const { done } = kicking(bus, [ledger()]);
    await emitOne(bus, 1);
    await expect.poll(() => seen).toContain('settlement');
    await emitOne(bus, 2);
    await expect.poll(() => handed).toEqual([1, 2]);
    goOn.open();
    await done();
    const [first, second] = [seen.indexOf('settlement: answered'), seen.indexOf('settlement')];
    expect(seen.slice(second, first)).toContain('look: answered');
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('starts three loops at most: the first that comes back takes another turn', async ({
    bus,
    handed,
    ledger,
  }) => {
    const goOn = gate();
    const seen = watch((sent) => (sent === 'look' ? goOn.opened : undefined));
    const { done } = kicking(bus, [ledger()]);
    for (let number = 1; number <= 6; number += 1) await emitPayments(bus.db, number, number);
    const looks = () => seen.filter((sent) => sent === 'look').length;
    await expect.poll(looks).toBe(3);
    goOn.open();
    await done();
    expect(handed).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('leaves with the commit, and delivers once', async ({ bus, handed, ledger }) => {
    const seen = watch();
    const { done } = kicking(bus, [ledger()]);
    await emitOne(bus, 1);
    await done();
    expect(seen.slice(0, 2)).toEqual(['commit', 'look']);
    expect(handed).toEqual([1]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('whose turn found the commit made needs no other look at its answer', async ({
    bus,
    handed,
    ledger,
  }) => {
    const { takeTurn } = await vi.importActual<typeof Turns>('../../lib/bus/deliveries/turn.ts');
    const seen = watch();
    turns.awaiting = async (db, options) => {
      await expect.poll(() => seen).toContain('commit: answered');
      return { ...(await takeTurn(db, options)), isMet: true };
    };
    onTestFinished(() => void (turns.awaiting = null));
    const { done } = kicking(bus, [ledger()]);
    await emitOne(bus, 1);
    await done();
    expect(handed).toEqual([1]);
    expect(seen.filter((sent) => sent === 'look' || sent === 'settlement')).toEqual(['look', 'settlement']);
  });

  test('with a commit that fails costs a turn that finds nothing', async ({ bus, handed, ledger }) => {
    await rows(bus.db, 'create table seats (number int unique deferrable initially deferred)');
    onTestFinished(async () => void (await rows(bus.db, 'drop table seats')));
    const seen = watch();
    const { done } = kicking(bus, [ledger()]);
    const taken = bus.db.transaction(async (tx) => {
      await run(tx, { text: 'insert into seats values (1), (1)', values: [] });
      await emit(tx, 'payment.captured', payment(1));
    });
    await expect(taken).rejects.toMatchObject({ code: '23505' });
    await done();
    expect(handed).toEqual([]);
    expect(seen.filter((sent) => !sent.startsWith('commit'))).toEqual(['look', 'look: answered']);
  });
});

test('a relay begins when the one before it has given back what it leased after its time', async ({
  bus,
  handed,
  ledger,
}) => {
  const clock = movableClock();
  const handlerGoesOn = gate();
  const lookIsAnswered = gate();
  // Of the turn that leases the lane of the second payment.
  const isSecond = (answer: string) => /amountMinor\W+2\b/.test(answer);
  watch(undefined, (answer) => (isSecond(answer) ? lookIsAnswered.opened : undefined));
  const handler = ledger(async (number) => void (number === 1 && (await handlerGoesOn.opened)), {
    timeoutMs: 30 * SECOND,
  });
  const { kick, done } = kicking(bus, [handler]);
  await emitOne(bus, 1);
  await expect.poll(() => handed).toEqual([1]);
  // Shortly before its time is up, a look leases the lane of the second payment, whose answer comes later.
  clock.aheadMs = KICK_BUDGET_MS - 5 * SECOND;
  await emitOne(bus, 2);
  await expect.poll(() => leasedLanes(bus.db)).toHaveLength(2);
  // Its key has another lane than those of the first two.
  await emitOne(bus, 6);
  await expect.poll(() => handed).toEqual([1, 6]);
  await expect.poll(() => statesOf(bus.db)).toContain('delivered');
  clock.aheadMs = KICK_BUDGET_MS;
  // What gives it back has to wait. Whoever looked meanwhile would find nothing.
  const { client, rollback } = await openTransaction(bus.url);
  await lockLanes(client);
  lookIsAnswered.open();
  await expect.poll(() => rows(bus.db, WAITING)).not.toEqual([]);
  kick();
  await sleep(100);
  await rollback();
  await expect.poll(() => handed).toEqual([1, 6, 2]);
  handlerGoesOn.open();
  await done();
  expect(await contradictions(bus.db)).toEqual([]);
});

test('what a turn makes due beside what it leases is looked for by the next one', async ({
  bus,
  handed,
  ledger,
}) => {
  const { db } = bus;
  await emitPayments(db, 1, 1, { orderingKey: 'patient' });
  let asked = 0;
  const once = ledger(async (number) => {
    if (number !== 1 || (asked += 1) > 1) return;
    // From elsewhere, so that no bell rings; its turn is the one that settles this attempt.
    await onConnectionsOf(bus.url, async (elsewhere) => void (await emitPayments(elsewhere, 2, 2)));
    throw new RetryAfter(0);
  });
  await drainLive(db, [once]);
  expect(handed.toSorted()).toEqual([1, 1, 2]);
  expect(await contradictions(db)).toEqual([]);
});

test('after a turn that failed, a kick goes on with the lanes that it would have gone on with', async ({
  bus,
  handed,
  ledger,
}) => {
  // A claim takes two thousand of a lane.
  await storeBacklog(bus.db, 'payment.captured', 2100);
  const { done } = kicking(bus, [ledger()]);
  turns.refusal = new Error('the connection was refused');
  await emitPayments(bus.db, 2101, 2101);
  await done();
  expect(turns.refusal).toBeNull();
  expect(handed).toEqual(numbers(1, 2101));
  expect(await contradictions(bus.db)).toEqual([]);
});

test('the loops of a relay share the lanes of a burst by their streams, and leave none', async ({
  bus,
  handed,
  ledger,
}) => {
  await storeBacklog(bus.db, 'payment.captured', 12_000, 400);
  const share = vi.spyOn(Runs.prototype, 'share', 'get');
  onTestFinished(() => share.mockRestore());
  const others = (['bookings', 'notifications'] as const).map((name) =>
    subscriber(name, { 'payment.captured': () => undefined }),
  );
  const { done } = kicking(bus, [ledger(), ...others]);
  await emitPayments(bus.db, 12_001, 12_001, { orderingKey: 'key 1' });
  await done();
  expect(share.mock.results.some(({ value }) => value > 0)).toBe(true);
  expect(handed.toSorted((one, other) => one - other)).toEqual(numbers(1, 12_001));
  expect(await contradictions(bus.db)).toEqual([]);
});

test('two hundred events make no AbortController, and no timers but the pool’s own', async ({
  bus,
  handed,
  ledger,
}) => {
  const { done } = kicking(bus, [ledger(async () => undefined)]);
  await emitOne(bus, 0);
  await done();
  const controllers = vi.spyOn(globalThis, 'AbortController');
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const own: unknown[] = [];
  // The pools wait five seconds for a connection, and close one that is idle for five minutes.
  const note = (isOwn: (ms: number) => boolean) => {
    own.push(
      ...timers.mock.calls.filter(([, ms]) => ms !== 5 * SECOND && ms !== 5 * MINUTE && isOwn(ms ?? 0)),
    );
    timers.mockClear();
  };
  for (let number = 1; number <= 200; number += 1) {
    await emitOne(bus, number);
    // While the disk holds the commit up, the relay looks again, each time after twice as long.
    note((ms) => ![2, 4, 8, 16, 32, 64, 128, 250].includes(ms));
    await done();
    note(() => true);
  }
  const made = controllers.mock.calls.length;
  timers.mockRestore();
  controllers.mockRestore();
  expect(handed).toHaveLength(201);
  expect(made).toBe(0);
  expect(own.length).toBeLessThan(20);
});
