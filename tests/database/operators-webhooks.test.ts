import { readFileSync } from 'node:fs';

import { describe, expect } from 'vitest';

import { attach, topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import { webhookQuery } from '../../lib/console/webhooks/fields.ts';
import { readWebhooks } from '../../lib/console/webhooks/read.ts';
import type { BodyProblem } from '../../lib/edge/webhooks/body.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import type { Config } from '../../lib/platform/config.ts';
import type { RefusalReason } from '../../lib/platform/schemes/scheme.ts';
import { DAY, HOUR } from '../../lib/platform/time.ts';
import { drainLive, placeEvents, numbers, openTransaction, payloadOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import { CANARY, secretsOf, sign } from '../support/webhook-senders.ts';

const standard = { scheme: 'standard', secrets: [secretsOf.standard[0]] } as const;
const settings: Config['webhooks'] = {
  cardpayments: standard,
  cardpayments_2: standard,
  walletpayments: standard,
  identityprovider: { scheme: 'criipto', secrets: [] },
};

const reconciliations: Config['reconciliations'] = {
  cardpayments: { api: 'stripe', url: 'https://stripe.example', key: 'rk_test_of_nobody' },
  walletpayments: undefined,
  identityprovider: undefined,
};

const everyone = ['payments', 'identity'].map((name) =>
  attach(name, Object.fromEntries(topicsOf(name).map((topic) => [topic, () => undefined]))),
);

/** What the page answers. */
const list = async (bus: Bus, query: Record<string, unknown> = {}) =>
  await readWebhooks(bus.db, endpointsOf({ webhooks: settings, reconciliations }), webhookQuery.parse(query));

describe('the receipts of webhooks', () => {
  test('are listed newest first with their events, across providers, and with repetitions and other bodies', async ({
    bus,
  }) => {
    await receive(bus, { id: 'evt_1' });
    await receive(bus, { id: 'evt_2', provider: 'walletpayments' });
    await receive(bus, { id: 'evt_3' });
    await drainLive(bus.db, everyone);
    await receive(bus, { id: 'evt_1' });
    await receive(bus, { id: 'evt_1', body: { type: 'charge.refunded', other: true } });
    const page = await list(bus);
    const [event] = await rows<{ id: string }>(
      bus.db,
      `select id::text from events where payload ->> 'eventId' = 'evt_3'`,
    );
    expect(page.items).toMatchObject([
      {
        provider: 'cardpayments',
        providerEventId: 'evt_3',
        eventType: 'charge.refunded',
        duplicates: 0,
        eventId: event!.id,
        state: 'delivered',
      },
      { provider: 'walletpayments', providerEventId: 'evt_2', duplicates: 0 },
      { provider: 'cardpayments', providerEventId: 'evt_1', duplicates: 2, mismatches: 1 },
    ]);
    expect(page.nextCursor).toBeNull();
    expect((await list(bus, { provider: 'walletpayments' })).items).toMatchObject([
      { providerEventId: 'evt_2' },
    ]);
  });

  test('of two accounts of a provider are told apart, also where their ids are equal', async ({ bus }) => {
    for (const provider of ['cardpayments', 'cardpayments_2']) await receive(bus, { id: 'evt_1', provider });
    await receive(bus, { id: 'evt_2' });
    await drainLive(bus.db, everyone);
    await receive(bus, { id: 'evt_3', provider: 'cardpayments_2' });
    await receive(bus, { id: 'evt_1', provider: 'cardpayments_2' });
    const received = async (query: Record<string, unknown>) =>
      (await list(bus, query)).items.map(
        ({ provider, providerEventId, duplicates }) => `${provider} ${providerEventId} ${duplicates}`,
      );
    const second = ['cardpayments_2 evt_3 0', 'cardpayments_2 evt_1 1'];
    expect(await received({})).toEqual([
      second[0],
      'cardpayments evt_2 0',
      second[1],
      'cardpayments evt_1 0',
    ]);
    expect(await received({ provider: 'cardpayments_2' })).toEqual(second);
    expect(await received({ id: 'evt_1' })).toEqual([second[1], 'cardpayments evt_1 0']);
    const { providers, items } = await list(bus, { provider: 'cardpayments_2' });
    expect(providers).toMatchObject([
      { provider: 'cardpayments_2', endpoint: 'configured', lastReceivedAt: items[0]!.receivedAt },
    ]);
  });

  test('that await their places are listed first, and no page misses or repeats one when they are placed meanwhile', async ({
    bus,
  }) => {
    const ids = numbers(1, 12).map((number) => `evt_${number}`);
    for (const id of ids.slice(0, 5)) await receive(bus, { id });
    await drainLive(bus.db, everyone);
    for (const id of ids.slice(5)) await receive(bus, { id });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list(bus, { limit: 2, ...(cursor && { cursor }) });
      seen.push(...page.items.map(({ providerEventId }) => providerEventId));
      cursor = page.nextCursor ?? undefined;
      // In the middle of the waiting ones.
      if (seen.length === 4) await drainLive(bus.db, everyone);
    } while (cursor);
    expect(seen).toEqual(ids.toReversed());
  });

  test('of several providers, of which a transaction holds back one, are each on one page', async ({
    bus,
  }) => {
    const ofWallet = async (id: string) => await receive(bus, { id, provider: 'walletpayments' });
    const heldBack = async () => {
      const open = await openTransaction(bus.url);
      await open.emit('webhook.cardpayments.received', payloadOf('webhook.cardpayments.received'));
      return open;
    };
    const pages = async (limit: number, meanwhile?: () => Promise<void>) => {
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await list(bus, { limit, ...(cursor && { cursor }) });
        seen.push(...page.items.map(({ providerEventId }) => providerEventId));
        cursor = page.nextCursor ?? undefined;
        if (seen.length === 2) await meanwhile?.();
      } while (cursor);
      return seen;
    };
    const first = await heldBack();
    for (const id of ['evt_1', 'evt_2', 'evt_3']) await receive(bus, { id });
    for (const id of ['evt_4', 'evt_5']) await ofWallet(id);
    await placeEvents(bus.db);
    const found = await pages(2);
    await first.rollback();
    expect(found).toEqual(['evt_5', 'evt_4', 'evt_3', 'evt_2', 'evt_1']);
    await placeEvents(bus.db);
    const second = await heldBack();
    for (const number of [1, 2, 3]) {
      await receive(bus, { id: `evt_1${number}` });
      await ofWallet(`evt_2${number}`);
    }
    const seen = await pages(1, async () => {
      await placeEvents(bus.db);
      await second.rollback();
      await placeEvents(bus.db);
    });
    expect(seen).toEqual(['evt_23', 'evt_13', 'evt_22', 'evt_12', 'evt_21', 'evt_11', ...found]);
  });

  test('are found by the provider’s id, also when their event is no longer kept', async ({ bus }) => {
    await receive(bus, { id: 'evt_1' });
    await receive(bus, { id: 'evt_2' });
    await drainLive(bus.db, everyone);
    expect((await list(bus, { id: 'evt_1' })).items).toMatchObject([
      { providerEventId: 'evt_1', state: 'delivered', eventId: expect.any(String) },
    ]);
    await forgetEvents(bus.db);
    expect((await list(bus, { id: 'evt_1' })).items).toMatchObject([
      { providerEventId: 'evt_1', state: null, eventId: null },
    ]);
    expect((await list(bus, { id: 'evt_9' })).items).toEqual([]);
  });

  test('a search that finds none leads to the refusals, which its page does not have', async ({
    operators,
  }) => {
    const { text } = await operators.ask('/webhooks?id=evt_9', { accept: BROWSER });
    expect(text).not.toContain('id="refused"');
    expect(text).toContain('it was refused: see Refused, which a search leaves out.');
  });
});

describe('the refusals of webhooks', () => {
  test('are counted by provider and reason, the latest first', async ({ bus, output }) => {
    output.text();
    const rejections = new Rejections(async () => bus.db);
    const before = Date.now();
    await expect(
      receive(bus, { id: 'evt_1', secret: secretsOf.standard[1], rejections }),
    ).rejects.toMatchObject({ code: 'invalid_signature' });
    await expect(receive(bus, { id: 'evt_2', provider: 'postcards', rejections })).rejects.toMatchObject({
      code: 'unknown_provider',
    });
    await expect(
      receive(bus, { id: 'evt_3', provider: 'identityprovider', rejections }),
    ).rejects.toMatchObject({ code: 'webhook_not_configured' });
    await rejections.flush();
    const { refusals } = await list(bus);
    const pairs = refusals.map(({ provider, reason }) => `${provider} ${reason}`);
    expect(pairs.toSorted()).toEqual([
      'cardpayments signature_mismatch',
      'identityprovider webhook_not_configured',
      'unknown unknown_provider',
    ]);
    const times = refusals.map(({ lastAt }) => Date.parse(lastAt));
    expect(times).toEqual(times.toSorted((one, other) => other - one));
    expect(Math.min(...times)).toBeGreaterThanOrEqual(before);
    expect(refusals[0]).toMatchObject({ last30Days: 1 });
  });

  test('have one time: the last of a reason is that of its newest refusal, also behind an earlier release', async ({
    bus,
  }) => {
    const rejections = new Rejections(async () => bus.db);
    rejections.count('cardpayments', 'signature_mismatch');
    await new Promise((resolve) => setTimeout(resolve, 30));
    await rejections.flush();
    const lastOf = async () => (await list(bus)).refusals[0]!.lastAt;
    const newest = await lastOf();
    const stored = await rows(bus.db, 'select from webhook_rejections where last_at = recent_at[1]');
    expect(stored).toHaveLength(1);
    // An earlier release writes when it wrote.
    await rows(bus.db, `update webhook_rejections set last_at = last_at + interval '9 seconds'`);
    expect(await lastOf()).toBe(newest);
  });

  test('keep the newest times of a day only, so that a flood writes no more than a few do', async ({
    bus,
  }) => {
    const first = new Rejections(async () => bus.db);
    const second = new Rejections(async () => bus.db);
    for (let n = 0; n < 10_000; n += 1) (n % 2 ? first : second).count('cardpayments', 'signature_mismatch');
    await Promise.all([first.flush(), second.flush()]);
    const stored = await rows<{ count: number; times: number }>(
      bus.db,
      'select count::int, cardinality(recent_at) as times from webhook_rejections',
    );
    expect(stored).toEqual([{ count: 10_000, times: expect.any(Number) }]);
    expect(stored[0]!.times).toBeLessThanOrEqual(20);
    expect((await list(bus)).refusals).toMatchObject([{ last30Days: 10_000 }]);
  });

  test('of a release that keeps no times are counted all the same, and older than 30 days not listed', async ({
    bus,
  }) => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       select 'cardpayments', reason, (now() at time zone 'utc')::date - days_ago, count, now() - days_ago * interval '1 day'
       from (values ('missing_header', 0, 3), ('missing_header', 1, 4), ('invalid_json', 42, 5)) as refused (reason, days_ago, count)`,
    );
    const { refusals } = await list(bus);
    expect(refusals).toMatchObject([{ reason: 'missing_header', last30Days: 7 }]);
  });
});

test('Every reason for a refusal is explained to operators.', () => {
  // The compiler asks for each reason.
  const reasons: Record<RefusalReason | BodyProblem, true> = {
    no_usable_secret: true,
    missing_header: true,
    malformed_header: true,
    timestamp_out_of_tolerance: true,
    content_hash_mismatch: true,
    signature_mismatch: true,
    invalid_utf8: true,
    invalid_json: true,
    not_an_object: true,
    unsupported_text: true,
    too_deep: true,
    unsupported_number: true,
  };
  const all = [...Object.keys(reasons), ...webhookRoute.problems, 'webhook_not_configured'];
  const explained = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
  const never = new Set<string>(['invalid_signature', 'database_unavailable']);
  expect(all.filter((reason) => !never.has(reason) && !explained.includes(`\`${reason}\``))).toEqual([]);
});

describe('what was set aside', () => {
  test('is listed newest first until it is unclaimed', async ({ bus }) => {
    const now = Date.now();
    for (const [index, ago] of [3 * HOUR, HOUR, 2 * HOUR].entries())
      await setAside(bus, `pi_${index}`, new Date(now - ago), null);
    await setAside(bus, 'pi_old', new Date(now - 4 * DAY), new Date(now - DAY));
    const { setAside: waiting } = await list(bus, { limit: 2 });
    expect(waiting).toMatchObject([{ intentId: 'pi_1', outcome: 'captured' }, { intentId: 'pi_2' }]);
  });
});

test('The providers are listed with their endpoint: configured, not configured, or misconfigured.', async ({
  bus,
}) => {
  await receive(bus, { id: 'evt_1' });
  const wrong = { ...settings, walletpayments: { scheme: 'standard', secrets: ['not base64'] } } as const;
  const { providers } = await readWebhooks(
    bus.db,
    endpointsOf({ webhooks: wrong, reconciliations }),
    webhookQuery.parse({}),
  );
  expect(providers).toMatchObject([
    { provider: 'cardpayments', endpoint: 'configured', lastReceivedAt: expect.any(String) },
    { provider: 'cardpayments_2', endpoint: 'configured', lastReceivedAt: null },
    { provider: 'walletpayments', endpoint: 'misconfigured', lastReceivedAt: null },
    { provider: 'identityprovider', endpoint: 'not_configured', scheme: 'criipto' },
  ]);
});

test('The page and its answer show no body, and a wrong query says what would be right.', async ({
  bus,
  operators,
}) => {
  await receive(bus, { id: 'evt_1' });
  await rows(
    bus.db,
    `insert into webhook_rejections (provider, reason, day, count, last_at, recent_at) values
    ('unknown', 'unknown_provider', (now() at time zone 'utc')::date, 2, now(), array[now()])`,
  );
  await setAside(bus, 'pi_1', new Date(), null);
  for (const accept of ['application/json', 'text/html']) {
    const { status, text } = await operators.ask('/webhooks', { accept });
    expect(status).toBe(200);
    expect(text).toContain('evt_1');
    expect(text).not.toContain(CANARY);
  }
  const { status, json } = await operators.ask('/webhooks?provider=stripe');
  expect([status, json['detail']]).toEqual([
    400,
    'provider: expected one of cardpayments, walletpayments, identityprovider, or a further account such as cardpayments_2',
  ]);
});

interface Sent {
  readonly id: string;
  readonly provider?: string;
  readonly body?: object;
  readonly secret?: string;
  readonly rejections?: Rejections;
}

async function receive(bus: Bus, sent: Sent): Promise<void> {
  const { id, provider = 'cardpayments', body = { type: 'charge.refunded', data: CANARY }, secret } = sent;
  const now = Math.floor(Date.now() / 1000);
  const bytes = Buffer.from(JSON.stringify(body));
  const signature = sign('standard', bytes, { id, at: now, ...(secret && { secret }) });
  await receiveWebhook({
    request: new Request(`https://postbud.example/webhooks/${provider}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...signature },
      body: bytes,
    }),
    requestId: 'req-1',
    settings,
    database: async () => bus.db,
    rejections: sent.rejections ?? new Rejections(async () => bus.db),
    now,
  });
}

async function setAside(bus: Bus, intentId: string, at: Date, unclaimedAt: Date | null): Promise<void> {
  await rows(
    bus.db,
    `insert into webhooks_set_aside (event_id, provider, intent_id, provider_event_id, correlation_id, created_at, seq,
       outcome, set_aside_at, unclaimed_at)
     values (gen_random_uuid(), 'cardpayments', $1, 'evt_' || $1, 'c', $2, 1, '{"state": "captured"}', $2, $3)`,
    [intentId, at.toISOString(), unclaimedAt?.toISOString() ?? null],
  );
}
