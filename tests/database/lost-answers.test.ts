import { describe, expect } from 'vitest';

import type { ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { settlementValues } from '../../lib/bus/deliveries/settle.ts';
import type { LaneOutcome, UnfinishedAttempt } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
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
import { deliveriesOf, deliveryIdsOf, leasedLanes, dueTimesOf } from '../support/records.ts';
import { changeDeliveries } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { outcomeOf } from '../support/lane.ts';
import { refuse } from '../support/ledger.ts';
import { loseAnswers } from '../support/lost-answers.ts';

const attemptsOf = async (bus: Bus, name = 'ledger') =>
  (await deliveriesOf(bus.db, name)).map(({ state, attempts, log }) => [state, attempts, log]);
const leased = (bus: Bus) => leasedLanes(bus.db);
const delivered = (count: number) => Array.from({ length: count }, () => ['delivered', 1, null]);

interface FoundTurn {
  readonly claimed: object | null;
  readonly settled: object | null;
}
const isTurn = (text: string) => /postbud_turn_\d/.test(text);
/** Whether a turn did so, by its answer. */
const hasDone =
  (did: keyof FoundTurn) =>
  (text: string, [row]: readonly unknown[]) =>
    isTurn(text) && (row as { answer: FoundTurn }).answer[did] !== null;
const hasClaimed = hasDone('claimed');
const hasSettled = hasDone('settled');

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
      before: (text) => stop.signal.aborted && !isBack && /lanes|postbud_turn/.test(text),
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

  test('to a settlement that moved a key to a lane of its own records what becomes of the key', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'slow' });
    await emitPayments(bus.db, 3, 3, { orderingKey: 'quick' });
    const held = gate();
    let losses = 0;
    const isMoved = async () => losses === 1 && (await dueTimesOf(bus.db)).some(({ key }) => key !== '');
    // The shared lane is let go, and the slow key has one of its own.
    loseAnswers({
      after: (text, found) => {
        if (losses > 0 || !hasSettled(text, found)) return false;
        const { settled } = (found[0] as { answer: { settled: { leftFor: unknown } } }).answer;
        return settled.leftFor !== null && (losses += 1) === 1;
      },
    });
    const relaying = drain(bus.db, [ledger((number) => (number === 1 ? held.opened : undefined))]);
    await expect.poll(isMoved).toBe(true);
    held.open();
    expect(await relaying).toMatchObject({ failed: 0, leasesLost: 0 });
    expect(handed.toSorted((one, other) => one - other)).toEqual([1, 2, 3]);
    expect(await attemptsOf(bus)).toEqual(delivered(3));
    expect(await leased(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('to a settlement of a part of a lane charges what had failed once', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'fails' });
    await emitPayments(bus.db, 2, 41, { orderingKey: await besides(bus, 'fails') });
    let losses = 0;
    loseAnswers({
      after: (text, found) => {
        if (losses > 0 || !hasSettled(text, found)) return false;
        const { settled } = (found[0] as { answer: { settled: { failed: number } } }).answer;
        return settled.failed === 1 && (losses += 1) === 1;
      },
    });
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
    const due = (await dueTimesOf(bus.db)).filter(({ key }) => key !== '');
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
        if (!text.includes('postbud_tidy_1') || (losses += 1) > 1) return false;
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
      subscriptions: subscriptionsOf([attached]),
      maxLanes: 10,
      maxDeliveries: 100,
      maxFannedOut: 100,
      isLooking: true,
      awaited: [],
      now: new Date(at).toISOString(),
    });
  const failed = (position: number, atMs: number, more: Partial<UnfinishedAttempt>): UnfinishedAttempt => ({
    position,
    atMs,
    durationMs: 1,
    replays: 0,
    isLapse: false,
    outcome: 'failed',
    nextAttemptAtMs: atMs + MINUTE,
    kind: 'timeout',
    message: 'no answer',
    answer: null,
    errorGroup: null,
    halts: false,
    presence: 'absent',
    isProbe: false,
    ...more,
  });
  const deliveredAll = ({ deliveries }: ClaimedLane) =>
    deliveries.map(({ position }) => {
      return { position, atMs: START, durationMs: 1, replays: 0, recordedAtMs: START };
    });
  /** Makes the outcome of a lane whose head stays, from a lane as it was claimed. */
  const outcomeAt = ({ id, home, token, head }: ClaimedLane, more: Partial<LaneOutcome>) =>
    outcomeOf({ id, token }, { home, from: head, to: head, ...more });

  test.for([1, 20])(
    'records no attempt from before a replay, of %i deliveries, unless its release does not say which those are',
    async (count, { bus, ledger }) => {
      await emitPayments(bus.db, 1, count);
      const attached = ledger();
      await drain(bus.db, [attached]);
      const everything = { topic: 'payment.captured', since: '1h', include: 'all' } as const;
      await replay(bus.db, everything, 'kari', new Date(START));
      const [lane] = (await turn(bus, attached, START)).lanes;
      const outcome = outcomeAt(lane!, { keepUntilMs: 0, delivered: deliveredAll(lane!) });
      const values = settlementValues([outcome]);
      const settle = `select postbud_settle_alone_3($1::postbud_outcome_2[], $2::bigint[], $3::bigint[], $4::text[],
        $5::float8[], $6::int[], $7::jsonb, $8::jsonb) as settled`;
      expect(await rows(bus.db, settle, values)).toEqual([{ settled: 0 }]);
      const [duration] = values[5]!.slice(1, -1).split(',');
      const older = values.with(5, `{${duration}}`);
      expect(await rows(bus.db, settle, older)).toEqual([{ settled: count }]);
    },
  );

  test.for([
    ['one that it delivered, where an event of another topic came before it,', 1, 1, true, false],
    ['the second that it delivered', 2, 1, false, false],
    ['the last of many that it delivered, one after the other,', 20, 19, false, false],
    ['the dead letter that it recorded', 2, 1, false, true],
  ] as const)(
    'leaves the head before what was replayed since: %s',
    async ([, count, replays, isBehindAnother, isDead], { bus, ledger }) => {
      const attached = ledger();
      await emitPayments(bus.db, 1, 1);
      await drain(bus.db, [attached]);
      if (isBehindAnother) await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'));
      await emitPayments(bus.db, 2, count + 1);
      await drain(bus.db, []);
      const [lane] = (await turn(bus, attached, START)).lanes;
      const { newest, deliveries } = lane!;
      const delivered = deliveredAll(lane!).slice(0, isDead ? -1 : count);
      const unfinished = deliveries.slice(delivered.length).map(({ position }) =>
        failed(position, START, {
          nextAttemptAtMs: null,
          errorGroup: errorGroupOf('payment.captured', 'ledger', 'refused', 'no'),
        }),
      );
      const outcome = outcomeAt(lane!, { to: newest, keepUntilMs: START + MINUTE, delivered, unfinished });
      await turn(bus, attached, START, [outcome]);
      const ids = (await deliveryIdsOf(bus.db)).slice(1);
      for (const id of ids.slice(-replays).toReversed())
        await replay(bus.db, { deliveryIds: [id], include: 'all' }, 'kari', new Date(START + SECOND));
      const head = 'select head::int from lanes where lease_token is not null';
      expect(await rows(bus.db, head)).toEqual([{ head: lane!.head }]);
      await turn(bus, attached, START, [outcome]);
      const last = outcomeAt(lane!, { from: newest, to: newest });
      const { lanes } = await turn(bus, attached, START, [last]);
      const claimed = [...lanes, ...(await turn(bus, attached, START)).lanes];
      expect(claimed.flatMap((found) => found.deliveries.map(({ position }) => position))).toEqual(
        deliveries.slice(-replays).map(({ position }) => position),
      );
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('leaves no head of a lane that it lets go before what it has recorded', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await emitAlone(bus.db, 'payment.refunded', payloadOf('payment.refunded'));
    await drain(bus.db, []);
    const attached = subscriber('ledger', {
      'payment.captured': () => undefined,
      'payment.refunded': () => undefined,
    });
    const { lanes } = await turn(bus, attached, START);
    const [captured, refunded] = lanes.toSorted((one, other) => other.newest - one.newest).toReversed();
    const kept = deliveredAll(captured!);
    const outcomes = [
      outcomeAt(captured!, {
        to: captured!.newest,
        keepUntilMs: START + MINUTE,
        // As if the second had been replayed since.
        delivered: kept.with(1, { ...kept[1]!, replays: 1 }),
      }),
      outcomeAt(refunded!, { to: refunded!.newest, delivered: deliveredAll(refunded!) }),
    ];
    const { settled, lanes: claimed } = await turn(bus, attached, START, outcomes);
    expect(settled).toMatchObject({ delivered: 2 });
    expect([...claimed, ...(await turn(bus, attached, START)).lanes]).toEqual([]);
    const known = `select topic, head::int from lanes where subscriber = 'ledger' order by topic`;
    expect(await rows(bus.db, known)).toEqual([
      { topic: 'payment.captured', head: captured!.head },
      { topic: 'payment.refunded', head: refunded!.newest },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('leaves a key alone that other relays have handed over since', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'waits' });
    await emitPayments(bus.db, 2, 2, { orderingKey: await besides(bus, 'waits') });
    await drain(bus.db, []);
    const attached = ledger();
    const waited = (lane: ClaimedLane, atMs: number) => [
      failed(lane.deliveries[0]!.position, atMs, {
        outcome: 'waited',
        nextAttemptAtMs: atMs + SECOND,
        presence: null,
      }),
    ];
    const [shared] = (await turn(bus, attached, START)).lanes;
    const outcome = outcomeAt(shared!, { keepUntilMs: START + MINUTE, unfinished: waited(shared!, START) });
    expect(await turn(bus, attached, START, [outcome])).toMatchObject({ settled: { waited: 1 }, lanes: [] });

    let at = START + SECOND;
    const [second] = (await turn(bus, attached, at)).lanes;
    const again = outcomeAt(second!, { retryAtMs: at + SECOND, unfinished: waited(second!, at) });
    expect(await turn(bus, attached, at, [again])).toMatchObject({ settled: { waited: 1 }, lanes: [] });

    at += SECOND;
    expect((await turn(bus, attached, at)).lanes).toHaveLength(1);
    const known = `select deliveries::text as row from deliveries
      union all select lanes::text from lanes where home_id is not null order by row`;
    const before = await rows(bus.db, known);
    expect(await turn(bus, attached, at, [outcome])).toMatchObject({ settled: { waited: 0 }, lanes: [] });
    expect((await turn(bus, attached, at)).lanes).toEqual([]);
    expect(await rows(bus.db, known)).toEqual(before);
    // An erasure has rewritten the log meanwhile, so that it records the wait once more.
    await changeDeliveries(bus.db, `attempt_log = replace(attempt_log::text, 'no answer', 'erased')::jsonb`);
    expect(await turn(bus, attached, at, [outcome])).toMatchObject({ settled: { waited: 1 }, lanes: [] });
    expect((await turn(bus, attached, at)).lanes).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('counts an absence once', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const attached = ledger(undefined, { outage: 'wait' });
    const [lane] = (await turn(bus, attached, START)).lanes;
    const unfinished = [failed(lane!.deliveries[0]!.position, START, {})];
    const outcome = outcomeAt(lane!, { keepUntilMs: START + MINUTE, waits: true, unfinished });
    for (let time = 1; time <= 3; time += 1) await turn(bus, attached, START, [outcome]);
    expect(await rows(bus.db, 'select failures from absences')).toEqual([{ failures: 1 }]);
    expect(await rows(bus.db, 'select from outages')).toEqual([]);
  });

  test.for([1, 20])(
    'ends no outage that began since, when it delivered %i',
    async (count, { bus, ledger }) => {
      await emitPayments(bus.db, 1, count);
      await emitPayments(bus.db, count + 1, count + 1, { orderingKey: 'a key' });
      await drain(bus.db, []);
      const attached = ledger(undefined, { outage: 'wait' });
      const { lanes } = await turn(bus, attached, START);
      const ofTopic = lanes.find(({ isShared }) => !isShared)!;
      const ofKeys = lanes.find(({ isShared }) => isShared)!;
      const kept = { keepUntilMs: START + MINUTE, waits: true };
      const outcome = outcomeAt(ofTopic, { ...kept, delivered: deliveredAll(ofTopic) });
      await turn(bus, attached, START, [outcome]);
      const unfinished = [failed(ofKeys.deliveries[0]!.position, START, {})];
      await turn(bus, attached, START, [outcomeAt(ofKeys, { ...kept, unfinished })]);
      await turn(bus, attached, START, [outcome]);
      expect(await rows(bus.db, 'select failures from absences')).toEqual([{ failures: 1 }]);
    },
  );
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
