import { setTimeout as realSleep } from 'node:timers/promises';

import pg from 'pg';
import { describe, expect, vi } from 'vitest';

import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { freePort } from '../support/postgres.ts';
import { ProviderApis, STRIPE_KEY } from '../support/provider-apis.ts';

const SECRET = 'a-cron-secret-of-the-tests';

// What is written is kept from the beginning of each test on.
test.beforeEach(({ output }) => void output.text());
test.afterEach(({ output }) => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  expect(output.text()).not.toContain(SECRET);
});

/** The function file, in a process whose environment holds these variables. */
async function deployed(variables: Record<string, string | undefined>): Promise<Endpoint> {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  vi.resetModules();
  return (await import('../../api/cron/relay.ts')).default;
}

/** Where no database is: whoever is let in gets a 500, which tells from a refusal. */
const nowhere = async () => `postgres://postgres@127.0.0.1:${await freePort()}/none`;

const call = (authorization?: string, method = 'GET') =>
  new Request('https://postbud.example/api/cron/relay', {
    method,
    ...(authorization !== undefined && { headers: { authorization } }),
  });

/**
 * Lets the fake clock run until there is an answer. Before each step a connection to the database is opened and used, so
 * that what waits for one, for 5 of these seconds, has as long as twenty of those take at that moment.
 */
async function afterTicks<Answer>(url: string | null, answering: Promise<Answer>): Promise<Answer> {
  for (;;) {
    if (url !== null) await connectOnce(url);
    const answer = await Promise.race([answering, realSleep(1)]);
    if (answer) return answer;
    await vi.advanceTimersByTimeAsync(250);
  }
}

async function connectOnce(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('select');
  await client.end();
}

describe('GET /api/cron/relay', () => {
  test.each([undefined, '', '   '])(
    'the cron’s endpoint lets nobody in with CRON_SECRET %j',
    async (secret) => {
      const { fetch } = await deployed({ CRON_SECRET: secret, DATABASE_URL: await nowhere() });
      for (const shown of [
        undefined,
        'Bearer undefined',
        'Bearer ',
        'Bearer',
        '',
        'Bearer null',
        `Bearer ${SECRET}`,
      ]) {
        const response = await fetch(call(shown));
        expect([shown, response.status]).toEqual([shown, 503]);
        expect(response.headers.get('content-type')).toBe('application/problem+json');
        expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
        expect(await response.json()).toMatchObject({ status: 503, code: 'cron_not_configured' });
      }
    },
  );

  test.each([
    { VERCEL_ENV: 'preview', RELAY: '' },
    { VERCEL_ENV: 'production', RELAY: 'off' },
  ])('a deployment that is not to relay relays nothing: %j', async (variables) => {
    const { fetch } = await deployed({ CRON_SECRET: SECRET, DATABASE_URL: await nowhere(), ...variables });
    const response = await fetch(call(`Bearer ${SECRET}`));
    expect(response.status).toBe(409);
    expect(await response.json()).toMatchObject({ code: 'relay_off' });
  });

  test('a caller without exactly the secret is refused', async () => {
    const { fetch } = await deployed({ CRON_SECRET: SECRET, DATABASE_URL: await nowhere() });
    const almost = [
      undefined,
      '',
      'Bearer',
      'Bearer undefined',
      SECRET,
      `Bearer ${SECRET}x`,
      `Bearer ${SECRET.slice(0, -1)}`,
      `Bearer ${SECRET.toUpperCase()}`,
      `Bearer  ${SECRET}`,
      `Basic ${SECRET}`,
      `Bearer ${SECRET}, Bearer ${SECRET}`,
    ];
    for (const shown of almost) {
      const response = await fetch(call(shown));
      expect([shown, response.status]).toEqual([shown, 401]);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
      const text = await response.text();
      expect(JSON.parse(text)).toMatchObject({ status: 401, code: 'unauthorized' });
      expect(text).not.toContain(SECRET);
    }
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    expect((await afterTicks(null, fetch(call(`Bearer ${SECRET}`)))).status).toBe(500);
  });

  test('a cron run delivers for 70 seconds and reports what it did', async ({ bus: { db, url } }) => {
    await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
    // Struck already: the strike would kick a relay of its own, and nobody could say which of the two delivers.
    const day = new Date().toISOString().slice(0, 10);
    const scheduledFor = `${day}T06:00:00.000Z`;
    await emitAlone(db, 'cron.daily.06_00', { day, scheduledFor }, { dedupeKey: day });
    const { fetch } = await deployed({ CRON_SECRET: SECRET, DATABASE_URL: url });
    const trail = () => rows<{ topic: string }>(db, 'select topic from audit_log order by topic');

    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    const answering = fetch(call(`Bearer ${SECRET}`));
    while (!(await trail()).some(({ topic }) => topic === 'user.signed_in')) await realSleep(5);
    // What comes meanwhile is not left to the next minute: it goes with the next tick.
    await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
    const response = await afterTicks(url, answering);
    vi.useRealTimers();
    expect(response.status).toBe(200);
    const kept = await trail();
    expect(kept.filter(({ topic }) => topic === 'user.signed_in')).toHaveLength(2);
    expect(await response.json()).toMatchObject({ delivered: kept.length, failed: 0, struck: [] });
  });

  test('a cron run asks a provider for webhooks that never came', async ({
    bus: { db, url },
    onTestFinished,
  }) => {
    const apis = await ProviderApis.start();
    onTestFinished(() => apis.close());
    const created = Math.floor((Date.now() - 6 * MINUTE) / SECOND);
    apis.stripe.push({ id: 'evt_lost', type: 'charge.refunded', created, data: {}, isDelivered: false });
    const { fetch } = await deployed({
      CRON_SECRET: SECRET,
      DATABASE_URL: url,
      WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
      WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: STRIPE_KEY,
      WEBHOOK_CARDPAYMENTS_RECONCILE_URL: apis.url,
    });
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    const response = await afterTicks(url, fetch(call(`Bearer ${SECRET}`)));
    vi.useRealTimers();
    expect(await response.json()).toMatchObject({ undone: [] });
    expect(await rows(db, 'select event_id from webhook_receipts')).toEqual([{ event_id: 'evt_lost' }]);
  });

  test('a cron run begins handlers that fit into its function’s 90 seconds', async ({ bus: { db, url } }) => {
    const { fetch } = await deployed({ CRON_SECRET: SECRET, DATABASE_URL: url });
    const calledAt = Date.now();
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: calledAt });
    const answering = fetch(call(`Bearer ${SECRET}`));
    await afterTicks(
      url,
      sleep(55 * SECOND).then(() => 'a while'),
    );
    await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
    expect((await afterTicks(url, answering)).status).toBe(200);
    vi.useRealTimers();
    expect(await rows(db, `select topic from audit_log where topic = 'user.signed_in'`)).toHaveLength(1);
  });

  test('a cron run delivers although surges cannot be looked for', async ({ bus: { db, url }, output }) => {
    await rows(db, 'alter table webhook_rejections rename to mislaid');
    await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
    const { fetch } = await deployed({ CRON_SECRET: SECRET, DATABASE_URL: url });
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    const response = await afterTicks(url, fetch(call(`Bearer ${SECRET}`)));
    vi.useRealTimers();
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ undone: ['surges of refused webhooks'] });
    expect(await rows(db, `select topic from audit_log where topic = 'user.signed_in'`)).toHaveLength(1);
    expect(output.text()).toContain('"duty":"surges of refused webhooks"');
    await rows(db, 'alter table mislaid rename to webhook_rejections');
  });

  test('a cron run delivers to everybody but a component with a wrong variable', async ({
    bus: { db, url },
    output,
  }) => {
    await emitAlone(db, 'user.signed_up', payloadOf('user.signed_up'));
    const { fetch } = await deployed({
      CRON_SECRET: SECRET,
      DATABASE_URL: url,
      VERCEL: '1',
      SENDGRID_API_KEY: 'SG.test',
      ADMIN_EMAIL: 'post@example.no',
      FROM_EMAIL: 'nobody',
      SUBSCRIBER_INTELLIGENCE_URL: 'http://intelligence.example.no/events',
      SUBSCRIBER_INTELLIGENCE_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    });
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    const response = await afterTicks(url, fetch(call(`Bearer ${SECRET}`)));
    vi.useRealTimers();
    expect(response.status).toBe(200);
    const statement = `select subscriber, state::text, attempts from ${RECORDS}
      where topic = 'user.signed_up' order by subscriber`;
    expect(await rows(db, statement)).toEqual([
      { subscriber: 'audit', state: 'delivered', attempts: 1 },
      { subscriber: 'intelligence', state: 'pending', attempts: 0 },
      { subscriber: 'notifications', state: 'pending', attempts: 0 },
    ]);
    expect(await rows(db, 'select from notifications')).toEqual([]);
    for (const variable of ['FROM_EMAIL', 'SUBSCRIBER_INTELLIGENCE_URL'])
      expect(output.text()).toContain(`"variable":"${variable}"`);
  });
});
