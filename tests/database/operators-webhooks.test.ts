import { describe, expect } from 'vitest';

import { attach, topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import { webhookQuery } from '../../lib/console/webhooks/query.ts';
import { readWebhooks } from '../../lib/console/webhooks/read.ts';
import { meaningOf } from '../../lib/console/webhooks/reasons.ts';
import type { BodyProblem } from '../../lib/edge/webhooks/body.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import type { Config } from '../../lib/platform/config.ts';
import type { RefusalReason } from '../../lib/platform/schemes/scheme.ts';
import { DAY, HOUR } from '../../lib/platform/time.ts';
import { drainLive, placeEvents, numbers, openTransaction, payloadOf, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
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
const list = async (bus: Bus, query: Record<string, unknown> = {}, now?: Date) =>
  await readWebhooks(
    bus.db,
    endpointsOf({ webhooks: settings, reconciliations }),
    webhookQuery.parse(query),
    now,
  );

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
    const { receipts } = await list(bus);
    const [event] = await rows<{ id: string }>(
      bus.db,
      `select id::text from events where payload ->> 'eventId' = 'evt_3'`,
    );
    expect(receipts.items).toMatchObject([
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
    expect(receipts.items[2]!.lastDuplicateAt).not.toBeNull();
    expect(receipts.nextCursor).toBeNull();
    expect((await list(bus, { provider: 'walletpayments' })).receipts.items).toMatchObject([
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
      (await list(bus, query)).receipts.items.map(
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
    const { providers } = await list(bus, { provider: 'cardpayments_2' });
    expect(providers).toMatchObject([{ provider: 'cardpayments_2', endpoint: 'configured' }]);
    const [event] = await rows<{ at: Date }>(
      bus.db,
      `select created_at as at from events where payload ->> 'eventId' = 'evt_3'`,
    );
    expect(new Date(providers[0]!.lastReceivedAt!)).toEqual(event!.at);
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
      const { receipts } = await list(bus, { limit: 2, ...(cursor && { cursor }) });
      seen.push(...receipts.items.map(({ providerEventId }) => providerEventId));
      cursor = receipts.nextCursor ?? undefined;
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
        const { receipts } = await list(bus, { limit, ...(cursor && { cursor }) });
        seen.push(...receipts.items.map(({ providerEventId }) => providerEventId));
        cursor = receipts.nextCursor ?? undefined;
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
    expect((await list(bus, { id: 'evt_1' })).receipts.items).toMatchObject([
      { providerEventId: 'evt_1', state: 'delivered', eventId: expect.any(String) },
    ]);
    await forgetEvents(bus.db);
    expect((await list(bus, { id: 'evt_1' })).receipts.items).toMatchObject([
      { providerEventId: 'evt_1', state: null, eventId: null },
    ]);
    expect((await list(bus, { id: 'evt_9' })).receipts.items).toEqual([]);
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
  test('are listed newest first with their reason and time, paged, beside the counts of each reason', async ({
    bus,
    output,
  }) => {
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
    const pairs = refusals.items.map(({ provider, reason }) => `${provider} ${reason}`);
    expect(pairs.toSorted()).toEqual([
      'cardpayments signature_mismatch',
      'identityprovider webhook_not_configured',
      'unknown unknown_provider',
    ]);
    const times = refusals.items.map(({ refusedAt }) => Date.parse(refusedAt));
    expect(times).toEqual(times.toSorted((one, other) => other - one));
    expect(Math.min(...times)).toBeGreaterThanOrEqual(before);
    expect(refusals.byReason).toHaveLength(3);
    expect(refusals.byReason[0]).toMatchObject({ today: 1, last30Days: 1, meaning: expect.any(String) });
    const paged: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = await list(bus, { limit: 1, ...(cursor && { cursor }) });
      paged.push(...page.refusals.items.map(({ provider, reason }) => `${provider} ${reason}`));
      cursor = page.refusals.nextCursor ?? undefined;
      if (!cursor) break;
    }
    expect(paged).toEqual(pairs);
    expect((await list(bus, { provider: 'unknown' })).refusals.items).toMatchObject([
      { provider: 'unknown', reason: 'unknown_provider' },
    ]);
  });

  test('have one time: the last of a reason is that of its newest refusal, also behind an earlier release', async ({
    bus,
  }) => {
    const rejections = new Rejections(async () => bus.db);
    rejections.count('cardpayments', 'signature_mismatch');
    await new Promise((resolve) => setTimeout(resolve, 30));
    await rejections.flush();
    const lastOf = async () => {
      const { refusals } = await list(bus);
      return [refusals.byReason[0]!.lastAt, refusals.items[0]!.refusedAt];
    };
    const [last, newest] = await lastOf();
    expect(last).toBe(newest);
    const stored = await rows(bus.db, 'select from webhook_rejections where last_at = recent_at[1]');
    expect(stored).toHaveLength(1);
    // An earlier release writes when it wrote.
    await rows(bus.db, `update webhook_rejections set last_at = last_at + interval '9 seconds'`);
    expect(await lastOf()).toEqual([newest, newest]);
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
    expect((await list(bus)).refusals.byReason).toMatchObject([{ today: 10_000 }]);
  });

  test('of a release that keeps no times are counted all the same, and older than 30 days not listed', async ({
    bus,
  }) => {
    const now = new Date('2026-02-21T12:00:00Z');
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at) values
         ('cardpayments', 'missing_header', '2026-02-21', 3, '2026-02-21T11:00:00Z'),
         ('cardpayments', 'missing_header', '2026-02-20', 4, '2026-02-20T11:00:00Z'),
         ('cardpayments', 'invalid_json', '2026-01-10', 5, '2026-01-10T11:00:00Z')`,
    );
    const { refusals, providers } = await list(bus, {}, now);
    expect(refusals.byReason).toMatchObject([{ reason: 'missing_header', today: 3, last30Days: 7 }]);
    expect(refusals.items).toEqual([]);
    expect(providers[0]).toMatchObject({ provider: 'cardpayments', refusedToday: 3 });
  });
});

test('Every reason for a refusal has a meaning.', () => {
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
  const never = ['invalid_signature', 'database_unavailable'];
  expect(all.filter((reason) => meaningOf(reason) === reason)).toEqual(never);
});

describe('what was set aside', () => {
  test('is listed newest first until it is unclaimed, with its event and the end of its wait', async ({
    bus,
  }) => {
    const now = Date.now();
    for (const [index, ago] of [3 * HOUR, HOUR, 2 * HOUR].entries())
      await setAside(bus, `pi_${index}`, new Date(now - ago), null);
    await setAside(bus, 'pi_old', new Date(now - 4 * DAY), new Date(now - DAY));
    const first = await list(bus, { limit: 2 });
    expect(first.setAside.items).toMatchObject([
      { intentId: 'pi_1', outcome: 'captured' },
      { intentId: 'pi_2' },
    ]);
    const [newest] = first.setAside.items;
    expect(Date.parse(newest!.unclaimedAt!) - Date.parse(newest!.setAsideAt)).toBe(3 * DAY);
    const second = await list(bus, { limit: 2, cursor: first.setAside.nextCursor! });
    expect(second.setAside.items).toMatchObject([{ intentId: 'pi_0' }]);
    expect(second.setAside.nextCursor).toBeNull();
    expect(first.providers[0]).toMatchObject({ provider: 'cardpayments', setAside: 3 });
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
    'provider: expected one of cardpayments, walletpayments, identityprovider, unknown, or a further account such as cardpayments_2',
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
