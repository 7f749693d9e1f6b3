import { serve } from 'srvx';
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';

import { readVercelJson } from '../../dev/build/vercel-json.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Endpoint, EndpointDeclaration } from '../../lib/platform/http/guarded-endpoint.ts';
import {
  CRON_BUDGET_MS,
  RELAY_LIFE_MS,
  FUNCTION_LIFE_MS,
  LONGEST_TIME_LIMIT_MS,
} from '../../lib/platform/lifetime.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { payloadOf, rows } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { OPERATOR_SECRET, operatorToken } from '../support/operator-token.ts';
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
    const {
      'api/cron/relay.ts': cron,
      'api/kick.ts': kick,
      'api/chat.ts': chat,
      'api/**/*.ts': others,
    } = functions;
    // The first match applies.
    expect(Object.keys(functions)).toEqual([
      'api/cron/relay.ts',
      'api/kick.ts',
      'api/chat.ts',
      'api/**/*.ts',
    ]);
    expect(cron!.maxDuration).toBe(RELAY_LIFE_MS / SECOND);
    expect(kick!.maxDuration).toBe(RELAY_LIFE_MS / SECOND);
    expect(chat!.maxDuration).toBe(FUNCTION_LIFE_MS / SECOND);
    expect(others!.maxDuration).toBe(FUNCTION_LIFE_MS / SECOND);
    expect(crons).toEqual([{ path: '/api/cron/relay', schedule: '* * * * *' }]);
    expect(CRON_BUDGET_MS).toBeGreaterThan(1 * MINUTE);
  });

  test('a handler whose time limit exceeds its function’s life is refused when it is attached', () => {
    const attach = (timeoutMs: number) =>
      subscriber('ledger', { 'payment.captured': () => undefined }, { timeoutMs });
    expect(attach(LONGEST_TIME_LIMIT_MS).timeoutMs).toBe(LONGEST_TIME_LIMIT_MS);
    expect(LONGEST_TIME_LIMIT_MS).toBeLessThan(RELAY_LIFE_MS);
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
    const { guardedEndpoint } = await import('../../lib/platform/http/guarded-endpoint.ts');
    const { emit } = await import('../../lib/bus/outbox/emit.ts');
    const { database } = await import('../../lib/components/database.ts');
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

describe('a caller that hangs up', () => {
  test('a caller that hangs up ends no function but the chat’s, as vercel.json tells the platform', () => {
    const { functions } = readVercelJson(new URL('../../', import.meta.url));
    const ended = Object.entries(functions).filter(([, settings]) => settings.supportsCancellation);
    expect(ended.map(([file]) => file)).toEqual(['api/chat.ts']);
  });

  /** Posts to a function over a connection, and hangs up when it is far enough. */
  async function postAndHangUp(
    { fetch: handle }: Endpoint,
    path: string,
    body: object,
    isFarEnough: () => Promise<void>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const server = serve({ port: 0, hostname: '127.0.0.1', silent: true, fetch: handle });
    onTestFinished(() => server.close(true));
    await server.ready();
    const caller = new AbortController();
    const answering = fetch(new URL(path, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
      signal: caller.signal,
    });
    await isFarEnough();
    caller.abort();
    await expect(answering).rejects.toThrow('aborted');
  }

  test('an inquiry is mailed whose visitor hangs up before the mail provider has taken it', async () => {
    const sendgrid = await startSendGrid();
    onTestFinished(() => sendgrid.close());
    // The second attempt comes half a second later.
    sendgrid.behave([503]);
    vi.stubEnv('SENDGRID_API_KEY', 'SG.key');
    vi.stubEnv('SENDGRID_BASE_URL', sendgrid.url);
    vi.stubEnv('ADMIN_EMAIL', 'admin@example.no');
    vi.stubEnv('FROM_EMAIL', 'noreply@example.no');
    vi.stubEnv('DATABASE_URL', await createDatabase(inject('postgresUrl')));
    vi.resetModules();
    const { default: inquiry } = await import('../../api/inquiry.ts');
    const body = {
      name: 'Kari',
      email: 'kari@example.no',
      organization: 'Solvik',
      topic: 'Pris',
      persona: 'innbygger',
      source: 'chatbot',
    };
    await postAndHangUp(inquiry, '/api/inquiry', body, async () => {
      await expect.poll(sendgrid.calls).toBe(1);
    });
    await expect.poll(() => sendgrid.mails).toHaveLength(1);
  });

  test('an operator’s action is done whose operator hangs up while it waits for a lock', async () => {
    vi.stubEnv('DATABASE_URL', await createDatabase(inject('postgresUrl')));
    vi.stubEnv('OPERATOR_JWT_SECRET', OPERATOR_SECRET);
    vi.resetModules();
    const { default: consoleFunction } = await import('../../api/platform/event-bus/console.ts');
    const { database } = await import('../../lib/components/database.ts');
    const db = await database();
    onTestFinished(() => (db.$client as { end(): Promise<void> }).end());
    const waiting = async () =>
      (await rows<{ n: number }>(db, 'select count(*)::int as n from pg_locks where not granted'))[0]!.n;
    await db.transaction(async (tx) => {
      await tx.execute('lock table pauses in access exclusive mode');
      await postAndHangUp(
        consoleFunction,
        '/platform/event-bus/subscribers/audit/pause',
        { reason: 'maintenance' },
        async () => {
          await expect.poll(waiting).toBeGreaterThan(0);
        },
        { authorization: `Bearer ${await operatorToken()}` },
      );
    });
    await expect.poll(() => rows(db, 'select subscriber from pauses')).toEqual([{ subscriber: 'audit' }]);
  });
});
