import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';

import { readVercelJson } from '../../dev/build/vercel-json.ts';
import type { EndpointDeclaration } from '../../lib/http/guarded-endpoint.ts';
import { subscriber } from '../../lib/subscribers/subscriber.ts';
import { CRON_BUDGET_MS, CRON_LIFE_MS, FUNCTION_LIFE_MS, LONGEST_TIME_LIMIT_MS } from '../../lib/lifetime.ts';
import { MINUTE, SECOND } from '../../lib/time.ts';
import { deliveriesOf, payloadOf } from '../support/bus.ts';
import { createDatabase } from '../support/postgres.ts';

const platform = globalThis as { [name: symbol]: unknown };
const REQUEST_CONTEXT = Symbol.for('@vercel/request-context');

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => {
  vi.unstubAllEnvs();
  delete platform[REQUEST_CONTEXT];
});

describe('the life of a function', () => {
  const { functions, crons } = readVercelJson(new URL('../../', import.meta.url));

  test('the functions’ durations in vercel.json are those of the code', () => {
    const { 'api/cron/relay.ts': cron, 'api/**/*.ts': others } = functions;
    expect(Object.keys(functions)).toEqual(['api/cron/relay.ts', 'api/**/*.ts']);
    expect(cron!.maxDuration).toBe(CRON_LIFE_MS / SECOND);
    expect(others!.maxDuration).toBe(FUNCTION_LIFE_MS / SECOND);
    expect(crons).toEqual([{ path: '/api/cron/relay', schedule: '* * * * *' }]);
    expect(CRON_BUDGET_MS).toBeGreaterThan(1 * MINUTE);
  });

  test('a handler whose time limit exceeds its function’s life is refused when it is attached', () => {
    const attach = (timeoutMs: number) =>
      subscriber('ledger', { 'payment.captured': () => undefined }, { timeoutMs });
    expect(attach(LONGEST_TIME_LIMIT_MS).timeoutMs).toBe(LONGEST_TIME_LIMIT_MS);
    expect(LONGEST_TIME_LIMIT_MS).toBeLessThan(CRON_LIFE_MS);
    expect(() => attach(LONGEST_TIME_LIMIT_MS + 1)).toThrow(
      new TypeError(
        'ledger: expected a timeoutMs of 1 to 60000, which fits into the life of a function, not 60001',
      ),
    );
  });
});

describe('a kick in a function', () => {
  /** What becomes of the audit trail's delivery, whose limit is 10 seconds, of an event that a function emits. */
  async function deliveredBy(
    declared: Pick<EndpointDeclaration<undefined>, 'lifeMs'>,
    deadline?: number,
  ): Promise<string[]> {
    vi.stubEnv('DATABASE_URL', await createDatabase(inject('postgresUrl')));
    vi.resetModules();
    const { guardedEndpoint } = await import('../../lib/http/guarded-endpoint.ts');
    const { emit } = await import('../../lib/outbox/emit.ts');
    const { database } = await import('../../lib/postbud.ts');
    const db = await database();
    onTestFinished(() => (db.$client as { end(): Promise<void> }).end());
    const work: Promise<unknown>[] = [];
    platform[REQUEST_CONTEXT] = {
      get: () => ({
        waitUntil: (promise: Promise<unknown>) => work.push(promise),
        ...(deadline !== undefined && { deadline: new Date(deadline).toISOString() }),
      }),
    };
    const { fetch } = guardedEndpoint({
      ...declared,
      methods: ['POST'],
      handle: async () => {
        await db.transaction((tx) => emit(tx, 'user.signed_in', payloadOf('user.signed_in')));
        return Response.json({});
      },
    });
    expect((await fetch(new Request('https://postbud.example/', { method: 'POST' }))).status).toBe(200);
    await Promise.all(work);
    return (await deliveriesOf(db, 'audit')).map(({ state, attempts }) => `${state} ${attempts}`);
  }

  test('a kick begins handlers that end within its function’s life', async () => {
    expect(await deliveredBy({})).toEqual(['delivered 1']);
  });

  test('a kick begins no handler that would outlive its function', async () => {
    expect(await deliveredBy({ lifeMs: 14 * SECOND })).toEqual(['pending 0']);
  });

  test('a kick begins no handler that would outlive the platform’s deadline', async () => {
    expect(await deliveredBy({}, Date.now() + 14 * SECOND)).toEqual(['pending 0']);
  });
});
