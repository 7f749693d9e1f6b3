import { describe, expect, vi } from 'vitest';

import { endOutages } from '../../lib/bus/deliveries/end-outages.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { Bell } from '../../lib/bus/relay/bell.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { outageDuty, perform } from '../../lib/edge/cron/duties.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  START,
  contradictions,
  drain,
  emitPayments,
  numbers,
  payment,
  payloadOf,
  rows,
} from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import { randomFrom } from '../support/random.ts';

// Watched, and run as it is.
vi.mock('../../lib/bus/deliveries/end-outages.ts', { spy: true });

const WAIT = { outage: 'wait' } as const;

/** Fails as a component elsewhere does that is not there. */
class Nobody extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`nobody is there: ${code}`);
    this.code = code;
  }
}

const absent = (code = 'unreachable') => {
  throw new Nobody(code);
};

const outages = (db: Database) =>
  rows<{ subscriber: string; kind: string; probes: number }>(
    db,
    'select subscriber, kind, probes from outages where recovered_at is null',
  );

/** Emits a payment for each of so many ordering keys. */
async function emitKeys(db: Database, from: number, to: number, keyOf: (number: number) => string) {
  await db.transaction(async (tx) => {
    for (let number = from; number <= to; number += 1)
      await emit(tx, 'payment.captured', payment(number), { orderingKey: keyOf(number) });
  });
}

describe('an outage', () => {
  test.for(['unreachable', 'timeout', 'http_502', 'http_503', 'http_504'])(
    'opens when three keys fail with %s',
    async (kind, { bus, ledger }) => {
      await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
      await drain(bus.db, [ledger(() => absent(kind), WAIT)]);
      expect(await outages(bus.db)).toEqual([{ subscriber: 'ledger', kind, probes: 0 }]);
    },
  );

  test('opens when one lane fails three times', async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 2);
    const attached = ledger(() => absent(), WAIT);
    await drain(bus.db, [attached]);
    await drain(bus.db, [attached], { now: START + 2 * MINUTE });
    expect(await outages(bus.db)).toEqual([]);
    await drain(bus.db, [attached], { now: START + 10 * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
  });

  test.for([
    [
      'a permanent error',
      () => {
        throw new PermanentError('no');
      },
    ],
    ['an error of the content', () => absent('http_500')],
    ['different errors', (number: number) => absent(['unreachable', 'timeout', 'http_502'][number % 3])],
  ] as const)('is not opened by %s', async ([, handle], { bus, ledger }) => {
    await emitKeys(bus.db, 0, 2, (number) => `booking ${number}`);
    await drain(bus.db, [ledger(handle, WAIT)]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is not opened while the subscriber answers others between', async ({ bus, ledger }) => {
    const attached = ledger((number) => number % 2 === 0 && absent(), WAIT);
    for (let number = 1; number <= 10; number += 1) {
      await emitKeys(bus.db, number, number, () => `booking ${number}`);
      await drain(bus.db, [attached]);
    }
    expect(await outages(bus.db)).toEqual([]);
  });

  test('is not opened where the subscription does not wait', async ({ bus, ledger }) => {
    await emitKeys(bus.db, 1, 5, (number) => `booking ${number}`);
    await drain(bus.db, [ledger(() => absent())]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('of a thousand keys for twelve hours leaves no dead letter, makes one attempt a probe, and then all follow in order', async ({
    bus,
    handed,
    ledger,
  }) => {
    let isDown = true;
    const attached = ledger(() => isDown && absent(), WAIT);
    await emitKeys(bus.db, 1, 2000, (number) => `booking ${number % 1000}`);
    await drain(bus.db, [attached]);
    expect(await outages(bus.db)).toHaveLength(1);
    // Those that were under way when it opened.
    const first = handed.length;
    expect(first).toBeLessThan(300);

    const probed: number[] = [];
    for (let minute = 1; minute <= 12 * 60; minute += 1) {
      const before = handed.length;
      await drain(bus.db, [attached], { now: START + minute * MINUTE });
      if (handed.length > before) probed.push(minute);
      expect(handed.length - before).toBeLessThanOrEqual(1);
    }
    expect(probed).toEqual(numbers(0, 143).map((count) => 1 + count * 5));
    expect(new Set(await statesOf(bus.db))).toEqual(new Set(['pending']));
    const attempts = (await deliveriesOf(bus.db, 'ledger')).map((one) => one.attempts);
    expect(new Set(attempts)).toEqual(new Set([0]));
    expect(await contradictions(bus.db)).toEqual([]);

    isDown = false;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 721 * MINUTE });
    expect(handed).toHaveLength(2000);
    for (let key = 1; key <= 1000; key += 1) {
      expect(handed.filter((number) => number % 1000 === key % 1000)).toEqual([key, key + 1000]);
    }
    expect(await outages(bus.db)).toEqual([]);
    expect(await rows(bus.db, 'select 1 from outages')).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('holds all topics of the subscriber that wait, and no other subscriber', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
    const down = ledger(() => absent(), WAIT);
    await drain(bus.db, [down]);
    handed.length = 0;
    await emitPayments(bus.db, 4, 6);
    await drain(bus.db, [down]);
    expect(handed).toEqual([]);
    // One that does not wait is handed all that is due, which is what the outage gave back, too.
    await drain(bus.db, [ledger()]);
    expect(handed.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('ends when the probe is refused: somebody is there', async ({ bus, handed, ledger }) => {
    let handle: (number: number) => unknown = () => absent();
    const attached = ledger((number) => handle(number), WAIT);
    await emitKeys(bus.db, 1, 6, (number) => `booking ${number}`);
    await drain(bus.db, [attached]);
    handed.length = 0;
    handle = (number) => number === 1 && absent('http_500');
    await drain(bus.db, [attached], { now: START + MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('retries at once what waits for hours because nobody was there', async ({ bus, handed, ledger }) => {
    let isDown = true;
    const attached = ledger(() => isDown && absent(), WAIT);
    await emitPayments(bus.db, 1, 1);
    for (const after of [0, 1, 6]) await drain(bus.db, [attached], { now: START + after * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    await emitKeys(bus.db, 2, 4, (number) => `booking ${number}`);
    isDown = false;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 7 * MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4]);
  });

  test('is probed again when the relay of a probe died', async ({ bus, handed, ledger }) => {
    await emitKeys(bus.db, 1, 5, (number) => `booking ${number}`);
    const attached = ledger(() => absent(), WAIT);
    await drain(bus.db, [attached]);
    await rows(bus.db, 'update outages set next_probe_at = $1::timestamptz', [
      new Date(START + HOUR).toISOString(),
    ]);
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 59 * MINUTE });
    expect(handed).toEqual([]);
    await drain(bus.db, [attached], { now: START + HOUR });
    expect(handed).toHaveLength(1);
  });

  test('under random failures of any kind loses nothing, keeps each key in order and counts right', async ({
    bus,
  }) => {
    const random = randomFrom(20_261_122);
    for (let round = 0; round < 4; round += 1) {
      await bus.reset();
      const handed = new Map<string, number[]>();
      let health = 1;
      const attached = subscriber(
        'ledger',
        {
          'payment.captured': ({ payload, orderingKey }) => {
            if (random() > health) absent(random() < 0.8 ? 'unreachable' : 'http_500');
            handed.set(orderingKey, [...(handed.get(orderingKey) ?? []), payload.amountMinor]);
          },
        },
        { outage: 'wait', maxAttempts: 6 },
      );
      await emitKeys(bus.db, 1, 200, (number) => `booking ${number % 20}`);
      for (let step = 0; step < 30; step += 1) {
        health = [1, 0.5, 0][Math.floor(random() * 3)]!;
        await drain(bus.db, [attached], { now: START + step * 20 * MINUTE });
        expect(await contradictions(bus.db)).toEqual([]);
      }
      health = 1;
      for (let day = 1; day <= 4; day += 1) await drain(bus.db, [attached], { now: START + day * DAY });
      for (const numbers of handed.values()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      expect(await outages(bus.db)).toEqual([]);
      expect(await contradictions(bus.db)).toEqual([]);
    }
  });
});

describe('what an outage used up before it was known', () => {
  const logOf = async (db: Database) =>
    (await deliveriesOf(db, 'ledger')).map(({ log }) =>
      (log ?? []).map(({ outcome, attempt }) => `${outcome} ${attempt}`),
    );

  test('is given back, and the log keeps the attempts and says so', async ({ bus, ledger }) => {
    const attempts: number[] = [];
    const attached = ledger((_, { attempt }) => (attempts.push(attempt), absent()), WAIT);
    await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
    const { nextRetryAt } = await drain(bus.db, [attached]);
    expect(nextRetryAt).toBe(START + MINUTE);
    for (const { state, attempts: counted, nextAttemptAt, log } of await deliveriesOf(bus.db, 'ledger')) {
      expect([state, counted, nextAttemptAt]).toEqual(['pending', 0, START]);
      expect(log).toMatchObject([
        { outcome: 'failed', attempt: 1, kind: 'unreachable' },
        { outcome: 'returned', by: 'postbud', reason: '1 attempt not counted: ledger was not there' },
      ]);
    }
    expect(await contradictions(bus.db)).toEqual([]);
    expect((await drain(bus.db, [attached], { now: START + MINUTE })).nextRetryAt).toBe(START + 6 * MINUTE);
    await drain(bus.db, [ledger((_, { attempt }) => attempts.push(attempt), WAIT)], { now: START + HOUR });
    expect(new Set(attempts)).toEqual(new Set([1]));
  });

  test('leaves a lane of 87 one minute from its next try after an error of its own, not six hours', async ({
    bus,
    handed,
    ledger,
  }) => {
    let code: string | null = 'unreachable';
    const attached = ledger(() => code !== null && absent(code), WAIT);
    await emitPayments(bus.db, 1, 87);
    for (const after of [0, 1, 6]) await drain(bus.db, [attached], { now: START + after * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    expect((await logOf(bus.db))[0]).toEqual(['failed 1', 'failed 2', 'failed 3', 'returned 0']);
    code = 'http_500';
    await drain(bus.db, [attached], { now: START + 7 * MINUTE });
    expect(await outages(bus.db)).toEqual([]);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
      state: 'failing',
      attempts: 1,
      nextAttemptAt: START + 8 * MINUTE,
    });
    code = null;
    handed.length = 0;
    await drain(bus.db, [attached], { now: START + 8 * MINUTE });
    expect(handed).toEqual(numbers(1, 87));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('does not include what a delivery used up itself', async ({ bus, ledger }) => {
    let code = 'http_500';
    const attached = ledger(() => absent(code), WAIT);
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [attached]);
    code = 'timeout';
    for (const after of [1, 6, 36]) await drain(bus.db, [attached], { now: START + after * MINUTE });
    expect(await outages(bus.db)).toMatchObject([{ kind: 'timeout' }]);
    expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({ state: 'failing', attempts: 1 });
    expect((await logOf(bus.db))[0]).toEqual(['failed 1', 'failed 2', 'failed 3', 'failed 4', 'returned 0']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('does not include the attempts of an event that always runs into its time limit', async ({
    bus,
    ledger,
  }) => {
    let isDown = false;
    const attached = ledger((number) => (number === 1 || isDown) && absent('timeout'), WAIT);
    await emitKeys(bus.db, 1, 2, (number) => `booking ${number}`);
    await drain(bus.db, [attached]);
    await emitKeys(bus.db, 3, 3, (number) => `booking ${number}`);
    await drain(bus.db, [attached], { now: START + 30 * SECOND });
    await drain(bus.db, [attached], { now: START + MINUTE });
    isDown = true;
    await emitKeys(bus.db, 4, 6, (number) => `booking ${number}`);
    await drain(bus.db, [attached], { now: START + 5 * MINUTE });
    expect(await outages(bus.db)).toHaveLength(1);
    // Nobody has answered since its second attempt, which may have been the first one of the outage.
    const failing = (await deliveriesOf(bus.db, 'ledger')).filter(({ state }) => state === 'failing');
    expect(failing).toMatchObject([{ orderingKey: 'booking 1', attempts: 1 }]);
  });

  test('includes attempts that were under way when it opened', async ({ bus, ledger }) => {
    const attached = ledger(async (number) => {
      if (number === 1) await vi.waitFor(async () => expect(await outages(bus.db)).toHaveLength(1));
      absent();
    }, WAIT);
    await emitKeys(bus.db, 1, 4, (number) => `booking ${number}`);
    await drain(bus.db, [attached]);
    expect(await logOf(bus.db)).toEqual(numbers(1, 4).map(() => ['failed 1', 'returned 0']));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is given back by the cron, or at its end, where the relay that opened it could not', async ({
    bus,
    ledger,
    output,
  }) => {
    const attached = ledger(() => absent(), WAIT);
    await emitKeys(bus.db, 1, 3, (number) => `booking ${number}`);
    const broken = vi.spyOn(bus.db, 'transaction').mockRejectedValue(new Error('the connection is gone'));
    await drain(bus.db, [attached]);
    broken.mockRestore();
    expect(output.text()).toContain('what an outage used up was not given back yet');
    expect(await statesOf(bus.db)).toEqual(['failing', 'failing', 'failing']);
    await perform([outageDuty(() => [attached])], bus.db);
    expect(await statesOf(bus.db)).toEqual(['pending', 'pending', 'pending']);
    await perform([outageDuty(() => [attached])], bus.db);
    expect(await logOf(bus.db)).toEqual(numbers(1, 3).map(() => ['failed 1', 'returned 0']));
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('an outage that is over', () => {
  const bookings = subscriber('bookings', { 'payment.captured': () => undefined }, WAIT);
  const known = (db: Database) =>
    rows<{ subscriber: string }>(db, 'select subscriber from outages order by subscriber');
  const attemptsOf = async (db: Database) =>
    (await deliveriesOf(db, 'ledger')).map(({ attempts }) => attempts);
  const end = (db: Database, attached: readonly AttachedSubscriber[], afterMs = MINUTE) =>
    endOutages(db, subscriptionsOf(attached), new Date(START + afterMs).toISOString());

  const emitThree = (db: Database) => emitKeys(db, 1, 3, (number) => `booking ${number}`);

  /** What was emitted fails, and the relay dies before it gives the attempts back. Then another one delivers. */
  async function over(db: Database, ledger: AttachedSubscriber): Promise<void> {
    const dying = vi.spyOn(db, 'transaction').mockRejectedValue(new Error('the relay died'));
    await drain(db, [ledger]);
    dying.mockRestore();
    await rows(db, `update outages set recovered_at = opened_at + interval '1 second'`);
  }

  test('is left to a process that the subscriber is attached to, which gives the attempts back', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    const attached = ledger(() => absent(), WAIT);
    await emitThree(bus.db);
    await over(bus.db, attached);
    expect(await end(bus.db, [bookings])).toBeNull();
    expect(await known(bus.db)).toEqual([{ subscriber: 'ledger' }]);
    expect(await attemptsOf(bus.db)).toEqual([1, 1, 1]);
    await end(bus.db, [bookings, attached]);
    expect(await known(bus.db)).toEqual([]);
    expect(await attemptsOf(bus.db)).toEqual([0, 0, 0]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  /** Drains what is for `bookings`. @returns how many turns that took, and how often it asked for outages to end. */
  const asking = async (db: Database, bell: Bell) => {
    vi.mocked(endOutages).mockClear();
    const { ticks } = await drain(db, [bookings], { bell });
    return { ticks, times: vi.mocked(endOutages).mock.calls.length };
  };

  test('is asked about once a minute by a process that the subscriber is not attached to', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    await emitThree(bus.db);
    await over(
      bus.db,
      ledger(() => absent(), WAIT),
    );
    const bell = new Bell();
    let numbered = 3;
    const asked = async () => {
      numbered += 1;
      await emitPayments(bus.db, numbered, numbered);
      const { ticks, times } = await asking(bus.db, bell);
      expect(ticks).toBeGreaterThan(1);
      return times;
    };
    expect(await asked()).toBe(1);
    expect(await asked()).toBe(0);
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + MINUTE);
    expect(await asked()).toBe(1);
    expect(await known(bus.db)).toEqual([{ subscriber: 'ledger' }]);
    // Once nothing is over, the next one that ends is one to ask about.
    await rows(bus.db, `update outages set recovered_at = null`);
    expect(await asked()).toBe(0);
    await rows(bus.db, `update outages set recovered_at = opened_at, subscriber = 'bookings'`);
    expect(await asked()).toBe(1);
    expect(await known(bus.db)).toEqual([]);
  });

  test('is not asked about anew after a turn that did not look for outages', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    await emitThree(bus.db);
    const attached = ledger(() => absent(), WAIT);
    await over(bus.db, attached);
    const bell = new Bell();
    expect(await asking(bus.db, bell)).toMatchObject({ times: 1 });
    const looks = vi.spyOn(bell.dueLooks, 'take').mockReturnValue(false);
    expect(await asking(bus.db, bell)).toMatchObject({ times: 0 });
    looks.mockRestore();
    await emitPayments(bus.db, 4, 4);
    expect(await asking(bus.db, bell)).toMatchObject({ times: 0 });
  });

  test('is ended at once beside another one that only other processes can end', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    await emitThree(bus.db);
    const attached = ledger(() => absent(), WAIT);
    await over(bus.db, attached);
    const bell = new Bell();
    expect(await asking(bus.db, bell)).toMatchObject({ times: 1 });
    await rows(
      bus.db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at, recovered_at)
       select 'bookings', kind, message, opened_at, next_probe_at, recovered_at + interval '1 second' from outages`,
    );
    await emitPayments(bus.db, 4, 4);
    expect(await asking(bus.db, bell)).toMatchObject({ times: 1 });
    expect(await known(bus.db)).toEqual([{ subscriber: 'ledger' }]);
    await emitPayments(bus.db, 5, 5);
    expect(await asking(bus.db, bell)).toMatchObject({ times: 0 });
  });

  test('gives back the attempts in a topic that only another release attaches', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    const newer = subscriber('ledger', { 'payment.refunded': () => absent() }, WAIT);
    await bus.db.transaction(async (tx) => {
      for (const number of numbers(1, 3))
        await emit(tx, 'payment.refunded', payloadOf('payment.refunded'), {
          orderingKey: `booking ${number}`,
        });
    });
    await over(bus.db, newer);
    expect(await attemptsOf(bus.db)).toEqual([1, 1, 1]);
    await end(bus.db, [ledger(() => absent(), WAIT)]);
    expect(await known(bus.db)).toEqual([]);
    expect(await attemptsOf(bus.db)).toEqual([0, 0, 0]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('ends where the subscriber does not wait in one any more', async ({ bus, ledger, output }) => {
    output.text();
    await emitThree(bus.db);
    await over(
      bus.db,
      ledger(() => absent(), WAIT),
    );
    expect(await end(bus.db, [ledger()], 30 * SECOND)).toBe(3);
    expect(await known(bus.db)).toEqual([]);
  });

  test('is forgotten after a day in which the subscriber was attached to no process', async ({
    bus,
    ledger,
    output,
  }) => {
    output.text();
    await emitThree(bus.db);
    await over(
      bus.db,
      ledger(() => absent(), WAIT),
    );
    await end(bus.db, [bookings], DAY);
    expect(await known(bus.db)).toHaveLength(1);
    await end(bus.db, [bookings], DAY + 2 * SECOND);
    expect(await known(bus.db)).toEqual([]);
  });

  test.for([
    [
      'another one',
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at, recovered_at)
       select 'bookings', kind, message, opened_at, next_probe_at, recovered_at from outages`,
      ['bookings'],
    ],
    [
      'the next one of its subscriber',
      `update outages set opened_at = opened_at + interval '2 ms'`,
      ['ledger'],
    ],
  ] as const)(
    'does not end %s, which began and ended while its attempts were given back',
    async ([, happens, left], { bus, ledger, output }) => {
      output.text();
      const attached = ledger(() => absent(), WAIT);
      await emitThree(bus.db);
      await over(bus.db, attached);
      const transaction = bus.db.transaction.bind(bus.db);
      vi.spyOn(bus.db, 'transaction').mockImplementationOnce(async (...asked) => {
        const result = await transaction(...asked);
        await rows(bus.db, happens);
        return result;
      });
      await end(bus.db, [bookings, attached]);
      expect((await known(bus.db)).map(({ subscriber: name }) => name)).toEqual(left);
      expect(await attemptsOf(bus.db)).toEqual([0, 0, 0]);
      await end(bus.db, [bookings, attached]);
      expect(await known(bus.db)).toEqual([]);
    },
  );
});
