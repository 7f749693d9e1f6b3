import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Config } from '../../lib/platform/config.ts';
import { CANARY } from './webhook-senders.ts';

/** A number is an HTTP status; a word is another behaviour. */
export type Misbehaviour =
  | number
  | { readonly status: number; readonly retryAfter: string }
  | 'hang'
  | 'reset'
  | 'html'
  | 'other JSON'
  | 'endless';

/** An event of Stripe's, and whether all endpoints have answered its webhook with 2xx. */
export interface StripeEvent {
  readonly id: string;
  readonly type: string;
  /** Unix seconds. */
  readonly created: number;
  readonly data: object;
  isDelivered: boolean;
}

/** An entry of a payment's log at Vipps MobilePay. */
export interface VippsEntry {
  readonly reference: string;
  readonly pspReference: string;
  readonly name: string;
  readonly amount: { readonly currency: string; readonly value: number };
  readonly timestamp: string;
  readonly idempotencyKey: string | null;
  readonly success: boolean;
}

export const STRIPE_KEY = `rk_test_${CANARY}`;
const [CLIENT, CLIENT_SECRET, SUBSCRIPTION, MSN] = [
  '2f4a0e3c-client',
  `${CANARY}-secret==`,
  `${CANARY}0ae1b2`,
  '123456',
];

/** Another sales unit with the same keys. Payments whose reference ends in it are its own. */
const OTHER_MSN = '654321';

/**
 * Plays the APIs of Stripe and Vipps MobilePay that a reconciliation asks, from ledgers that tests write.
 *
 * Written from the providers' documentation. It refuses what they refuse: a missing key, a page of more than 100, a
 * cursor of no event, a payment that does not exist.
 */
export class ProviderApis {
  /** Oldest first. */
  readonly stripe: StripeEvent[] = [];
  /** By reference, oldest first. */
  readonly vipps = new Map<string, VippsEntry[]>();
  /** Stripe's objects by their path, behind the account that a connected one is of: `acct_1 /v1/payment_intents/pi_1`. */
  readonly objects = new Map<string, object>();
  /** What was asked, in order: `/v1/events?…`. */
  readonly asked: string[] = [];
  readonly url: string;
  readonly close: () => Promise<void>;
  #next: Misbehaviour[] = [];
  #always: Misbehaviour | null = null;
  #only: RegExp = /^/;
  #token = 1;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async start(): Promise<ProviderApis> {
    const server = createServer((request, response) => apis.#answer(request, response));
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const apis = new ProviderApis(`http://127.0.0.1:${port}`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    });
    return apis;
  }

  /** The settings with which both are asked. Their keys contain the canary. */
  get settings(): Config['reconciliations'] {
    return {
      cardpayments: { api: 'stripe', url: this.url, key: STRIPE_KEY },
      walletpayments: {
        api: 'vipps',
        url: this.url,
        clientId: CLIENT,
        clientSecret: CLIENT_SECRET,
        subscriptionKey: SUBSCRIPTION,
        merchantSerialNumber: MSN,
      },
      identityprovider: undefined,
    };
  }

  /** Sets the behaviour of the next calls, one each, and that of all calls after them; null: as documented. */
  behave(next: readonly Misbehaviour[], always: Misbehaviour | null = null, only = /^/): void {
    this.#next = [...next];
    this.#always = always;
    this.#only = only;
  }

  /** Makes the token that was given out invalid, as a rotation of the keys does. */
  revokeToken(): void {
    this.#token += 1;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', this.url);
    this.asked.push(`${url.pathname}${url.search}`);
    const misbehaviour = this.#only.test(url.pathname) ? (this.#next.shift() ?? this.#always) : null;
    if (misbehaviour !== null) misbehave(misbehaviour, response);
    else if (url.pathname === '/v1/events') this.#listEvents(request, response, url.searchParams);
    else if (url.pathname === '/accesstoken/get') this.#giveToken(request, response);
    else if (url.pathname.startsWith('/v1/')) this.#giveObject(request, response, url.pathname);
    else this.#readLog(request, response, url.pathname);
  }

  #listEvents({ headers, method }: IncomingMessage, response: ServerResponse, query: URLSearchParams): void {
    if (headers.authorization !== `Bearer ${STRIPE_KEY}`) return refuse(response, 401, 'Invalid API Key');
    if (method !== 'GET' || !headers['stripe-version']) return refuse(response, 400, 'Bad request');
    const limit = Number(query.get('limit') ?? 10);
    if (limit < 1 || limit > 100) return refuse(response, 400, 'Invalid integer: limit');
    const types = query.getAll('types[]');
    const cursor = query.get('starting_after');
    const newestFirst = this.stripe.toReversed();
    const at = cursor === null ? -1 : newestFirst.findIndex(({ id }) => id === cursor);
    if (cursor !== null && at === -1) return refuse(response, 400, `No such event: '${cursor}'`);
    const listed = newestFirst
      .slice(at + 1)
      .filter(
        ({ created, type, isDelivered }) =>
          created >= Number(query.get('created[gte]') ?? 0) &&
          created < Number(query.get('created[lt]') ?? Infinity) &&
          (types.length === 0 || types.includes(type)) &&
          (query.get('delivery_success') !== 'false' || !isDelivered),
      );
    json(response, {
      object: 'list',
      url: '/v1/events',
      has_more: listed.length > limit,
      data: listed.slice(0, limit).map((event) => stripeBody(event, 'API')),
    });
  }

  #giveObject({ headers, method }: IncomingMessage, response: ServerResponse, path: string): void {
    if (headers.authorization !== `Bearer ${STRIPE_KEY}`) return refuse(response, 401, 'Invalid API Key');
    if (method !== 'GET' || !headers['stripe-version']) return refuse(response, 400, 'Bad request');
    const found = this.objects.get([headers['stripe-account'], path].flat().filter(Boolean).join(' '));
    if (!found) return refuse(response, 404, 'No such object');
    json(response, found);
  }

  #giveToken({ headers, method }: IncomingMessage, response: ServerResponse): void {
    const isKnown =
      headers['client_id'] === CLIENT &&
      headers['client_secret'] === CLIENT_SECRET &&
      headers['ocp-apim-subscription-key'] === SUBSCRIPTION;
    if (method !== 'POST' || !isKnown) return refuse(response, 401, 'Access denied');
    json(response, { token_type: 'Bearer', expires_in: '3599', access_token: this.#bearer() });
  }

  #readLog({ headers }: IncomingMessage, response: ServerResponse, path: string): void {
    const isKnown =
      headers.authorization === `Bearer ${this.#bearer()}` &&
      headers['ocp-apim-subscription-key'] === SUBSCRIPTION &&
      [MSN, OTHER_MSN].some((known) => known === headers['merchant-serial-number']);
    if (!isKnown) return refuse(response, 401, 'Unauthorized');
    const [, encoded] = /^\/epayment\/v1\/payments\/([^/]+)\/events$/.exec(path) ?? [];
    const reference = decodeURIComponent(encoded ?? '');
    const log = this.vipps.get(reference);
    const unit = reference.endsWith(OTHER_MSN) ? OTHER_MSN : MSN;
    if (!log || headers['merchant-serial-number'] !== unit) return refuse(response, 404, 'Payment not found');
    json(response, log);
  }

  #bearer(): string {
    return `${CANARY}.token.${this.#token}`;
  }
}

/**
 * The body of a webhook about an event of Stripe's, and the event in its API, which differ in the number of webhooks that
 * were pending then.
 */
export function stripeBody(
  { isDelivered, ...event }: StripeEvent,
  place: 'webhook' | 'API' = 'webhook',
): Record<string, unknown> {
  return {
    object: 'event',
    api_version: '2025-03-31.basil',
    livemode: false,
    pending_webhooks: place === 'webhook' ? 2 : isDelivered ? 0 : 1,
    request: null,
    ...event,
  };
}

/** The body of Vipps' webhook about an entry: with the sales unit, which the log does not name, and in another order. */
export function vippsBody({ success, name, ...entry }: VippsEntry): Record<string, unknown> {
  return { msn: MSN, ...entry, name, success };
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ error: { message } }));
}

function json(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function misbehave(how: Misbehaviour, response: ServerResponse): void {
  if (typeof how === 'number') return refuse(response, how, CANARY);
  if (typeof how === 'object') {
    response.writeHead(how.status, { 'retry-after': how.retryAfter }).end(CANARY);
    return;
  }
  switch (how) {
    case 'hang':
      return;
    case 'reset':
      response.destroy();
      return;
    case 'html':
      response.writeHead(200, { 'content-type': 'text/html' }).end(`<h1>Maintenance</h1>${CANARY}`);
      return;
    case 'other JSON':
      json(response, { object: 'list', data: CANARY, has_more: 'yes', access_token: 7 });
      return;
    case 'endless': {
      response.writeHead(200, { 'content-type': 'application/json' });
      const pour = () => {
        while (!response.destroyed && response.write(' '.repeat(1024 * 1024)));
        if (!response.destroyed) response.once('drain', pour);
      };
      pour();
    }
  }
}
