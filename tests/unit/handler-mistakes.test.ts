import { describe, expect, test, vi } from 'vitest';

import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';

const TOPIC = 'payment.captured';

/** Attaches a handler as JavaScript does, which has no types. */
const attached = (handler: unknown, options: object = {}) =>
  subscriber('ledger', { [TOPIC]: handler as () => void }, options as SubscriberOptions);

const warnings = () => {
  const lines: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((line) => lines.push(String(line)) > 0);
  return () =>
    lines
      .map((line) => JSON.parse(line) as { level: string; message: string })
      .filter(({ level }) => level === 'warn');
};

/** Calls a handler twice, as the relay does for two events. */
async function called(handler: unknown, options: object = {}) {
  const found = warnings();
  const handle = attached(handler, options).handlers.get(TOPIC)!;
  const outcomes: unknown[] = [];
  for (let time = 1; time <= 2; time += 1) {
    try {
      outcomes.push(await handle({} as never, {} as never));
    } catch (error) {
      outcomes.push(error);
    }
  }
  return { outcomes, warned: found() };
}

describe('a handler that means something else than it says', () => {
  test.for<[what: string, handler: () => unknown, message: string]>([
    [
      'an object',
      () => ({ ok: false }),
      'a handler returned an object, which says nothing: its event is delivered',
    ],
    ['a promise of one', async () => await Promise.resolve({ ok: false }), 'a handler returned an object'],
    ['false', () => false, 'a handler returned a boolean'],
    ['null', () => null, 'a handler returned null'],
    [
      'an array of promises',
      () => [Promise.resolve()],
      'a handler returned an array of promises: return await Promise.all(…)',
    ],
  ])('it is named once when it returns %s, and its event is delivered', async ([, handler, message]) => {
    expect(await called(handler)).toEqual({
      outcomes: [undefined, undefined],
      warned: [
        expect.objectContaining({
          message: expect.stringContaining(message) as string,
          subscriber: 'ledger',
          topic: TOPIC,
        }),
      ],
    });
  });

  test.for<[what: string, handler: () => unknown]>([
    ['at once', () => [Promise.resolve(), Promise.reject(new Error('one of them'))]],
    ['later', async () => await Promise.resolve([Promise.reject(new Error('one of them'))])],
  ])(
    'an array of promises that it returns %s fails with the first of them that does',
    async ([, handler]) => {
      const { outcomes } = await called(handler);
      expect(outcomes).toEqual([new Error('one of them'), new Error('one of them')]);
    },
  );

  test('it is named once when it is synchronous and runs beyond its limit', async () => {
    const busy = () => {
      const until = performance.now() + 120;
      while (performance.now() < until);
    };
    const { warned } = await called(busy, { timeoutMs: 100 });
    expect(warned).toMatchObject([
      {
        message: expect.stringMatching(
          /^a handler that returns no promise took \d+ ms, and its limit is 100 ms/,
        ) as string,
        topic: TOPIC,
      },
    ]);
  });

  test('it is named once when it writes seconds for the milliseconds of RetryAfter', async () => {
    const { outcomes, warned } = await called(() => {
      throw new RetryAfter(60);
    });
    expect(outcomes).toEqual([expect.any(RetryAfter), expect.any(RetryAfter)]);
    expect(warned).toMatchObject([
      { message: expect.stringContaining('write new RetryAfter(60_000)') as string },
    ]);
  });

  test('one that returns nothing, or the count of a batch, is not named', async () => {
    expect((await called(() => {})).warned).toEqual([]);
    expect((await called(async () => await Promise.resolve(1), { batch: true })).warned).toEqual([]);
    expect(
      (
        await called(() => {
          throw new RetryAfter(60_000);
        })
      ).warned,
    ).toEqual([]);
  });
});

test('a subscriber whose limit may be in seconds is named at the start', () => {
  const found = warnings();
  attached(() => {}, { timeoutMs: 30 });
  attached(() => {}, { timeoutMs: 30_000 });
  expect(found()).toMatchObject([
    { message: expect.stringContaining('write timeoutMs: 30_000') as string, subscriber: 'ledger' },
  ]);
});

test.for<[options: object, message: string]>([
  [
    { timeoutMs: '30000' },
    "expected a timeoutMs of 1 to 60000, which fits into the life of a function, not '30000'",
  ],
  [{ timeoutMs: Number.NaN }, 'not NaN'],
  [{ timeoutMs: Infinity }, 'not Infinity'],
  [{ timeoutMs: -1 }, 'not -1'],
  [{ timeout: 30_000 }, 'unknown option timeout: did you mean timeoutMs?'],
  [{ retries: 3 }, 'unknown option retries: the options are timeoutMs,'],
  [{ batch: 10 }, 'expected batch: true or false, not 10'],
  [{ transactional: 'yes' }, "expected transactional: true or false, not 'yes'"],
  [{ maxAttempts: 1.5 }, 'expected a maxAttempts of 1 to 6, not 1.5'],
])('a subscriber with the options %j is refused at the start', ([options, message]) => {
  expect(() => attached(() => {}, options)).toThrow(message);
});

test.for([[null], [{}], ['handle'], [Promise.resolve()]])(
  'the handler %j is refused at the start',
  ([handler]) => {
    expect(() => attached(handler)).toThrow(
      'ledger: expected a function for payment.captured, such as async (event) =>',
    );
  },
);

test.for([[Number.NaN], [-1], [Infinity], ['60'], [undefined]])(
  'new RetryAfter(%j) is refused with the right call',
  ([ms]) => {
    expect(() => new RetryAfter(ms as number)).toThrow('For a minute: new RetryAfter(60_000)');
  },
);
