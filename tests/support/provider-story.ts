import { expect } from 'vitest';

import { createPaymentIntent } from '../../lib/components/payments.ts';
import { STATING_TYPES } from '../../lib/components/payments/provider-statements.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { reconcile } from '../../lib/edge/webhooks/reconcile/step.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import type { Config, Provider } from '../../lib/platform/config.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test as busTest } from './bus-test.ts';
import { rows } from './bus.ts';
import type { Bus } from './bus.ts';
import { ProviderApis, stripeBody, vippsBody } from './provider-apis.ts';
import type { StripeEvent, VippsEntry } from './provider-apis.ts';
import { randomFrom } from './random.ts';
import { CANARY, secretsOf, sign } from './webhook-senders.ts';

/** The providers, whose webhooks reach Postbud or do not, and the reconciliation with a clock of its own. */
export class Story {
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
    const answer =
      'reference' in what
        ? await this.post('walletpayments', vippsBody(what))
        : await this.post('cardpayments', stripeBody(what));
    if (answer.status === 200 && 'isDelivered' in what) what.isDelivered = true;
    return answer;
  }

  /** Posts a body, signed, to an endpoint. */
  async post(
    provider: 'cardpayments' | 'walletpayments',
    fields: object,
  ): Promise<{ status: number; json: unknown }> {
    const scheme = provider === 'walletpayments' ? 'vipps' : 'stripe';
    const url = `https://postbud.example/webhooks/${provider}`;
    const body = Buffer.from(JSON.stringify(fields));
    const headers = {
      'content-type': 'application/json',
      ...sign(scheme, body, { at: Math.floor(Date.now() / SECOND), url }),
    };
    const response = await this.#post(new Request(url, { method: 'POST', headers, body }));
    return { status: response.status, json: await response.json() };
  }

  /** Takes one step of each provider that is due. @returns in how many milliseconds the next one is due. */
  async step(settings = this.apis.settings): Promise<number | null> {
    return await reconcile(this.bus.db, { settings, types: STATING_TYPES, now: new Date(this.now) });
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
      .filter(({ name }) => STATING_TYPES.walletpayments.includes(name))
      .map(({ name, reference, pspReference }) => `walletpayments ${name}:${reference}:${pspReference}`);
    const card = this.apis.stripe
      .filter(({ type }) => STATING_TYPES.cardpayments.includes(type))
      .map(({ id }) => `cardpayments ${id}`);
    return [...card, ...wallet].toSorted();
  }
}

const NOT_USED = { scheme: 'standard', secrets: [] } as const;

export const SIGNED: Config['webhooks'] = {
  cardpayments: { scheme: 'stripe', secrets: [secretsOf.stripe[0]] },
  walletpayments: { scheme: 'vipps', secrets: [secretsOf.vipps[0]] },
  identityprovider: NOT_USED,
};

/** `bus-test` with `story`, whose tests fail if a log line holds a key. */
export const test = busTest.extend('story', async ({ bus, output }, { onCleanup }) => {
  const apis = await ProviderApis.start();
  onCleanup(async () => {
    await apis.close();
    // No log line of any test holds a key, a token, or what a provider answered.
    expect(output.text()).not.toContain(CANARY);
  });
  return new Story(bus, apis);
});

const PAYMENTS = 60;
/** Of the stories; another one with the variable SEED. */
export const SEED = Number(process.env['SEED'] ?? 20_260_221);

/**
 * Pays, captures in parts, fails and refunds. Of the webhooks 30 % are lost, 10 % come after the reconciliation, 10 % come
 * twice, and of 5 % the answer is lost, so that the provider takes them for lost.
 *
 * @returns the webhooks that are still on their way, and what must be told of the payments, sorted.
 */
export async function play(story: Story, seed = SEED) {
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
    // Always before its captures, since a reservation is not told after them.
    await story.send(story.log(id, 'AUTHORIZED', amountMinor));
    expected.push(`${id} reserved ${amountMinor}`);
    await transmit(story.log(id, 'CAPTURED', 600));
    await transmit(story.log(id, 'CAPTURED', amountMinor - 600));
    expected.push(`${id} captured 600`, `${id} captured ${amountMinor - 600}`);
    if (!isRefunded) continue;
    await transmit(story.log(id, 'REFUNDED', 500));
    expected.push(`${id} refunded 500`);
  }
  return { late, lost: lost.count, expected: expected.toSorted() };
}

export const NOBODY: Config['reconciliations'] = {
  cardpayments: undefined,
  walletpayments: undefined,
  identityprovider: undefined,
};

/** Records a payment intent of 9 kroner: of the wallet's, unless its id begins with `pi_`. */
export async function intend(story: Story, id: string): Promise<void> {
  const intent = { id, bookingId: 'bkg_1', amountMinor: 900, currency: 'NOK' } as const;
  const provider = id.startsWith('pi_') ? 'cardpayments' : 'walletpayments';
  await createPaymentIntent(story.bus.db, { ...intent, provider });
}

/** Pays so many card payments and as many of the wallet's, twelve at most; all webhooks are lost. */
export async function pay(story: Story, count: number): Promise<void> {
  for (let number = 1; number <= count; number += 1) {
    story.happen('payment_intent.succeeded', { id: `pi_${number}`, amount_received: 900, currency: 'nok' });
    if (number <= 12) await intend(story, `wallet-payment-${number}`);
    story.log(`wallet-payment-${number}`, 'CAPTURED', 900);
  }
}
