import { describe, expect } from 'vitest';
import { z } from 'zod';

import { InvalidConfiguration } from '../../lib/config.ts';
import type { Config, Provider } from '../../lib/config.ts';
import { reconciling } from '../../lib/cron/reconciling.ts';
import { runCron } from '../../lib/cron/run-cron.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { createPaymentIntent, payments } from '../../lib/subscribers/payments.ts';
import { OUTCOME_TYPES } from '../../lib/subscribers/payments/provider-outcome.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/time.ts';
import { receiveWebhook } from '../../lib/webhooks/receive.ts';
import { reconcile } from '../../lib/webhooks/reconcile/step.ts';
import { Rejections } from '../../lib/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/webhooks/route.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { test as busTest } from '../support/bus-test.ts';
import { PATIENTLY } from '../support/patience.ts';
import { told } from '../support/payments.ts';
import { ProviderApis, stripeBody, vippsBody } from '../support/provider-apis.ts';
import type { Misbehaviour, StripeEvent, VippsEntry } from '../support/provider-apis.ts';
import { randomFrom } from '../support/random.ts';
import { CANARY, secretsOf, sign } from '../support/webhook-senders.ts';

/** The providers, whose webhooks reach Postbud or do not, and the reconciliation with a clock of its own. */
class Story {
  readonly bus: Bus;
  readonly apis: ProviderApis;
  /** The reconciliation's clock. Webhooks are signed, and events created, by the real one. */
  now = Date.now();
  readonly #post: (request: Request) => Promise<Response>;
  #made = 0;

  constructor(bus: Bus, apis: ProviderApis) {
    this.bus = bus;
    this.apis = apis;
    const database = async () => bus.db;
    const rejections = new Rejections(database);
    const { fetch } = endpoint(webhookRoute, {
      handle: async (request, { requestId }) =>
        Response.json(await receiveWebhook({ request, requestId, settings: SIGNED, database, rejections })),
    });
    this.#post = async (request) => await fetch(request);
  }

  /** Something happens to a card payment. Its webhook is not sent. */
  happen(type: string, object: object, { at = Date.now() } = {}): StripeEvent {
    this.#made += 1;
    const id = `evt_${this.#made}`;
    const event = { id, type, created: Math.floor(at / SECOND), data: { object }, isDelivered: false };
    this.apis.stripe.push(event);
    return event;
  }

  /** Something happens to a wallet payment. Its webhook is not sent. */
  log(reference: string, name: string, value: number, { at = Date.now(), success = true } = {}): VippsEntry {
    this.#made += 1;
    const entry = {
      reference,
      pspReference: `psp-${this.#made}`,
      name,
      amount: { currency: 'NOK', value },
      timestamp: new Date(at).toISOString(),
      idempotencyKey: null,
      success,
    };
    const known = this.apis.vipps.get(reference);
    if (known) known.push(entry);
    else this.apis.vipps.set(reference, [entry]);
    return entry;
  }

  /** Sends the webhook of what happened, signed, to the endpoint. */
  async send(what: StripeEvent | VippsEntry): Promise<{ status: number; json: unknown }> {
    const [provider, scheme, fields] =
      'reference' in what
        ? (['walletpayments', 'vipps', vippsBody(what)] as const)
        : (['cardpayments', 'stripe', stripeBody(what)] as const);
    const url = `https://postbud.example/webhooks/${provider}`;
    const body = Buffer.from(JSON.stringify(fields));
    const headers = {
      'content-type': 'application/json',
      ...sign(scheme, body, { at: Math.floor(Date.now() / SECOND), url }),
    };
    const response = await this.#post(new Request(url, { method: 'POST', headers, body }));
    if (response.ok && 'isDelivered' in what) what.isDelivered = true;
    return { status: response.status, json: await response.json() };
  }

  /** Takes one step of each provider that is due. @returns in how many milliseconds the next one is due. */
  async step(settings = this.apis.settings): Promise<number | null> {
    return await reconcile(this.bus.db, { settings, types: OUTCOME_TYPES, now: new Date(this.now) });
  }

  /** Lets the time pass until both providers have nothing left to ask for. */
  async reconcile(settings = this.apis.settings): Promise<void> {
    this.now += 20 * MINUTE;
    for (let steps = 0; steps < 500; steps += 1) {
      const waitMs = await this.step(settings);
      if (waitMs === null || waitMs >= 5 * MINUTE) return;
      this.now += Math.max(waitMs, 1);
    }
    throw new Error('the reconciliation does not come to an end');
  }

  async progress(provider: Provider) {
    const [row] = await rows<{
      found: number;
      failures: number;
      error: string | null;
      waitMs: number;
      cursor: string | null;
    }>(
      this.bus.db,
      `select found::int, failures, error, cursor,
         round(extract(epoch from next_at - $2::timestamptz) * 1000)::float8 as "waitMs"
       from reconciliations where provider = $1`,
      [provider, new Date(this.now).toISOString()],
    );
    return row;
  }

  async receipts(): Promise<string[]> {
    const found = await rows<{ id: string }>(
      this.bus.db,
      `select provider || ' ' || event_id as id from webhook_receipts order by 1`,
    );
    return found.map(({ id }) => id);
  }

  /** The receipts that there must be: one for each webhook that the providers owe. */
  ledger(): string[] {
    const wallet = [...this.apis.vipps.values()]
      .flat()
      .filter(({ name }) => OUTCOME_TYPES.walletpayments.includes(name))
      .map(({ name, reference, pspReference }) => `walletpayments ${name}:${reference}:${pspReference}`);
    const card = this.apis.stripe
      .filter(({ type }) => OUTCOME_TYPES.cardpayments.includes(type))
      .map(({ id }) => `cardpayments ${id}`);
    return [...card, ...wallet].toSorted();
  }
}

const NOT_USED = { scheme: 'standard', secrets: [] } as const;

const SIGNED: Config['webhooks'] = {
  cardpayments: { scheme: 'stripe', secrets: [secretsOf.stripe[0]] },
  walletpayments: { scheme: 'vipps', secrets: [secretsOf.vipps[0]] },
  identityprovider: NOT_USED,
};

const test = busTest.extend('story', async ({ bus, output }, { onCleanup }) => {
  const apis = await ProviderApis.start();
  onCleanup(async () => {
    await apis.close();
    // No log line of any test holds a key, a token, or what a provider answered.
    expect(output.text()).not.toContain(CANARY);
  });
  return new Story(bus, apis);
});

const PAYMENTS = 60;
const SEED = Number(process.env['SEED'] ?? 20_260_221);

/**
 * Pays, captures in parts, fails and refunds. Of the webhooks 30 % are lost, 10 % come after the reconciliation, 10 % come
 * twice, and of 5 % the answer is lost, so that the provider takes them for lost.
 *
 * @returns the webhooks that are still on their way, and what must be told of the payments, sorted.
 */
async function play(story: Story, seed = SEED) {
  const random = randomFrom(seed);
  const late: (StripeEvent | VippsEntry)[] = [];
  const expected: string[] = [];
  const lost = { count: 0 };
  const transmit = async (what: StripeEvent | VippsEntry) => {
    const fate = random();
    if (fate < 0.3) lost.count += 1;
    else if (fate < 0.4) late.push(what);
    else {
      expect(await story.send(what)).toMatchObject({ status: 200, json: { duplicate: false } });
      if (fate < 0.5) expect(await story.send(what)).toMatchObject({ json: { duplicate: true } });
      if (fate > 0.95 && 'isDelivered' in what) what.isDelivered = false;
    }
  };
  for (let number = 1; number <= PAYMENTS; number += 1) {
    const amountMinor = 1000 + number;
    const common = { bookingId: `bkg_${number}`, amountMinor, currency: 'NOK' };
    const isRefunded = random() < 0.3;
    const hasFailed = !isRefunded && random() < 0.2;
    if (number % 2 === 0) {
      const id = `pi_${number}`;
      await createPaymentIntent(story.bus.db, { ...common, id, provider: 'cardpayments' });
      // Of a type that means nothing here: another endpoint of the account has missed it.
      story.happen('payment_intent.created', { id });
      if (hasFailed) {
        await transmit(story.happen('payment_intent.payment_failed', { id, last_payment_error: null }));
        expected.push(`${id} failed`);
        continue;
      }
      const paid = { id, amount_received: amountMinor, currency: 'nok' };
      await transmit(story.happen('payment_intent.succeeded', paid));
      expected.push(`${id} captured ${amountMinor}`);
      if (!isRefunded) continue;
      const charge = { id: `ch_${number}`, payment_intent: id, amount_refunded: 400, currency: 'nok' };
      await transmit(story.happen('charge.refunded', charge));
      expected.push(`${id} refunded 400`);
      continue;
    }
    const id = `wallet-payment-${number}`;
    await createPaymentIntent(story.bus.db, { ...common, id, provider: 'walletpayments' });
    story.log(id, 'CREATED', amountMinor);
    if (hasFailed) {
      await transmit(story.log(id, 'ABORTED', amountMinor));
      expected.push(`${id} failed`);
      continue;
    }
    story.log(id, 'AUTHORIZED', amountMinor);
    await transmit(story.log(id, 'CAPTURED', 600));
    await transmit(story.log(id, 'CAPTURED', amountMinor - 600));
    expected.push(`${id} captured 600`, `${id} captured ${amountMinor - 600}`);
    if (!isRefunded) continue;
    await transmit(story.log(id, 'REFUNDED', 500));
    expected.push(`${id} refunded 500`);
  }
  return { late, lost: lost.count, expected: expected.toSorted() };
}

describe('providers that lose 30 % of their webhooks, delay 10 % and double 10 %', () => {
  test('after a reconciliation the receipts equal their ledger, and each payment is told once', async ({
    story,
  }) => {
    const { late, lost, expected } = await play(story);
    expect(late.length).toBeGreaterThan(3);
    expect(lost).toBeGreaterThan(10);
    await drainLive(story.bus.db, [payments]);
    expect(await story.receipts()).not.toEqual(story.ledger());
    await story.reconcile();
    expect(await story.receipts()).toEqual(story.ledger());
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
    // What comes after all is a duplicate, and no mismatch, although its body is not the API's byte for byte.
    for (const what of late)
      expect(await story.send(what)).toMatchObject({ status: 200, json: { duplicate: true } });
    await story.reconcile();
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
    const [counted] = await rows(
      story.bus.db,
      `select count(*) filter (where reconciled_at is not null)::int as found, sum(body_mismatches)::int as mismatches,
         (select sum(found)::int from reconciliations) as counted from webhook_receipts`,
    );
    expect(counted).toEqual({ found: lost + late.length, mismatches: 0, counted: lost + late.length });
    expect(await contradictions(story.bus.db)).toEqual([]);
  });

  test('without a reconciliation the lost webhooks are missing, and payments are never told', async ({
    story,
  }) => {
    const { late, lost, expected } = await play(story);
    for (const what of late) await story.send(what);
    await drainLive(story.bus.db, [payments]);
    expect(story.ledger().length - (await story.receipts()).length).toBe(lost);
    expect((await told(story.bus.db)).length).toBeLessThan(expected.length);
  });

  test('eight processes that reconcile while webhooks come find each event once, and ask each page once', async ({
    story,
  }) => {
    const { late, expected } = await play(story, SEED + 1);
    story.now += 20 * MINUTE;
    for (let turn = 0; turn < 20; turn += 1) {
      const arriving = late.splice(0, 2).map((what) => story.send(what));
      await Promise.all([...arriving, ...Array.from({ length: 8 }, () => story.step())]);
      story.now += 10 * SECOND;
    }
    expect(await story.receipts()).toEqual(story.ledger());
    const logs = story.apis.asked.filter((path) => path.startsWith('/epayment/'));
    expect(new Set(logs).size).toBe(logs.length);
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
  });
});

describe('a provider that does not answer as it should', () => {
  const cases: readonly (readonly [Misbehaviour, error: string, waitMs: number])[] = [
    [500, 'answered 500', MINUTE],
    [401, 'answered 401: it does not accept the key', MINUTE],
    [403, 'answered 403: the key lacks a permission', MINUTE],
    [{ status: 302, retryAfter: '' }, 'answered 302', MINUTE],
    [{ status: 429, retryAfter: '90' }, 'answered 429: too many requests', 90 * SECOND],
    [{ status: 503, retryAfter: '1' }, 'answered 503', MINUTE],
    [{ status: 429, retryAfter: '999999' }, 'answered 429: too many requests', HOUR],
    ['reset', 'unreachable UND_ERR_SOCKET', MINUTE],
    ['html', 'answered something that cannot be read', MINUTE],
    ['other JSON', 'answered something that cannot be read', MINUTE],
    ['endless', 'answered more than 16 MiB', MINUTE],
  ];
  test.for(cases)(
    'after %j it is asked again later, and nothing is lost',
    async ([how, error, waitMs], { story }) => {
      await pay(story, 3);
      story.now += 20 * MINUTE;
      for (const provider of ['cardpayments', 'walletpayments'] as const) {
        const only = { ...NOBODY, [provider]: story.apis.settings[provider] };
        story.apis.behave([how]);
        expect(await story.step(only)).toBe(waitMs);
        expect(await story.progress(provider)).toMatchObject({ failures: 1, error, waitMs });
        const calls = story.apis.asked.length;
        story.now += waitMs - 1;
        await story.step(only);
        expect(story.apis.asked).toHaveLength(calls);
        story.now += 1;
        await story.reconcile(only);
        expect(await story.progress(provider)).toMatchObject({ failures: 0, found: 3 });
      }
      expect(await story.receipts()).toEqual(story.ledger());
    },
  );

  test('waits longer after each failure, up to half an hour', async ({ story }) => {
    story.apis.behave([], 500);
    const waits: (number | null)[] = [];
    for (let failure = 0; failure < 8; failure += 1) {
      const waitMs = await story.step({ ...NOBODY, cardpayments: story.apis.settings.cardpayments });
      waits.push(waitMs! / MINUTE);
      story.now += waitMs!;
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30, 30]);
  });

  test('keeps the cron from nothing while it hangs: events are delivered, and the run ends', async ({
    story,
    ledger,
    handed,
  }) => {
    story.apis.behave([], 'hang');
    await emitPayments(story.bus.db, 1, 1);
    const running = runCron({
      db: story.bus.db,
      subscribers: [ledger()],
      duties: [],
      work: [reconciling(() => story.apis.settings)],
      budgetMs: 1 * SECOND,
    });
    await expect.poll(() => story.apis.asked.length, PATIENTLY).toBe(1);
    await expect.poll(() => handed, PATIENTLY).toEqual([1]);
    const report = z.object({ undone: z.array(z.string()) }).parse(await (await running).json());
    expect(report.undone).toEqual([]);
    story.now = Date.now();
    expect(await story.progress('cardpayments')).toMatchObject({
      failures: 1,
      error: 'did not answer in time',
    });
  });
});

describe('Stripe', () => {
  const settingsOf = ({ apis }: Story) => ({ ...NOBODY, cardpayments: apis.settings.cardpayments });

  test('is asked page by page, and an outage between two pages is no reason to begin again', async ({
    story,
  }) => {
    await pay(story, 250);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(0);
    story.apis.behave(['reset']);
    story.now += (await story.step(settingsOf(story)))!;
    expect(await story.progress('cardpayments')).toMatchObject({
      found: 100,
      failures: 1,
      cursor: 'evt_301',
    });
    while ((await story.step(settingsOf(story))) === 0);
    const cursors = story.apis.asked.map((path) =>
      new URL(path, story.apis.url).searchParams.get('starting_after'),
    );
    expect(cursors).toEqual([null, 'evt_301', 'evt_301', 'evt_101']);
    expect(await story.progress('cardpayments')).toMatchObject({ found: 250, failures: 0, cursor: null });
  });

  test('that no longer knows the event where a walk was is asked from the beginning', async ({ story }) => {
    await pay(story, 150);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(0);
    const [forgotten] = story.apis.stripe.splice(50, 1);
    expect(await story.progress('cardpayments')).toMatchObject({ cursor: forgotten!.id });
    story.now += (await story.step(settingsOf(story)))!;
    expect(await story.progress('cardpayments')).toMatchObject({ cursor: null, error: 'answered 400' });
    await story.reconcile(settingsOf(story));
    expect(await story.progress('cardpayments')).toMatchObject({ found: 150, failures: 0 });
  });

  test('is asked 30 days back at first, then from the last time on with an hour in common', async ({
    story,
  }) => {
    story.now = Date.parse('2031-05-04T10:00:00Z');
    await story.step(settingsOf(story));
    story.now += 3 * HOUR;
    await story.step(settingsOf(story));
    const range = (path: string) => {
      const { searchParams } = new URL(path, story.apis.url);
      return ['created[gte]', 'created[lt]'].map((name) =>
        new Date(Number(searchParams.get(name)) * SECOND).toISOString(),
      );
    };
    expect(story.apis.asked.map(range)).toEqual([
      ['2031-04-04T09:55:00.000Z', '2031-05-04T09:55:00.000Z'],
      ['2031-05-04T08:55:00.000Z', '2031-05-04T12:55:00.000Z'],
    ]);
  });

  test('lists an event whose webhook may be on its way, which is left to the webhook', async ({ story }) => {
    const paid = { id: 'pi_1', amount_received: 1, currency: 'nok' };
    story.happen('payment_intent.succeeded', paid, { at: story.now - 4 * MINUTE });
    await story.step(settingsOf(story));
    expect(await story.receipts()).toEqual([]);
    story.now += 5 * MINUTE;
    await story.step(settingsOf(story));
    expect(await story.receipts()).toEqual(['cardpayments evt_1']);
  });

  test('lists an event that cannot be stored, which keeps back no other', async ({ story }) => {
    await pay(story, 2);
    story.happen('charge.refunded', { id: 'a\0b' });
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toHaveLength(2);
    expect(await story.progress('cardpayments')).toMatchObject({
      failures: 0,
      error: '1 of 3 events cannot be stored',
    });
  });
});

describe('Vipps', () => {
  const settingsOf = ({ apis }: Story) => ({ ...NOBODY, walletpayments: apis.settings.walletpayments });
  const logsAsked = ({ apis }: Story) => apis.asked.filter((path) => path.endsWith('/events')).length;

  /** Lets days pass. The cron asks more often, but nothing here changes in three hours. */
  async function passDays(story: Story, days: number): Promise<void> {
    for (const end = story.now + days * DAY; story.now < end; story.now += 3 * HOUR)
      await story.step(settingsOf(story));
  }

  test('is asked the less often the older an open payment is, and finds its late capture within a day', async ({
    story,
  }) => {
    await intend(story, 'wallet-reserved');
    story.log('wallet-reserved', 'AUTHORIZED', 900);
    await passDays(story, 30);
    expect(logsAsked(story)).toBeGreaterThan(25);
    expect(logsAsked(story)).toBeLessThan(40);
    const { pspReference } = story.log('wallet-reserved', 'CAPTURED', 900, { at: story.now });
    await passDays(story, 1.1);
    expect(await story.receipts()).toEqual([`walletpayments CAPTURED:wallet-reserved:${pspReference}`]);
  });

  test('is no longer asked about a payment that is over', async ({ story }) => {
    const ends: Readonly<Record<string, readonly (readonly [string, number])[]>> = {
      'wallet-aborted': [['ABORTED', 900]],
      'wallet-cancelled': [
        ['AUTHORIZED', 900],
        ['CANCELLED', 900],
      ],
      'wallet-refunded': [
        ['AUTHORIZED', 900],
        ['CAPTURED', 600],
        ['CANCELLED', 300],
        ['REFUNDED', 600],
      ],
    };
    for (const [id, entries] of Object.entries(ends)) {
      await intend(story, id);
      for (const [name, value] of entries) story.log(id, name, value);
    }
    story.now += 20 * MINUTE;
    await passDays(story, 40);
    expect(logsAsked(story)).toBe(3);
  });

  test('finds the refund of a captured payment within a week', async ({ story }) => {
    await intend(story, 'wallet-captured');
    await story.send(story.log('wallet-captured', 'AUTHORIZED', 900));
    await story.send(story.log('wallet-captured', 'CAPTURED', 900));
    await drainLive(story.bus.db, [payments]);
    await passDays(story, 60);
    expect(logsAsked(story)).toBeLessThan(25);
    story.log('wallet-captured', 'REFUNDED', 900, { at: story.now });
    await passDays(story, 7.1);
    await drainLive(story.bus.db, [payments]);
    expect(await told(story.bus.db)).toEqual([
      'wallet-captured captured 900',
      'wallet-captured refunded 900',
    ]);
  });

  test('is asked a dozen payments at a time, the open ones first', async ({ story }) => {
    for (let number = 1; number <= 30; number += 1) await intend(story, `wallet-number-${number}`);
    await rows(
      story.bus.db,
      `update payment_intents set state = 'captured', ask_at = ask_at - interval '1 hour' where id like '%2'`,
    );
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(10 * SECOND);
    expect(logsAsked(story)).toBe(12);
    expect(story.apis.asked.some((path) => path.includes('2/events'))).toBe(false);
  });

  test('answers nonsense about one payment, which keeps back no other', async ({ story }) => {
    await intend(story, 'wallet-strange');
    story.apis.vipps.set('wallet-strange', [{} as VippsEntry]);
    await pay(story, 2);
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toEqual(story.ledger().filter((id) => id.includes('wallet-payment')));
    expect(await story.progress('walletpayments')).toMatchObject({
      failures: 0,
      error: '1 of 3 payments: answered something that cannot be read',
    });
  });

  test('whose log names other operations than its webhooks did is not believed: no money is told twice', async ({
    story,
    output,
  }) => {
    await intend(story, 'wallet-two-names');
    await story.send(story.log('wallet-two-names', 'CAPTURED', 900));
    await drainLive(story.bus.db, [payments]);
    story.apis.vipps.set('wallet-two-names', []);
    story.log('wallet-two-names', 'CAPTURED', 900);
    await pay(story, 1);
    await story.reconcile(settingsOf(story));
    await drainLive(story.bus.db, [payments]);
    expect(await told(story.bus.db)).toEqual([
      'wallet-two-names captured 900',
      'wallet-payment-1 captured 900',
    ]);
    expect(output.linesOf('a provider was asked in part')).toMatchObject([
      {
        reason:
          '1 of 2 payments: the log lacks a capture or refund that a webhook reported, so nothing of it was taken in',
      },
    ]);
  });

  test('refuses a token that it gave out before, and is given another one', async ({ story }) => {
    await pay(story, 1);
    await story.reconcile(settingsOf(story));
    story.apis.revokeToken();
    await intend(story, 'wallet-later');
    story.log('wallet-later', 'CAPTURED', 900);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(MINUTE);
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toHaveLength(2);
  });
});

test('nobody is asked without a key, and a wrong key of one provider leaves the other', async ({ story }) => {
  await pay(story, 1);
  story.now += 20 * MINUTE;
  expect(await story.step(NOBODY)).toBeNull();
  expect(story.apis.asked).toEqual([]);
  const wrong = Object.defineProperty({ ...story.apis.settings }, 'cardpayments', {
    enumerable: true,
    get: () => {
      throw new InvalidConfiguration('WEBHOOK_CARDPAYMENTS_RECONCILE_KEY', 'must be another');
    },
  });
  await story.step(wrong);
  expect(story.apis.asked.filter((path) => path.startsWith('/v1'))).toEqual([]);
  expect(await story.receipts()).toHaveLength(1);
});

const NOBODY: Config['reconciliations'] = {
  cardpayments: undefined,
  walletpayments: undefined,
  identityprovider: undefined,
};

async function intend(story: Story, id: string): Promise<void> {
  const intent = { id, bookingId: 'bkg_1', amountMinor: 900, currency: 'NOK' } as const;
  const provider = id.startsWith('pi_') ? 'cardpayments' : 'walletpayments';
  await createPaymentIntent(story.bus.db, { ...intent, provider });
}

/** Pays so many card payments and as many of the wallet's, twelve at most; all webhooks are lost. */
async function pay(story: Story, count: number): Promise<void> {
  for (let number = 1; number <= count; number += 1) {
    story.happen('payment_intent.succeeded', { id: `pi_${number}`, amount_received: 900, currency: 'nok' });
    if (number <= 12) await intend(story, `wallet-payment-${number}`);
    story.log(`wallet-payment-${number}`, 'CAPTURED', 900);
  }
}
