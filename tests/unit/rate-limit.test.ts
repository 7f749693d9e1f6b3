import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { startRedisRest } from '../../dev/stand-ins/redis-rest.ts';
import type { RedisRest } from '../../dev/stand-ins/redis-rest.ts';
import { rateLimitHeaders, requireAllowed, takeBudget } from '../../lib/rate-limit/answers.ts';
import { createLimiter } from '../../lib/rate-limit/create-limiter.ts';
import type { Count, Limiter } from '../../lib/rate-limit/limiter.ts';
import { MemoryLimiter } from '../../lib/rate-limit/memory.ts';
import { RedisLimiter } from '../../lib/rate-limit/redis.ts';
import { createVisitors, networkOf } from '../../lib/rate-limit/visitors.ts';
import { DAY, MINUTE, SECOND } from '../../lib/time.ts';
import { redisServerPath, startRedis } from '../support/redis.ts';
import type { RedisServer } from '../support/redis.ts';

const NOON = Date.UTC(2026, 10, 21, 12);
const minute = { name: 'chat-min', limit: 3, windowMs: MINUTE };
const day = { name: 'chat-day', limit: 5, windowMs: DAY };

/** What every limiter does, whatever it counts in. */
function conforms(create: () => Limiter): void {
  let limiter: Limiter;
  let key: string;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOON });
    limiter = create();
    // Some of the counters outlive a test.
    key = crypto.randomUUID();
  });
  afterEach(() => void vi.useRealTimers());

  const allowed = async (limits = [minute], of = key) => (await limiter.take(of, limits)).isAllowed;

  test('counts down to the limit and refuses the next call', async () => {
    const counts = [];
    for (let call = 1; call <= 5; call++) counts.push((await limiter.take(key, [minute])).counts[0]);
    expect(counts).toEqual(
      [2, 1, 0, 0, 0].map((remaining, index) => ({
        limit: minute,
        isRefused: index >= 3,
        remaining,
        resetsInMs: MINUTE,
      })),
    );
  });

  test('lets calls through again when the window ends, and not a millisecond sooner', async () => {
    for (let call = 1; call <= 3; call++) expect(await allowed()).toBe(true);
    vi.setSystemTime(NOON + MINUTE - 1);
    expect((await limiter.take(key, [minute])).counts).toEqual([
      { limit: minute, isRefused: true, remaining: 0, resetsInMs: 1 },
    ]);
    vi.setSystemTime(NOON + MINUTE);
    expect((await limiter.take(key, [minute])).counts).toEqual([
      { limit: minute, isRefused: false, remaining: 2, resetsInMs: MINUTE },
    ]);
  });

  test('says how long the window still lasts', async () => {
    vi.setSystemTime(NOON + 18 * SECOND + 250);
    expect((await limiter.take(key, [minute, day])).counts).toMatchObject([
      { resetsInMs: 41_750 },
      { resetsInMs: DAY / 2 - 18_250 },
    ]);
  });

  test('counts against several limits at once, and tells of each', async () => {
    await limiter.take(key, [minute, day]);
    const { isAllowed, counts } = await limiter.take(key, [minute, day]);
    expect(isAllowed).toBe(true);
    expect(counts).toMatchObject([
      { limit: minute, remaining: 1 },
      { limit: day, remaining: 3 },
    ]);
  });

  test('does not count against a longer limit what a shorter one refused', async () => {
    for (let call = 1; call <= 20; call++) await limiter.take(key, [minute, day]);
    expect((await limiter.take(key, [minute, day])).counts).toMatchObject([
      { limit: minute, isRefused: true },
    ]);
    vi.setSystemTime(NOON + MINUTE);
    expect(await allowed([minute, day])).toBe(true);
    expect(await allowed([minute, day])).toBe(true);
    const { isAllowed, counts } = await limiter.take(key, [minute, day]);
    expect(isAllowed).toBe(false);
    expect(counts).toMatchObject([
      { limit: minute, isRefused: false },
      { limit: day, isRefused: true, remaining: 0 },
    ]);
  });

  test('counts each key for itself', async () => {
    for (let call = 1; call <= 4; call++) await limiter.take(key, [minute]);
    expect(await allowed()).toBe(false);
    expect(await allowed([minute], `${key}-other`)).toBe(true);
  });

  test('counts limits of different names for themselves, of the same window too', async () => {
    for (let call = 1; call <= 4; call++) await limiter.take(key, [minute]);
    expect(await allowed([{ ...minute, name: 'inquiry-min' }])).toBe(true);
  });

  test('lets through as many of the calls made at once as the limit says', async () => {
    const verdicts = await Promise.all(Array.from({ length: 50 }, () => limiter.take(key, [minute])));
    expect(verdicts.filter(({ isAllowed }) => isAllowed)).toHaveLength(3);
    const left = verdicts.filter(({ isAllowed }) => isAllowed).map(({ counts }) => counts[0]!.remaining);
    expect(left.toSorted()).toEqual([0, 1, 2]);
  });

  test.each([' ', 'æøå', 'a:b', 'a/b', '*', '__proto__', 'constructor', 'x'.repeat(500)])(
    'takes the key %j',
    async (odd) => {
      for (let call = 1; call <= 3; call++) expect(await allowed([minute], key + odd)).toBe(true);
      expect(await allowed([minute], key + odd)).toBe(false);
    },
  );

  test('with no limits lets every call through', async () => {
    expect(await limiter.take(key, [])).toEqual({ isAllowed: true, counts: [] });
  });
}

describe('a limiter in memory', () => {
  conforms(() => new MemoryLimiter());

  test('takes its time from the clock that it is given', async () => {
    let now = 59_999;
    const limiter = new MemoryLimiter({ now: () => now });
    expect((await limiter.take('a', [minute])).counts).toMatchObject([{ resetsInMs: 1, remaining: 2 }]);
    now += 1;
    expect((await limiter.take('a', [minute])).counts).toMatchObject([{ resetsInMs: MINUTE, remaining: 2 }]);
  });

  test('is what there is without Redis', () => {
    expect(createLimiter(undefined)).toBeInstanceOf(MemoryLimiter);
  });

  describe('that keeps three keys', () => {
    const once = { ...minute, limit: 1 };
    const taken = async (limiter: Limiter, key: string) => (await limiter.take(key, [once])).isAllowed;

    test('forgets the one that called longest ago', async () => {
      const limiter = new MemoryLimiter({ keysKept: 3 });
      for (const key of ['a', 'b', 'c']) await taken(limiter, key);
      expect(await taken(limiter, 'a')).toBe(false);
      expect(await taken(limiter, 'd')).toBe(true);
      expect([await taken(limiter, 'a'), await taken(limiter, 'c')]).toEqual([false, false]);
      expect(await taken(limiter, 'b')).toBe(true);
    });

    test('remembers what all have used together, however many call', async () => {
      const limiter = new MemoryLimiter({ keysKept: 3 });
      await takeBudget(limiter, 'budget', 1);
      for (let visitor = 0; visitor < 100; visitor++) await taken(limiter, `${visitor}`);
      await expect(takeBudget(limiter, 'budget', 1)).rejects.toMatchObject({ status: 429 });
    });
  });
});

if (!redisServerPath)
  process.stderr.write('skipped: the limiter in Redis; there is no redis-server on the PATH\n');

describe.skipIf(!redisServerPath)('a limiter in Redis', () => {
  let server: RedisServer;
  let rest: RedisRest;
  const fallback: Limiter = { take: () => Promise.reject(new Error('Redis is there')) };

  beforeAll(async () => {
    server = await startRedis();
    rest = await startRedisRest(server.port);
  });
  afterAll(async () => {
    await rest.stop();
    await server.stop();
  });

  conforms(() => new RedisLimiter({ ...rest, fallback }));

  test('counts together with the limiters of other instances', async () => {
    const limiters = [1, 2].map(() => new RedisLimiter({ ...rest, fallback }));
    const key = crypto.randomUUID();
    const verdicts = await Promise.all(
      Array.from({ length: 20 }, (_, call) => limiters[call % 2]!.take(key, [day])),
    );
    expect(verdicts.filter(({ isAllowed }) => isAllowed)).toHaveLength(5);
  });

  test('is what there is with Redis', async () => {
    const before = rest.commands.length;
    expect((await createLimiter(rest).take('a', [minute])).counts).toMatchObject([{ remaining: 2 }]);
    expect(rest.commands.length).toBeGreaterThan(before);
  });

  test('leaves nothing in Redis for longer than its window', async () => {
    const key = crypto.randomUUID();
    await new RedisLimiter({ ...rest, fallback }).take(key, [minute]);
    const sent = rest.commands.findLast(([verb]) => String(verb).startsWith('eval'))!;
    const response = await fetch(rest.url, {
      method: 'POST',
      headers: { authorization: `Bearer ${rest.token}` },
      body: JSON.stringify(['pttl', sent[3]]),
    });
    expect(await response.json()).toEqual({ result: expect.toSatisfy((ms) => ms > 0 && ms <= MINUTE) });
  });
});

describe('the key of a visitor', () => {
  const secret = 'a-token';
  const platform = createVisitors({ isBehindPlatform: true, secret });
  const local = createVisitors({ isBehindPlatform: false, secret });
  const from = (headers: Record<string, string>, ip?: string) =>
    Object.assign(new Request('https://postbud.example/a', { headers }), ip && { ip });
  const keyAt = (address: string) => platform.keyOf(from({ 'x-forwarded-for': address }));

  test('says nothing of the address, and is one only with the secret', () => {
    const key = keyAt('192.0.2.7');
    expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const other = createVisitors({ isBehindPlatform: true, secret: 'another-token' });
    expect(other.keyOf(from({ 'x-forwarded-for': '192.0.2.7' }))).not.toBe(key);
  });

  test('is the same on every instance with the same secret', () => {
    const again = createVisitors({ isBehindPlatform: true, secret });
    expect(again.keyOf(from({ 'x-forwarded-for': '192.0.2.7' }))).toBe(keyAt('192.0.2.7'));
  });

  test('is another in every process that has no secret', () => {
    const [one, other] = [1, 2].map(() => createVisitors({ isBehindPlatform: false }));
    expect(one!.keyOf(from({}))).not.toBe(other!.keyOf(from({})));
    expect(one!.keyOf(from({}))).toBe(one!.keyOf(from({})));
  });

  test('is that of the first address that the platform forwards', () => {
    expect(keyAt('192.0.2.7, 198.51.100.1')).toBe(keyAt('192.0.2.7'));
    expect(keyAt('198.51.100.1, 192.0.2.7')).not.toBe(keyAt('192.0.2.7'));
  });

  test('is that of x-real-ip where nothing else is forwarded', () => {
    expect(platform.keyOf(from({ 'x-real-ip': '192.0.2.7' }))).toBe(keyAt('192.0.2.7'));
    expect(platform.keyOf(from({ 'x-real-ip': '198.51.100.1', 'x-forwarded-for': '192.0.2.7' }))).toBe(
      keyAt('192.0.2.7'),
    );
  });

  test.each(['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip', 'x-vercel-forwarded-for'])(
    'does not listen to %s where no platform writes it',
    (header) => {
      const spoofed = { [header]: '198.51.100.1' };
      expect(local.keyOf(from(spoofed))).toBe(local.keyOf(from({})));
      expect(local.keyOf(from(spoofed, '192.0.2.7'))).toBe(local.keyOf(from({}, '192.0.2.7')));
    },
  );

  test('is that of the socket in the local server, and one for all where it is not known', () => {
    expect(local.keyOf(from({}, '192.0.2.7'))).not.toBe(local.keyOf(from({}, '192.0.2.8')));
    expect(local.keyOf(from({}))).toBe(local.keyOf(from({}, 'unix:/run/postbud.sock')));
  });
});

describe('the network of an address', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['1::8', '1:0:0:0::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:c000:207', '192.0.2.7'],
    ['0:0:0:0:0:ffff:192.0.2.7', '192.0.2.7'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['::ffff:0:192.0.2.7', '0:0:0:0::/64'],
    ['', 'local'],
    ['unknown', 'local'],
    ['192.0.2.7:4711', 'local'],
    ['[2001:db8::1]:4711', 'local'],
    ['192.0.2', 'local'],
    ['1::2::3', 'local'],
  ])('of %j is %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

describe('the headers of a limited answer', () => {
  const limits = [
    { name: 'chat-min', limit: 20, windowMs: MINUTE },
    { name: 'chat-day', limit: 300, windowMs: DAY },
  ];
  const count = (index: number, remaining: number, resetsInMs: number, isRefused = false): Count => ({
    limit: limits[index]!,
    remaining,
    resetsInMs,
    isRefused,
  });
  const headersOf = (...counts: Count[]) => rateLimitHeaders(limits, { isAllowed: true, counts });

  test('name every limit, and what is left of the most pressing one', () => {
    expect(headersOf(count(0, 19, 42_000), count(1, 299, 4711_000))).toEqual({
      'ratelimit-policy': '"chat-min";q=20;w=60, "chat-day";q=300;w=86400',
      ratelimit: '"chat-min";r=19;t=42',
    });
  });

  test.each([
    ['the one with fewer calls left', [count(0, 19, 42_000), count(1, 3, 5000)], '"chat-day";r=3;t=5'],
    ['of two alike the longer one', [count(0, 3, 42_000), count(1, 3, 50_000)], '"chat-day";r=3;t=50'],
    ['the one that refused', [count(0, 0, 99_000), count(1, 0, 50_000, true)], '"chat-day";r=0;t=50'],
  ])('take for most pressing %s', (_, counts, ratelimit) => {
    expect(headersOf(...counts).ratelimit).toBe(ratelimit);
  });

  test.each([
    [1, 1],
    [999, 1],
    [1000, 1],
    [1001, 2],
    [59_001, 60],
  ])('round %d ms up to %d seconds, in Retry-After too', (resetsInMs, seconds) => {
    const verdict = { isAllowed: false, counts: [count(0, 0, resetsInMs, true)] };
    expect(rateLimitHeaders(limits, verdict).ratelimit).toBe(`"chat-min";r=0;t=${seconds}`);
    expect(() => requireAllowed(limits, verdict)).toThrow(
      expect.objectContaining({
        status: 429,
        code: 'rate_limited',
        headers: expect.objectContaining({ 'retry-after': `${seconds}` }),
      }),
    );
  });
});

describe('the budget of a day', () => {
  test('is one for all, refuses what is over it until midnight UTC, and then starts anew', async () => {
    let now = NOON + 0.5;
    const limiter = new MemoryLimiter({ now: () => now });
    for (let call = 1; call <= 2; call++) await takeBudget(limiter, 'chat-budget', 2);
    await expect(takeBudget(limiter, 'chat-budget', 2)).rejects.toMatchObject({
      status: 429,
      code: 'rate_limited',
      headers: {
        'retry-after': '43200',
        'ratelimit-policy': '"chat-budget";q=2;w=86400',
        ratelimit: '"chat-budget";r=0;t=43200',
      },
    });
    now = NOON + DAY / 2;
    await expect(takeBudget(limiter, 'chat-budget', 2)).resolves.toBeUndefined();
  });
});
