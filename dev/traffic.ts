import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { IncomingMessage, request } from 'node:http';

import { z } from 'zod';

import { CLOSED_PERIOD, DOWN } from './accounting.ts';
import type { LocalServer } from '../cli/local-server.ts';
import { DAY, HOUR, instantOf } from '../lib/platform/time.ts';
import type { DemoWebhook } from './partners.ts';

/** The address of a visitor who asks too often: not the one of a browser on this machine. */
const IMPATIENT_ADDRESS = '127.0.0.9';

/** More than the default of `CHAT_RATE_PER_MINUTE`, even where a new minute begins among them. */
const IMPATIENT_QUESTIONS = 45;

/** One request of the demo and its answer. */
export interface Sent {
  readonly what: string;
  readonly status: number;
  readonly answer: string;
}

/**
 * Sends the demo's traffic: four payment intents, the webhooks that complete them, a login, a duplicate and a forgery,
 * a question to the chat, an inquiry, and a visitor who asks too often.
 *
 * Accounting refuses the first captured card payment permanently, so its delivery is a dead letter until an operator
 * replays it. It is down when the second arrives, so that delivery waits for a retry, and the third waits behind it:
 * deliveries are in order.
 *
 * The server signs the webhooks (`/dev/webhooks`): it has the secrets, and those of the user's own are in no file.
 *
 * @returns the requests, in order.
 */
export async function sendTraffic({ url }: Pick<LocalServer, 'url'>): Promise<Sent[]> {
  const run = randomUUID().slice(0, 8);
  const sent: Sent[] = [];
  const post = async (what: string, path: string, body: object) => {
    const response = await fetch(new URL(path, url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    sent.push({ what, status: response.status, answer: shorten(await response.text()) });
  };
  const intent = (what: string, body: object) => post(what, '/dev/payment-intents', body);
  const webhook = (what: string, sending: DemoWebhook) => post(what, '/dev/webhooks', sending);

  await intent('payments creates a wallet intent', {
    id: `wallet-${run}`,
    bookingId: `bkg_${run}_0`,
    provider: 'walletpayments',
    amountMinor: 45_000,
    currency: 'NOK',
  });
  await webhook('wallet callback: captured', walletCallback(run));

  for (const [number, { fate, amount }] of CARD_PAYMENTS.entries()) {
    const id = `${run}_${number + 1}`;
    await intent('payments creates a card intent', {
      id: `pi_${id}`,
      bookingId: `bkg_${id}${fate}`,
      provider: 'cardpayments',
      amountMinor: amount,
      currency: 'NOK',
    });
    await webhook('card webhook: captured', cardWebhook(id, amount));
    if (fate === DOWN) await webhook('the same again', cardWebhook(id, amount));
  }

  await webhook('identity callback: login', identityCallback(run));
  await webhook('a forged login', { ...identityCallback(run), isForged: true });

  const startsAt = Date.now() + DAY;
  await post('bookings takes one for tomorrow', '/dev/bookings', {
    bookingId: `bkg_${run}_0`,
    startsAt: instantOf(startsAt),
    endsAt: instantOf(startsAt + 2 * HOUR),
    email: `kari-${run}@example.no`,
  });

  const question = { role: 'user', content: 'Har dere et møterom for tolv?' };
  await post('a visitor asks', '/api/chat', {
    system: 'Du svarer om leie av lokaler i Solvik.',
    messages: [question],
  });
  await post('an inquiry', '/api/inquiry', inquiry(run));
  const impatient = await askTooOften(new URL('/api/chat', url));
  if (impatient) sent.push(impatient);
  return sent;
}

/** Amounts in øre, and how accounting refuses the payment the first time. */
const CARD_PAYMENTS = [
  { fate: CLOSED_PERIOD, amount: 62_500 },
  { fate: DOWN, amount: 125_000 },
  { fate: '', amount: 80_000 },
];

function inquiry(run: string) {
  return {
    name: 'Kari Lunde',
    email: `kari-${run}@example.no`,
    organization: 'Solvik idrettslag',
    topic: 'Demo',
    persona: 'driftsleder',
    source: 'book-demo',
    message: 'Vi vil gjerne se hvordan dere fordeler halltid.',
  };
}

/**
 * Asks from another address of this machine until the visitor's limit is reached.
 *
 * @returns null if the machine has no such address.
 */
async function askTooOften(url: URL): Promise<Sent | null> {
  for (let turn = 0; turn < IMPATIENT_QUESTIONS; turn += 1) {
    try {
      const { status, retryAfter } = await postFrom(IMPATIENT_ADDRESS, url, '{}');
      if (status === 429)
        return { what: 'another asks too often', status, answer: `Retry-After: ${retryAfter}` };
    } catch {
      return null;
    }
  }
  return null;
}

async function postFrom(localAddress: string, url: URL, body: string) {
  const sending = request(url, {
    method: 'POST',
    localAddress,
    family: 4,
    headers: { 'content-type': 'application/json' },
  });
  sending.end(body);
  const [response] = z.tuple([z.instanceof(IncomingMessage)]).parse(await once(sending, 'response'));
  response.resume();
  return { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] };
}

const problem = z.object({ code: z.string(), detail: z.string() });

/** Shortens a problem to one line. */
function shorten(answer: string): string {
  const parsed = problem.safeParse(JSON.parse(answer));
  const text = parsed.success ? `${parsed.data.code}: ${parsed.data.detail}` : answer;
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

function cardWebhook(id: string, amount: number): DemoWebhook {
  const intent = {
    id: `pi_${id}`,
    object: 'payment_intent',
    amount,
    amount_received: amount,
    currency: 'nok',
  };
  return {
    provider: 'cardpayments',
    id: `evt_${id}`,
    body: {
      id: `evt_${id}`,
      object: 'event',
      type: 'payment_intent.succeeded',
      data: { object: intent },
    },
  };
}

function walletCallback(run: string): DemoWebhook {
  return {
    provider: 'walletpayments',
    id: `psp_${run}`,
    body: {
      msn: '123456',
      reference: `wallet-${run}`,
      pspReference: `psp-${run}`,
      name: 'CAPTURED',
      amount: { currency: 'NOK', value: 45_000 },
      success: true,
    },
  };
}

function identityCallback(run: string): DemoWebhook {
  return {
    provider: 'identityprovider',
    id: `msg_${run}`,
    body: {
      type: 'login.succeeded',
      data: { subject: `person-${run}`, method: 'national-id', email: `person-${run}@example.no` },
    },
  };
}
