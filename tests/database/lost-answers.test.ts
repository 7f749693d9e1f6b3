import { describe, expect, vi } from 'vitest';

import type { ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import type { ExceptionalDelivery, LaneOutcome, UnfinishedAttempt } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { Bell } from '../../lib/bus/relay/bell.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  emitPayments,
  gate,
  numbers,
  payloadOf,
  rows,
  START,
  emitAlone,
} from '../support/bus.ts';
import { deliveriesOf, dueTimesOf, leasedLanes } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { outcomeOf } from '../support/lane.ts';
import { refuse } from '../support/ledger.ts';
import { loseAnswers } from '../support/lost-answers.ts';

const attemptsOf = async (bus: Bus, name = 'ledger') =>
  (await deliveriesOf(bus.db, name)).map(({ state, attempts, log }) => [state, attempts, log]);
const leased = (bus: Bus) => leasedLanes(bus.db);
const delivered = (count: number) => Array.from({ length: count }, () => ['delivered', 1, null]);

interface FoundTurn {
  readonly claimed: readonly object[];
  readonly settled: object | null;
}
const isTurn = (text: string) => /postbud_turn_\d/.test(text);
/** Whether a turn did so, by its answer. */
const hasDone =
  (did: (turn: FoundTurn) => boolean) =>
  (text: string, [row]: readonly unknown[]) =>
    isTurn(text) && did((row as { answer: FoundTurn }).answer);
const hasClaimed = hasDone(({ claimed }) => claimed.length > 0);
const hasSettled = hasDone(({ settled }) => settled !== null);

/** Gives another key of the same shared lane. */
async function besides(bus: Bus, key: string): Promise<string> {
  const [other] = await rows<{ key: string }>(
    bus.db,
    `select 'other ' || number as key from generate_series(1, 100) as number
     where postbud_slot('other ' || number) = postbud_slot($1::text) limit 1`,
    [key],
  );
  return other!.key;
}

// Each outage writes a line to the log.
test.beforeEach(({ output }) => void output);

describe('a relay that lost the answer of the database', () => {
  test('to its claim releases the lanes, and charges nobody', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 3);
    await emitPayments(bus.db, 4, 6, { orderingKey: 'a key' });
    let losses = 0;
    loseAnswers({ after: (...answered) => hasClaimed(...answered) && (losses += 1) <= 2 });
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 6, failed: 0, leasesLost: 0 });
    expect(losses).toBeGreaterThan(2);
    expect(handed.toSorted((one, other) => one - other)).toEqual(numbers(1, 6));
    expect(await attemptsOf(bus)).toEqual(delivered(6));
    expect(await leased(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('to its claim until its time was over leaves it to the next relay of its process to release the lanes', async ({
    bus,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 3);
    const stop = new AbortController();
    let isBack = false;
    loseAnswers({
      before: (text) => stop.signal.aborted && !isBack && /postbud_(release_lost|turn)/.test(text),
      after: (...answered) => {
        if (stop.signal.aborted || !hasClaimed(...answered)) return false;
        stop.abort();
        return true;
      },
    });
    await expect(drain(bus.db, [ledger()], { signal: stop.signal })).rejects.toThrow('terminated');
    isBack = true;
    expect(await leased(bus)).toHaveLength(1);
    expect(await drain(bus.db, [ledger()])).toMatchObject({ delivered: 3, failed: 0 });
    expect(await attemptsOf(bus)).toEqual(delivered(3));
  });

  test('to a claim of a lane that goes on beside a slow handler charges nobody, and settles what that did', async ({
    bus,
    handed,
    ledger,
  }) => {
    const slow = gate();
    const bell = new Bell();
    const other = await besides(bus, 'a key');
    await emitPayments(bus.db, 1, 1, { orderingKey: 'a key' });
    let losses = 0;
    loseAnswers({
      after: (...answered) => handed.length > 0 && hasClaimed(...answered) && (losses += 1) === 1,
    });
    const attached = [ledger((number) => (number === 1 ? slow.opened : undefined))];
    const relaying = relay({ db: bus.db, subscribers: attached, until: Date.now() + 5 * SECOND, bell });
    await sleep(200);
    await emitPayments(bus.db, 2, 2, { orderingKey: other });
    await emitPayments(bus.db, 3, 3, { orderingKey: 'a key' });
    bell.ring(['payment.captured']);
    await vi.waitFor(() => expect(losses).toBeGreaterThan(0));
    slow.open();
    expect(await relaying).toMatchObject({ delivered: 3, failed: 0, leasesLost: 0 });
    expect(handed.toSorted((one, two) => one - two)).toEqual([1, 2, 3]);
    expect((await attemptsOf(bus)).map(([state, attempts]) => [state, attempts])).toEqual([
      ['delivered', 1],
      ['delivered', 1],
      ['delivered', 1],
    ]);
    expect(await leased(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test.for([
    ['before', 'they reached the server'],
    ['after', 'they took effect'],
  ] as const)(
    'to its settlements again and again, %s %s, settles what its handlers did once it answers',
    async ([how], { bus, handed, ledger }) => {
      await emitPayments(bus.db, 1, 4);
      let hasEnded = false;
      let losses = 0;
      const lose = () => hasEnded && (losses += 1) <= 5;
      loseAnswers(
        how === 'before'
          ? { before: (text) => isTurn(text) && lose() }
          : { after: (...answered) => hasSettled(...answered) && lose() },
      );
      const attached = [
        ledger(async (number) => {
          if (number === 2) throw new PermanentError('no');
          hasEnded = number === 4;
        }),
      ];
      expect(await drain(bus.db, attached)).toMatchObject({ leasesLost: 0 });
      expect(losses).toBeGreaterThan(5);
      expect(handed).toEqual(numbers(1, 4));
      expect((await attemptsOf(bus)).map(([state, attempts]) => `${state} ${attempts}`)).toEqual([
        'delivered 1',
        'dead_lettered 1',
        'delivered 1',
        'delivered 1',
      ]);
      expect(await leased(bus)).toEqual([]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('has the outcomes of handlers that end meanwhile settled with the others', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'quick' });
    await emitPayments(bus.db, 2, 2);
    const late = gate();
    let isAway = false;
    let losses = 0;
    loseAnswers({
      before: (text) => {
        if (!isAway || !isTurn(text)) return false;
        losses += 1;
        if (losses === 3) late.open();
        return losses <= 4;
      },
    });
    const attached = [
      ledger(async (number) => {
        isAway = true;
        if (number === 2) await late.opened;
      }),
    ];
    expect(await drain(bus.db, attached)).toMatchObject({ delivered: 2, failed: 0 });
    expect(await attemptsOf(bus)).toEqual(delivered(2));
  });

  test('to a settlement that left a long handler behind records what becomes of its key', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'slow' });
    await emitPayments(bus.db, 3, 3, { orderingKey: await besides(bus, 'slow') });
    const held = gate();
    let losses = 0;
    loseAnswers({ after: (...answered) => hasSettled(...answered) && (losses += 1) === 1 });
    const relaying = drain(bus.db, [ledger((number) => (number === 1 ? held.opened : undefined))]);
    await expect.poll(() => losses > 1).toBe(true);
    held.open();
    expect(await relaying).toMatchObject({ failed: 0, leasesLost: 0 });
    expect(handed.toSorted((one, other) => one - other)).toEqual([1, 2, 3]);
    expect(handed.indexOf(1)).toBeLessThan(handed.indexOf(2));
    expect(await attemptsOf(bus)).toEqual(delivered(3));
    expect(await leased(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('to a settlement of a part of a lane charges what had failed once', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'fails' });
    await emitPayments(bus.db, 2, 41, { orderingKey: await besides(bus, 'fails') });
    let losses = 0;
    loseAnswers({ after: (...answered) => losses === 0 && hasSettled(...answered) && (losses += 1) === 1 });
    await drain(bus.db, [
      ledger(async (number) => {
        if (number === 1) throw new Error('down');
        await sleep(25);
      }),
    ]);
    expect(losses).toBe(1);
    const deliveries = await deliveriesOf(bus.db, 'ledger');
    const failing = deliveries.find(({ state }) => state === 'failing')!;
    expect(failing.attempts).toBe(1);
    expect(failing.log).toHaveLength(1);
    const due = await dueTimesOf(bus.db, 'ledger');
    expect(due.map(({ at }) => at)).toEqual([failing.nextAttemptAt]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test.for([
    ['delivered, when it is one', 1, false],
    ['delivered, when they are many', 20, false],
    ['gave up', 1, true],
  ] as const)(
    'to its settlements leaves to an operator’s replay what it %s',
    async ([, quick, isRefused], { bus, handed, ledger }) => {
      await emitPayments(bus.db, 1, quick + 1);
      const held = gate();
      let losses = 0;
      let isAway = false;
      loseAnswers({
        before: (text) => isAway && isTurn(text),
        after: (...answered) => losses === 0 && hasSettled(...answered) && (isAway = (losses += 1) === 1),
      });
      const attached = [
        ledger((number) => {
          if (number > quick) return held.opened;
          return isRefused && handed.length <= quick ? refuse() : undefined;
        }),
      ];
      const relaying = drain(bus.db, attached);
      await expect.poll(() => isAway).toBe(true);
      const everything = { topic: 'payment.captured', since: '1h', include: 'all' } as const;
      const replayed = await replay(bus.db, everything, 'kari', new Date(START));
      expect(replayed).toMatchObject({ replayed: quick });
      isAway = false;
      held.open();
      expect(await relaying).toMatchObject({ leasesLost: 0 });
      expect(handed).toEqual([...numbers(1, quick + 1), ...numbers(1, quick)]);
      expect((await attemptsOf(bus)).map(([state]) => state)).toEqual(
        numbers(0, quick).map(() => 'delivered'),
      );
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('gives up what it cannot settle when the time of its handlers is over', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    let hasEnded = false;
    loseAnswers({ before: (text) => hasEnded && isTurn(text) });
    const relaying = drain(bus.db, [ledger(async () => void (hasEnded = true), { timeoutMs: 100 })], {
      handlersUntil: Date.now() + 1000,
    });
    await expect(relaying).rejects.toThrow('terminated');
  });

  test('to a statement besides its turns keeps the lanes that it holds', async ({ bus, ledger, output }) => {
    await emitPayments(bus.db, 1, 2);
    const failed = await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'));
    let losses = 0;
    const held = gate();
    loseAnswers({
      before: (text) => {
        if (!text.includes('postbud_release_timers_1') || (losses += 1) > 1) return false;
        held.open();
        return true;
      },
    });
    const slow = subscriber('notifications', { 'payment.failed': () => held.opened });
    await drain(bus.db, [ledger(), slow]);
    expect(losses).toBe(1);
    expect(output.linesOf('a turn of the relay failed; its outcomes are kept and sent again')).toHaveLength(
      1,
    );
    expect(await attemptsOf(bus)).toEqual(delivered(2));
    const told = await deliveriesOf(bus.db, 'notifications');
    expect(told.find(({ eventId }) => eventId === failed.id)).toMatchObject({
      state: 'delivered',
      attempts: 1,
    });
  });
});

describe('a settlement that is repeated, because its answer was lost,', () => {
  const turn = (bus: Bus, attached: AttachedSubscriber, at: number, outcomes: readonly LaneOutcome[] = []) =>
    takeTurn(bus.db, {
      outcomes,
      continued: [],
      behind: null,
      topics: [],
      subscriptions: subscriptionsOf([attached]),
      maxLanes: 10,
      share: null,
      maxDeliveries: 100,
      maxEvents: 100,
      isLooking: true,
      awaited: [],
      clockMs: at,
      now: new Date(at).toISOString(),
    });
  /** The first delivery of a lane, of which an attempt did not deliver. */
  const unfinished = (
    { deliveries: [first] }: ClaimedLane,
    kind: 'failed' | 'waited' | 'dead',
    more: Partial<UnfinishedAttempt> = {},
  ): ExceptionalDelivery => ({
    position: first!.position,
    kind,
    replays: first!.isException ? first!.replays : null,
    attempt: {
      position: first!.position,
      atMs: START,
      durationMs: 1,
      replays: first!.replays,
      isLapse: false,
      outcome: kind === 'waited' ? 'waited' : 'failed',
      nextAttemptAtMs: START + MINUTE,
      kind: 'timeout',
      message: 'no answer',
      answer: null,
      errorGroup: null,
      halts: false,
      isAbsent: null,
      ...more,
    },
  });
  /** The outcome of a lane of which all was delivered that was claimed. */
  const all = (lane: ClaimedLane, more: Partial<LaneOutcome> = {}) =>
    outcomeOf(lane, {
      head: lane.deliveries.at(-1)!.position,
      first: lane.deliveries[0]!.position,
      delivered: lane.deliveries.map(({ position }) => {
        return { position, atMs: START, durationMs: 1, replays: 0, recordedAtMs: START };
      }),
      ...more,
    });
  /** The whole of what became of events. */
  const dump = async (bus: Bus) =>
    await rows(
      bus.db,
      'select journal::text as row from journal union all select exceptions::text from exceptions order by row',
    );

  test.for([
    ['one that it delivered', 1, false],
    ['many that it delivered', 20, false],
    ['the dead letter that it recorded', 1, true],
  ] as const)('leaves alone what was replayed since: %s', async ([, count, isDead], { bus, ledger }) => {
    await emitPayments(bus.db, 1, count);
    await drain(bus.db, []);
    const attached = ledger();
    const [lane] = (await turn(bus, attached, START)).lanes;
    const keepMs = MINUTE;
    const dead = unfinished(lane!, 'dead', {
      nextAttemptAtMs: null,
      errorGroup: errorGroupOf('payment.captured', 'ledger', 'refused', 'no'),
    });
    const outcome = isDead
      ? outcomeOf(lane!, { head: dead.position, exceptional: [dead], keepMs })
      : all(lane!, { keepMs });
    await turn(bus, attached, START, [outcome]);
    const everything = { topic: 'payment.captured', since: '1h', include: 'all' } as const;
    expect(await replay(bus.db, everything, 'kari', new Date(START + SECOND))).toMatchObject({
      replayed: count,
    });
    const before = await dump(bus);
    const { settled } = await turn(bus, attached, START, [outcome]);
    expect(settled!.repeated.has(lane!.lane)).toBe(true);
    expect(await dump(bus)).toEqual(before);
    const last = outcomeOf({ ...lane!, number: lane!.number + 1 }, { head: outcome.head });
    const { lanes } = await turn(bus, attached, START + 2 * SECOND, [last]);
    expect(lanes.flatMap(({ deliveries }) => deliveries.map(({ position }) => position))).toEqual(
      lane!.deliveries.map(({ position }) => position),
    );
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('charges a commit that stayed unanswered once', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const attached = ledger();
    const [lane] = (await turn(bus, attached, START)).lanes;
    const outcome = outcomeOf(lane!, {
      head: lane!.deliveries[0]!.position,
      exceptional: [unfinished(lane!, 'failed')],
      isDoubtful: true,
    });
    expect((await turn(bus, attached, START, [outcome])).settled!.held.size).toBe(1);
    const before = await dump(bus);
    expect((await turn(bus, attached, START, [outcome])).settled!.repeated.size).toBe(1);
    expect(await dump(bus)).toEqual(before);
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'failing', attempts: 1 }]);
  });

  test('leaves a key alone that other relays have handed over since', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'waits' });
    await drain(bus.db, []);
    const attached = ledger();
    const wait = (lane: ClaimedLane, at: number) =>
      outcomeOf(lane, {
        head: lane.deliveries[0]!.position,
        exceptional: [unfinished(lane, 'waited', { atMs: at, nextAttemptAtMs: at + SECOND })],
      });
    const [first] = (await turn(bus, attached, START)).lanes;
    const outcome = wait(first!, START);
    expect((await turn(bus, attached, START, [outcome])).settled!.held.size).toBe(1);
    const [second] = (await turn(bus, attached, START + SECOND)).lanes;
    await turn(bus, attached, START + SECOND, [wait(second!, START + SECOND)]);
    expect((await turn(bus, attached, START + 2 * SECOND)).lanes).toHaveLength(1);
    const before = await dump(bus);
    const { settled, lanes } = await turn(bus, attached, START + 2 * SECOND, [outcome]);
    expect([settled!.held.size, lanes]).toEqual([0, []]);
    expect(await dump(bus)).toEqual(before);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('charges an attempt that found nobody once, and opens no outage', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const attached = ledger(undefined, { outage: 'wait' });
    const [lane] = (await turn(bus, attached, START)).lanes;
    const outcome = outcomeOf(lane!, {
      head: lane!.deliveries[0]!.position,
      exceptional: [unfinished(lane!, 'failed', { isAbsent: true })],
      keepMs: MINUTE,
    });
    for (let time = 1; time <= 3; time += 1) await turn(bus, attached, START, [outcome]);
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'failing', attempts: 1 }]);
    expect(await rows(bus.db, 'select from outages')).toEqual([]);
  });

  test('ends no outage that began since', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, []);
    const attached = ledger(undefined, { outage: 'wait' });
    const [lane] = (await turn(bus, attached, START)).lanes;
    const outcome = all(lane!, { keepMs: MINUTE });
    await turn(bus, attached, START, [outcome]);
    await rows(
      bus.db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
       values ('ledger', 'timeout', 'no answer', now(), now())`,
    );
    await turn(bus, attached, START, [outcome]);
    expect(await rows(bus.db, 'select from outages')).toHaveLength(1);
  });
});

describe('a commit of transactional handlers that is not answered', () => {
  test.beforeAll(async ({ database }) => {
    await rows(database.db, 'create table effects (number int not null)');
  });

  /** Emits a failure for each payment, in the transaction. */
  const emitting = (options: { readonly sharesCommits?: boolean } = {}) =>
    subscriber(
      'ledger',
      {
        'payment.captured': async ({ payload }, { tx }) => {
          const reason = String(payload.amountMinor);
          await emit(tx, 'payment.failed', payloadOf('payment.failed', { reason }));
        },
      },
      { ...options, transactional: true },
    );
  const batching = subscriber(
    'ledger',
    {
      'payment.captured': async (events, { tx }) => {
        for (const { payload } of events) {
          const reason = String(payload.amountMinor);
          await emit(tx, 'payment.failed', payloadOf('payment.failed', { reason }));
        }
      },
    },
    { transactional: true, batch: true },
  );
  const effects = async (bus: Bus) =>
    (
      await rows<{ reason: string }>(
        bus.db,
        `select payload ->> 'reason' as reason from events where topic = 'payment.failed' order by created_at, seq`,
      )
    ).map(({ reason }) => Number(reason));

  test.for(
    (['before', 'after'] as const).flatMap((how) =>
      ([['commit'], ['postbud_settle_alone']] as const).flatMap(([what]) =>
        [
          { by: 'alone', attached: emitting({ sharesCommits: false }) },
          { by: 'together', attached: emitting() },
          { by: 'in a batch', attached: batching },
        ].map((more) => ({ how, what, ...more })),
      ),
    ),
  )('charges nobody who had returned: $what, lost $how it took effect, $by', async (given, { bus }) => {
    const { how, what, attached } = given;
    await emitPayments(bus.db, 1, 3);
    let losses = 0;
    // Statements that have a commit wait for the disk name it too.
    const isMeant = (text: string) => (what === 'commit' ? text === what : text.includes(what));
    loseAnswers({ [how]: (text: string) => isMeant(text) && (losses += 1) === 1 });
    await drain(bus.db, [attached]);
    expect(losses).toBeGreaterThan(0);
    expect(await effects(bus)).toEqual([1, 2, 3]);
    expect(await attemptsOf(bus)).toEqual(delivered(3));
    expect(await leased(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is charged at its third time in a row, so that what ends the database at its commit comes to an end', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2);
    let losses = 0;
    loseAnswers({ before: (text) => text === 'commit' && (losses += 1) <= 3 });
    await drain(bus.db, [emitting({ sharesCommits: false })]);
    expect((await attemptsOf(bus)).map(([state, attempts]) => `${state} ${attempts}`)).toEqual([
      'failing 1',
      'pending 0',
    ]);
    await drain(bus.db, [emitting({ sharesCommits: false })], { now: START + MINUTE });
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
