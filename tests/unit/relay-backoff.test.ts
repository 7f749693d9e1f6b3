import { describe, expect, it } from 'vitest';

import { waitAfter } from '../../lib/bus/subscribers/backoff.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';

describe('the wait after a failed attempt', () => {
  it('is 1 minute, 5 minutes, 30 minutes, 6 hours, and then there is none', () => {
    expect([1, 2, 3, 4, 5].map((attempt) => waitAfter(attempt, 5))).toEqual([
      MINUTE,
      5 * MINUTE,
      30 * MINUTE,
      6 * HOUR,
      null,
    ]);
  });

  it('is a day after the fifth of six', () => {
    expect(waitAfter(5, 6)).toBe(DAY);
    expect(waitAfter(6, 6)).toBeNull();
  });

  it('is none once more attempts were made than are allowed now', () => {
    expect(waitAfter(4, 2)).toBeNull();
  });
});

describe('RetryAfter', () => {
  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('refuses to wait %d ms', (ms) => {
    expect(() => new RetryAfter(ms)).toThrow(RangeError);
  });
});

describe('an attached subscriber', () => {
  const handlers = { 'payment.captured': () => undefined };

  it.each([
    { timeoutMs: 0 },
    { timeoutMs: 60 * SECOND + 1 },
    { maxAttempts: 0 },
    { maxAttempts: 7 },
    { maxAttempts: 1.5 },
  ])('refuses %o', (options) => {
    expect(() => subscriber('ledger', handlers, options)).toThrow(TypeError);
  });

  it('refuses a topic that the catalog does not list it for', () => {
    // @ts-expect-error: the compiler refuses it too
    expect(() => subscriber('audit', handlers)).toThrow('audit is not a subscriber of payment.captured');
  });
});
