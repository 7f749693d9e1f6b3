import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { misbehaviours, startRedisRest } from '../../dev/stand-ins/redis-rest.ts';
import type { Misbehaviour, RedisRest } from '../../dev/stand-ins/redis-rest.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { RedisLimiter } from '../../lib/platform/rate-limit/redis.ts';
import { createVisitors } from '../../lib/platform/rate-limit/visitors.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { freePort } from '../support/postgres.ts';

let lines: string;
let rest: RedisRest;

beforeAll(async () => void (rest = await startRedisRest()));
afterAll(() => rest.stop());
beforeEach(() => {
  lines = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => (lines += String(text)).length > 0);
});
afterEach(() => rest.misbehave(null));

const limits = [
  { name: 'chat-min', limit: 3, windowMs: MINUTE },
  { name: 'chat-day', limit: 100, windowMs: DAY },
];

/** An endpoint that lets a visitor call three times a minute. */
function limited(redis: { url: string; token: string }, patienceMs?: number) {
  const limiter = new RedisLimiter({ ...redis, ...(patienceMs !== undefined && { patienceMs }) });
  const visitors = createVisitors({ isBehindPlatform: true, secret: redis.token });
  return guardedEndpoint({
    methods: ['POST'],
    visitorLimits: () => ({ limiter, visitors, limits }),
    handle: async () => Response.json({ ok: true }),
  });
}

const call = (address = '192.0.2.7') =>
  new Request('https://postbud.example/a', { method: 'POST', headers: { 'x-forwarded-for': address } });

async function statusesOf({ fetch }: ReturnType<typeof limited>, calls: number): Promise<number[]> {
  // A burst that lies across the end of a minute would be let through twice.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 10, 21, 12) });
  try {
    const statuses = [];
    for (let index = 0; index < calls; index++) statuses.push((await fetch(call())).status);
    return statuses;
  } finally {
    vi.useRealTimers();
  }
}

const warnings = () =>
  lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    // Other files that ran in this process may still write lines of their own.
    .filter(({ message }) => String(message).startsWith('rate limits are counted in this process'));

describe('a limiter whose Redis misbehaves', () => {
  test.each(Object.keys(misbehaviours) as Misbehaviour[])(
    'an endpoint counts in its process while Redis is to %s, and still refuses',
    async (how) => {
      rest.misbehave(how);
      expect(await statusesOf(limited(rest, 100), 5)).toEqual([200, 200, 200, 429, 429]);
    },
  );

  test('an endpoint counts in its process while no Redis listens', async () => {
    const nowhere = { url: `http://127.0.0.1:${await freePort()}`, token: 'x' };
    expect(await statusesOf(limited(nowhere), 5)).toEqual([200, 200, 200, 429, 429]);
  });

  test('an endpoint counts in its process while its Redis token is wrong', async () => {
    expect(await statusesOf(limited({ ...rest, token: 'wrong' }), 5)).toEqual([200, 200, 200, 429, 429]);
  });

  test.each(['hang', 'hang after the headers'] as const)(
    'an endpoint waits 800 ms for a Redis that is to %s',
    async (how) => {
      rest.misbehave(how);
      const { setTimeout: start } = globalThis;
      const limits: number[] = [];
      // Those of the limiter and its libraries: others wait in this process too.
      vi.spyOn(globalThis, 'setTimeout').mockImplementation((body, ms = 0) => {
        if (/rate-?limit\/|p-timeout|@upstash/.test(new Error('where').stack ?? '')) limits.push(ms);
        return start(body, ms);
      });
      expect((await limited(rest).fetch(call())).status).toBe(200);
      // It answered when the first of its limits had run out.
      expect(warnings()).toHaveLength(1);
      expect(Math.min(...limits)).toBe(800);
    },
  );

  test('many failures of Redis leave one warning, without a key, an address, a command or the token', async () => {
    rest.misbehave('answer 500');
    await statusesOf(limited(rest), 10);
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toMatchObject({ level: 'warn', error: 'UpstashError', calls: 1 });
    const key = createVisitors({ isBehindPlatform: true, secret: rest.token }).keysOf(call()).own;
    for (const secret of [key, '192.0.2.7', 'eval', rest.token]) expect(lines).not.toContain(secret);
  });
});
