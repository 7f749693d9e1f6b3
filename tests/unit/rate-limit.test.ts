import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { startRedisRest } from '../../dev/stand-ins/redis-rest.ts';
import type { RedisRest } from '../../dev/stand-ins/redis-rest.ts';
import { rateLimitHeaders, requireAllowed } from '../../lib/platform/http/rate-limit.ts';
import { countVisit } from '../../lib/platform/http/visit.ts';
import type { Budget } from '../../lib/platform/http/visit.ts';
import { createLimiter } from '../../lib/platform/rate-limit/create-limiter.ts';
import type { Count, Limit, Limiter } from '../../lib/platform/rate-limit/limiter.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { RedisLimiter } from '../../lib/platform/rate-limit/redis.ts';
import { createVisitors, networksOf } from '../../lib/platform/rate-limit/visitors.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { redisServerPath, startRedis } from '../support/redis.ts';
import type { RedisServer } from '../support/redis.ts';

const NOON = Date.UTC(2026, 10, 21, 12);
const minute = { name: 'chat-min', limit: 3, windowMs: MINUTE };
const day = { name: 'chat-day', limit: 5, windowMs: DAY };

const take = (limiter: Limiter, key: string, limits: readonly Limit[]) =>
  limiter.take(limits.map((limit) => ({ key, limit })));

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

  const allowed = async (limits = [minute], of = key) => (await take(limiter, of, limits)).isAllowed;

  test('calls are counted down to the limit, and the next one is refused', async () => {
    const counts = [];
    for (let call = 1; call <= 5; call++) counts.push((await take(limiter, key, [minute])).counts[0]);
    expect(counts).toEqual(
      [2, 1, 0, 0, 0].map((remaining, index) => ({
        limit: minute,
        isRefused: index >= 3,
        remaining,
        resetsInMs: MINUTE,
        giveBack: expect.any(Function),
      })),
    );
  });

  test('calls are let through again when the window ends, and not a millisecond sooner', async () => {
    for (let call = 1; call <= 3; call++) expect(await allowed()).toBe(true);
    vi.setSystemTime(NOON + MINUTE - 1);
    expect((await take(limiter, key, [minute])).counts).toMatchObject([
      { limit: minute, isRefused: true, remaining: 0, resetsInMs: 1 },
    ]);
    vi.setSystemTime(NOON + MINUTE);
    expect((await take(limiter, key, [minute])).counts).toMatchObject([
      { limit: minute, isRefused: false, remaining: 2, resetsInMs: MINUTE },
    ]);
  });

  test('a count says how long its window still lasts', async () => {
    vi.setSystemTime(NOON + 18 * SECOND + 250);
    expect((await take(limiter, key, [minute, day])).counts).toMatchObject([
      { resetsInMs: 41_750 },
      { resetsInMs: DAY / 2 - 18_250 },
    ]);
  });

  test('a call counts against several limits at once', async () => {
    await take(limiter, key, [minute, day]);
    const { isAllowed, counts } = await take(limiter, key, [minute, day]);
    expect(isAllowed).toBe(true);
    expect(counts).toMatchObject([
      { limit: minute, remaining: 1 },
      { limit: day, remaining: 3 },
    ]);
  });

  test('a call that a shorter limit refused does not count against a longer one', async () => {
    for (let call = 1; call <= 20; call++) await take(limiter, key, [minute, day]);
    expect((await take(limiter, key, [minute, day])).counts).toMatchObject([
      { limit: minute, isRefused: true },
    ]);
    vi.setSystemTime(NOON + MINUTE);
    expect(await allowed([minute, day])).toBe(true);
    expect(await allowed([minute, day])).toBe(true);
    const { isAllowed, counts } = await take(limiter, key, [minute, day]);
    expect(isAllowed).toBe(false);
    expect(counts).toMatchObject([
      { limit: minute, isRefused: false },
      { limit: day, isRefused: true, remaining: 0 },
    ]);
  });

  test('a call that one of several limits refused does not count against those behind it', async () => {
    const hour = { name: 'chat-hour', limit: 1, windowMs: HOUR };
    const another = { ...day, name: 'another-day' };
    for (let call = 1; call <= 2; call++) await take(limiter, key, [minute, hour, day, another]);
    expect((await take(limiter, key, [minute, hour, day, another])).counts).toMatchObject([
      { limit: minute, isRefused: false, remaining: 0 },
      { limit: hour, isRefused: true },
    ]);
    expect((await take(limiter, key, [day, another])).counts).toMatchObject([
      { limit: day, remaining: 3 },
      { limit: another, remaining: 3 },
    ]);
  });

  test('each key is counted for itself', async () => {
    for (let call = 1; call <= 4; call++) await take(limiter, key, [minute]);
    expect(await allowed()).toBe(false);
    expect(await allowed([minute], `${key}-other`)).toBe(true);
  });

  test('limits of different names are counted apart, in the same window too', async () => {
    for (let call = 1; call <= 4; call++) await take(limiter, key, [minute]);
    expect(await allowed([{ ...minute, name: 'inquiry-min' }])).toBe(true);
  });

  test('of the calls made at once only as many as the limit are let through', async () => {
    const verdicts = await Promise.all(Array.from({ length: 50 }, () => take(limiter, key, [minute])));
    expect(verdicts.filter(({ isAllowed }) => isAllowed)).toHaveLength(3);
    const left = verdicts.filter(({ isAllowed }) => isAllowed).map(({ counts }) => counts[0]!.remaining);
    expect(left.toSorted()).toEqual([0, 1, 2]);
  });

  test.each([' ', 'æøå', 'a:b', 'a/b', '*', '__proto__', 'constructor', 'x'.repeat(500)])(
    'the key %j is counted like any other',
    async (odd) => {
      for (let call = 1; call <= 3; call++) expect(await allowed([minute], key + odd)).toBe(true);
      expect(await allowed([minute], key + odd)).toBe(false);
    },
  );

  const taken = async (limit: Limit = minute) => (await take(limiter, key, [limit])).counts[0]!;

  test('a call is given back once, however often that is asked for', async () => {
    const counts = [await taken(), await taken(), await taken()];
    const backs = await Promise.all([counts[1]!.giveBack(), counts[1]!.giveBack(), counts[1]!.giveBack()]);
    expect(backs.map(({ remaining }) => remaining)).toEqual([1, 1, 1]);
    expect([await allowed(), await allowed()]).toEqual([true, false]);
  });

  test('a counted call can be given back, and a refused one cannot', async () => {
    const counts = [await taken(), await taken(), await taken(), await taken(), await taken()];
    expect(counts.map(({ isRefused }) => isRefused)).toEqual([false, false, false, true, true]);
    expect(await counts[4]!.giveBack()).toMatchObject({ isRefused: true, remaining: 0 });
    expect(await allowed()).toBe(false);
    expect(await counts[0]!.giveBack()).toMatchObject({ remaining: 1 });
    expect([await allowed(), await allowed()]).toEqual([true, false]);
  });

  test('a call is given back to the window that counted it, and not to a later one', async () => {
    const [old] = [await taken(), await taken()];
    vi.setSystemTime(NOON + MINUTE);
    expect((await taken()).remaining).toBe(2);
    expect(await old.giveBack()).toMatchObject({ remaining: 2 });
    expect([await allowed(), await allowed(), await allowed()]).toEqual([true, true, false]);
  });

  test('a call given back after its window leaves the new window full', async () => {
    const old = await taken();
    vi.setSystemTime(NOON + 2 * MINUTE);
    expect(await old.giveBack()).toMatchObject({ remaining: 3 });
    expect((await taken()).remaining).toBe(2);
  });

  test('the limit holds while calls are taken and given back at once', async () => {
    let held = 0;
    let most = 0;
    const call = async () => {
      const count = await taken();
      if (count.isRefused) return;
      most = Math.max(most, (held += 1));
      await Promise.resolve();
      held -= 1;
      await count.giveBack();
    };
    for (let turn = 0; turn < 5; turn++) await Promise.all(Array.from({ length: 20 }, call));
    expect(most).toBe(3);
    expect((await taken()).remaining).toBe(2);
  });

  test('a call may be given back to one limit and stay counted in the other', async () => {
    const { counts } = await take(limiter, key, [minute, day]);
    await counts[0]!.giveBack();
    expect((await take(limiter, key, [minute, day])).counts).toMatchObject([
      { remaining: 2 },
      { remaining: 3 },
    ]);
  });

  test('a call without limits is let through', async () => {
    expect(await take(limiter, key, [])).toEqual({ isAllowed: true, counts: [] });
  });
}

describe('a limiter in memory', () => {
  conforms(() => new MemoryLimiter());

  test('a limiter in memory takes its time from its clock', async () => {
    let now = 59_999;
    const limiter = new MemoryLimiter({ now: () => now });
    expect((await take(limiter, 'a', [minute])).counts).toMatchObject([{ resetsInMs: 1, remaining: 2 }]);
    now += 1;
    expect((await take(limiter, 'a', [minute])).counts).toMatchObject([{ resetsInMs: MINUTE, remaining: 2 }]);
  });

  test('the limiter counts in memory without Redis', () => {
    expect(createLimiter(undefined)).toBeInstanceOf(MemoryLimiter);
  });

  describe('that keeps three keys', () => {
    const once = { ...minute, limit: 1 };
    const taken = async (limiter: Limiter, key: string) => (await take(limiter, key, [once])).isAllowed;

    test('a limiter that keeps three keys forgets the one that called longest ago', async () => {
      const limiter = new MemoryLimiter({ keysKept: 3 });
      for (const key of ['a', 'b', 'c']) await taken(limiter, key);
      expect(await taken(limiter, 'a')).toBe(false);
      expect(await taken(limiter, 'd')).toBe(true);
      expect([await taken(limiter, 'a'), await taken(limiter, 'c')]).toEqual([false, false]);
      expect(await taken(limiter, 'b')).toBe(true);
    });

    test('the budget of all is remembered, however many keys call', async () => {
      const limiter = new MemoryLimiter({ keysKept: 3 });
      await takeBudget(limiter, '192.0.2.7', 1);
      for (let visitor = 0; visitor < 100; visitor++) await taken(limiter, `${visitor}`);
      await expect(takeBudget(limiter, '198.51.100.7', 1)).rejects.toMatchObject({ scope: 'service' });
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

  test('limiters of several instances count together in Redis', async () => {
    const limiters = [1, 2].map(() => new RedisLimiter({ ...rest, fallback }));
    const key = crypto.randomUUID();
    const verdicts = await Promise.all(
      Array.from({ length: 20 }, (_, call) => take(limiters[call % 2]!, key, [day])),
    );
    expect(verdicts.filter(({ isAllowed }) => isAllowed)).toHaveLength(5);
  });

  test('a call with many limits takes two requests, so that they do not add up to more than its patience', async () => {
    const limits = Array.from({ length: 7 }, (_, index) => ({ ...minute, name: `limit-${index}` }));
    const limiter = new RedisLimiter({ ...rest, fallback });
    const key = crypto.randomUUID();
    // Redis gets to know the script.
    await take(limiter, key, limits);
    const requests = vi.spyOn(globalThis, 'fetch');
    expect((await take(limiter, key, limits)).counts).toHaveLength(7);
    expect(requests).toHaveBeenCalledTimes(2);
  });

  test('the limiter counts in Redis where there is one', async () => {
    const before = rest.commands.length;
    expect((await take(createLimiter(rest), 'a', [minute])).counts).toMatchObject([{ remaining: 2 }]);
    expect(rest.commands.length).toBeGreaterThan(before);
  });

  const ask = async (...command: readonly unknown[]) => {
    const response = await fetch(rest.url, {
      method: 'POST',
      headers: { authorization: `Bearer ${rest.token}` },
      body: JSON.stringify(command),
    });
    return ((await response.json()) as { result: unknown }).result;
  };
  const lastCounter = () => rest.commands.findLast(([verb]) => String(verb).startsWith('eval'))![3];

  test('a counter in Redis lasts no longer than its window, also after a call was given back', async () => {
    const { counts } = await take(new RedisLimiter({ ...rest, fallback }), crypto.randomUUID(), [minute]);
    const counter = lastCounter();
    for (const count of [undefined, counts[0]!]) {
      await count?.giveBack();
      expect(lastCounter()).toBe(counter);
      expect(await ask('pttl', counter)).toSatisfy((ms: number) => ms > 0 && ms <= MINUTE);
    }
  });

  test('a call given back after its counter is gone leaves none below zero', async () => {
    const { counts } = await take(new RedisLimiter({ ...rest, fallback }), crypto.randomUUID(), [minute]);
    await ask('del', lastCounter());
    expect(await counts[0]!.giveBack()).toMatchObject({ remaining: 3 });
    expect(await ask('get', lastCounter())).toBeNull();
  });

  test('a call given back by one instance is free for all', async () => {
    const [one, other] = [1, 2].map(() => new RedisLimiter({ ...rest, fallback }));
    const key = crypto.randomUUID();
    const { counts } = await take(one!, key, [{ ...minute, limit: 1 }]);
    expect((await take(other!, key, [{ ...minute, limit: 1 }])).isAllowed).toBe(false);
    await counts[0]!.giveBack();
    expect((await take(other!, key, [{ ...minute, limit: 1 }])).isAllowed).toBe(true);
  });

  test('a call that cannot be given back stays counted, without an error', async () => {
    const limiter = new RedisLimiter({ ...rest, fallback, patienceMs: 100 });
    const key = crypto.randomUUID();
    vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    for (const how of ['hang', 'answer 500', 'answer words', 'answer a count below zero'] as const) {
      const { counts } = await take(limiter, key, [day]);
      rest.misbehave(how);
      expect(await counts[0]!.giveBack()).toMatchObject({ remaining: counts[0]!.remaining });
      rest.misbehave(null);
    }
    vi.restoreAllMocks();
    expect((await take(limiter, key, [day])).counts).toMatchObject([{ remaining: 0 }]);
  });

  test('a call counted in the process is given back there, though Redis is back', async () => {
    const limiter = new RedisLimiter({ ...rest });
    const key = crypto.randomUUID();
    vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    rest.misbehave('answer 500');
    const here = [await take(limiter, key, [minute]), await take(limiter, key, [minute])];
    rest.misbehave(null);
    await take(limiter, key, [minute]);
    await here[0]!.counts[0]!.giveBack();
    expect((await take(limiter, key, [minute])).counts).toMatchObject([{ remaining: 1 }]);
    rest.misbehave('answer 500');
    expect((await take(limiter, key, [minute])).counts).toMatchObject([{ remaining: 1 }]);
    rest.misbehave(null);
    vi.restoreAllMocks();
  });
});

describe('the key of a visitor', () => {
  const secret = 'a-token';
  const platform = createVisitors({ isBehindPlatform: true, secret });
  const local = createVisitors({ isBehindPlatform: false, secret });
  const from = (headers: Record<string, string>, ip?: string) =>
    Object.assign(new Request('https://postbud.example/a', { headers }), ip && { ip });
  const keyAt = (address: string) => platform.keysOf(from({ 'x-forwarded-for': address })).own;

  test('a visitor’s key does not show the address, and depends on the secret', () => {
    const key = keyAt('192.0.2.7');
    expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const other = createVisitors({ isBehindPlatform: true, secret: 'another-token' });
    expect(other.keysOf(from({ 'x-forwarded-for': '192.0.2.7' })).own).not.toBe(key);
  });

  test('a visitor’s key is the same on every instance with the same secret', () => {
    const again = createVisitors({ isBehindPlatform: true, secret });
    expect(again.keysOf(from({ 'x-forwarded-for': '192.0.2.7' })).own).toBe(keyAt('192.0.2.7'));
  });

  test('a visitor’s key differs between processes without a secret', () => {
    const [one, other] = [1, 2].map(() => createVisitors({ isBehindPlatform: false }));
    expect(one!.keysOf(from({}))).not.toEqual(other!.keysOf(from({})));
    expect(one!.keysOf(from({}))).toEqual(one!.keysOf(from({})));
  });

  test('a visitor’s key is that of the first address that the platform forwards', () => {
    expect(keyAt('192.0.2.7, 198.51.100.1')).toBe(keyAt('192.0.2.7'));
    expect(keyAt('198.51.100.1, 192.0.2.7')).not.toBe(keyAt('192.0.2.7'));
  });

  test('a visitor’s key is that of x-real-ip where nothing else is forwarded', () => {
    expect(platform.keysOf(from({ 'x-real-ip': '192.0.2.7' })).own).toBe(keyAt('192.0.2.7'));
    expect(platform.keysOf(from({ 'x-real-ip': '198.51.100.1', 'x-forwarded-for': '192.0.2.7' })).own).toBe(
      keyAt('192.0.2.7'),
    );
  });

  test.each(['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip', 'x-vercel-forwarded-for'])(
    'a visitor’s key ignores %s where no platform writes it',
    (header) => {
      const spoofed = { [header]: '198.51.100.1' };
      expect(local.keysOf(from(spoofed))).toEqual(local.keysOf(from({})));
      expect(local.keysOf(from(spoofed, '192.0.2.7'))).toEqual(local.keysOf(from({}, '192.0.2.7')));
    },
  );

  test('a visitor’s key is that of the socket in the local server, and one for all unknown sockets', () => {
    expect(local.keysOf(from({}, '192.0.2.7'))).not.toEqual(local.keysOf(from({}, '192.0.2.8')));
    expect(local.keysOf(from({}))).toEqual(local.keysOf(from({}, 'unix:/run/postbud.sock')));
  });

  test('a visitor of IPv6 has keys of the wider networks too, which do not show the address', () => {
    const at = (address: string) => platform.keysOf(from({ 'x-forwarded-for': address }));
    const [here, neighbour, sameCustomer, other] = [
      '2001:db8:1:200::1',
      '2001:db8:1:2ff::1',
      '2001:db8:1:ffff::1',
      '2001:db8:2::1',
    ].map(at);
    expect(Object.keys(here!)).toEqual(['48', '56', 'own', 'share']);
    for (const key of Object.values(here!)) expect(key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(new Set(Object.values(here!)).size).toBe(3);
    expect(here!.share).toBe(here![48]);
    expect([neighbour![56] === here![56], neighbour![48] === here![48]]).toEqual([true, true]);
    expect([sameCustomer![56] === here![56], sameCustomer![48] === here![48]]).toEqual([false, true]);
    expect([other![56] === here![56], other![48] === here![48]]).toEqual([false, false]);
    expect(Object.keys(at('192.0.2.7'))).toEqual(['own', 'share']);
  });
});

describe('the networks of an address', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7', '192.0.2.0/24'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8:1::/56', '2001:db8:1::/48'],
    ['2001:db8:1:2ff:ffff:ffff:ffff:ffff', '2001:db8:1:2ff::/64', '2001:db8:1:200::/56', '2001:db8:1::/48'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64', '2001:db8:1::/56', '2001:db8:1::/48'],
    ['2001:db8::1', '2001:db8::/64', '2001:db8::/56', '2001:db8::/48'],
    ['1::8', '1::/64', '1::/56', '1::/48'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64', '1:2:3::/56', '1:2:3::/48'],
    ['::1', '::/64', '::/56', '::/48'],
    ['::', '::/64', '::/56', '::/48'],
    ['fe80::1%eth0', 'fe80::/64', 'fe80::/56', 'fe80::/48'],
    ['::ffff:192.0.2.7', '192.0.2.7', '192.0.2.0/24'],
    ['::FFFF:c000:207', '192.0.2.7', '192.0.2.0/24'],
    ['0:0:0:0:0:ffff:192.0.2.7', '192.0.2.7', '192.0.2.0/24'],
    ['64:ff9b::192.0.2.7', '192.0.2.7', '192.0.2.0/24'],
    ['::ffff:0:192.0.2.7', '192.0.2.7', '192.0.2.0/24'],
    ['2002:c000:207:1::1', '192.0.2.7', '192.0.2.0/24'],
    ['198.51.100.255', '198.51.100.255', '198.51.100.0/24'],
    ['', 'local'],
    ['unknown', 'local'],
    ['192.0.2.7:4711', 'local'],
    ['[2001:db8::1]:4711', 'local'],
    ['2001:db8::1/64', 'local'],
    ['192.0.2', 'local'],
    ['0x7f.1', 'local'],
    ['1::2::3', 'local'],
  ])('the networks of %j are %s, %s and %s', (address, own, wide?: string, wider?: string) => {
    const wideOnes = wider === undefined ? {} : { 56: wide, 48: wider };
    expect(networksOf(address)).toEqual({ own, share: wider ?? wide ?? 'local', ...wideOnes });
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
    giveBack: () => Promise.reject(new Error('nobody asked')),
  });
  const headersOf = (...counts: Count[]) => rateLimitHeaders(limits, { isAllowed: true, counts });

  test('the headers name every limit, and the rest of the most pressing one', () => {
    expect(headersOf(count(0, 19, 42_000), count(1, 299, 4711_000))).toEqual({
      'ratelimit-policy': '"chat-min";q=20;w=60, "chat-day";q=300;w=86400',
      ratelimit: '"chat-min";r=19;t=42',
    });
  });

  test.each([
    ['the one with fewer calls left', [count(0, 19, 42_000), count(1, 3, 5000)], '"chat-day";r=3;t=5'],
    ['of two alike the longer one', [count(0, 3, 42_000), count(1, 3, 50_000)], '"chat-day";r=3;t=50'],
    ['the one that refused', [count(0, 0, 99_000), count(1, 0, 50_000, true)], '"chat-day";r=0;t=50'],
  ])('the most pressing limit is %s', (_, counts, ratelimit) => {
    expect(headersOf(...counts).ratelimit).toBe(ratelimit);
  });

  test.each([
    [1, 1],
    [999, 1],
    [1000, 1],
    [1001, 2],
    [59_001, 60],
  ])('the headers round %d ms up to %d seconds, in Retry-After too', (resetsInMs, seconds) => {
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
  test('the budget of a day is one for all, and starts anew at midnight UTC', async () => {
    let now = NOON + 0.5;
    const limiter = new MemoryLimiter({ now: () => now });
    for (const address of ['192.0.2.7', '198.51.100.7']) await takeBudget(limiter, address, 2);
    await expect(takeBudget(limiter, '203.0.113.7', 2)).rejects.toMatchObject({
      status: 429,
      code: 'rate_limited',
      scope: 'service',
      detail: 'All visitors together have used up the day’s 2 calls. Try again in 12 hours, at midnight UTC.',
      headers: {
        'retry-after': '43200',
        'ratelimit-policy': '"chat-network";q=1;w=86400, "chat-budget";q=2;w=86400',
        ratelimit: '"chat-budget";r=0;t=43200',
      },
    });
    now = NOON + DAY / 2;
    await expect(takeBudget(limiter, '203.0.113.7', 2)).resolves.toBeTruthy();
  });

  test.each([
    [1, 1],
    [39, 1],
    [40, 2],
    [500, 25],
    [1500, 75],
  ])('of a budget of %d calls a network has %d, and a visitor of it is told so', async (perDay, share) => {
    const limiter = new MemoryLimiter({ now: () => NOON + 1000 });
    for (let call = 0; call < share; call++) await takeBudget(limiter, `192.0.2.${call}`, perDay);
    const refusal = `${share} ${share === 1 ? 'is' : 'are'} allowed in a day`;
    await expect(takeBudget(limiter, '192.0.2.255', perDay)).rejects.toMatchObject({
      status: 429,
      scope: 'network',
      detail: `Too many calls from your network: ${refusal}. Try again in 12 hours, at midnight UTC.`,
      headers: { ratelimit: '"chat-network";r=0;t=43199', 'retry-after': '43199' },
    });
  });

  test.each([5, 10, 35])(
    'a budget of %d calls says once for each call that four fifths and all of it are used, if the call was made',
    async (perDay) => {
      const limiter = new MemoryLimiter({ now: () => NOON });
      const reached: string[] = [];
      const take = (call: number) =>
        takeBudget(limiter, `192.0.${call}.7`, perDay, (percent) => reached.push(percent));
      for (let call = 1; call < perDay * 0.8; call++) (await take(call)).spend();
      await (await take(99)).giveBack();
      expect(reached).toEqual([]);
      for (let call = perDay * 0.8; call <= perDay; call++) (await take(call)).spend();
      await expect(take(100)).rejects.toMatchObject({ scope: 'service' });
      expect(reached).toEqual([...Array(perDay * 0.2).fill('budget_80'), 'budget_100', 'budget_100']);
    },
  );

  test('a call given back is in the budget and in its network’s share again', async () => {
    const limiter = new MemoryLimiter({ now: () => NOON });
    const first = await takeBudget(limiter, '192.0.2.7', 2);
    await takeBudget(limiter, '198.51.100.7', 2);
    await first.giveBack();
    await takeBudget(limiter, '192.0.2.8', 2);
    await expect(takeBudget(limiter, '203.0.113.7', 2)).rejects.toMatchObject({ scope: 'service' });
  });
});

/** Counts a call of a visitor that has no other limit. */
async function takeBudget(
  limiter: Limiter,
  address: string,
  perDay: number,
  onReached: Budget['onReached'] = () => undefined,
) {
  const visitors = createVisitors({ isBehindPlatform: true, secret: 'a-token' });
  const request = new Request('https://postbud.example/a', { headers: { 'x-forwarded-for': address } });
  const visit = await countVisit({ limiter, visitors, limits: [] }, request, new Headers());
  return await visit.takeBudget({ name: 'chat', perDay, onReached });
}
