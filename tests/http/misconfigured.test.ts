import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import type * as RunCron from '../../lib/edge/cron/run-cron.ts';
import { environmentOf, readable } from '../../lib/platform/environment.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { OPERATOR_SECRET, operatorToken } from '../support/operator-token.ts';
import { freePort } from '../support/postgres.ts';
import { approved, structured } from '../support/posted-events.ts';

const WEBHOOK_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const CRON_SECRET = 'a-cron-secret-of-the-tests';
const ORIGIN = 'https://postbud.example';

/** Every function, and the routes of one function that need different variables. */
const names = [
  'chat',
  'inquiry',
  'health',
  'openapi',
  'cardpayments',
  'walletpayments',
  'identityprovider',
  'cron',
  'kick',
  'posted-events',
  'overview',
  'dead-letters',
  'events',
  'replay',
  'console',
  'sign-in',
  'metrics',
] as const;
type Name = (typeof names)[number];

const PUBLIC: Name[] = ['chat', 'inquiry'];
const COUNTED: Name[] = [...PUBLIC, 'sign-in', 'kick', 'posted-events'];
const WEBHOOKS: Name[] = ['cardpayments', 'walletpayments', 'identityprovider'];
const BUS: Name[] = ['overview', 'dead-letters', 'events', 'replay', 'console', 'metrics'];
const OPERATORS: Name[] = [...BUS, 'sign-in'];
const DATABASE: Name[] = [...WEBHOOKS, 'cron', 'kick', 'posted-events', ...BUS];

/** A wrong value for each variable that can have one, and what it stops. Nothing else may answer `misconfigured`. */
const table: readonly (readonly [variable: string, value: string, stopped: readonly Name[]])[] = [
  ['DATABASE_URL', 'mysql://db.example.no/x', DATABASE],
  ['DATABASE_URL', 'memory://', DATABASE],
  ['DATABASE_URL', '', DATABASE],
  ['DATABASE_DRIVER', 'mysql', DATABASE],
  ['RELAY', 'maybe', ['cron', 'kick']],
  ['CRON_SECRET', 'short', ['cron']],
  ['KICK_SECRET', 'short', ['kick']],
  ['PRODUCER_BOOKINGS_SECRET', 'short', ['posted-events']],
  ['PRODUCER_BOKINGS_SECRET', WEBHOOK_SECRET, []],
  ['PRODUCER_CARD_PAYMENTS_SECRET', WEBHOOK_SECRET, []],
  ['PRODUCER_BOOKINGS_SECRETS', WEBHOOK_SECRET, []],
  ['CORS_ORIGINS', '*', PUBLIC],
  ['ANTHROPIC_BASE_URL', 'http://127.0.0.1:1', ['chat']],
  ['CHAT_MAX_TOKENS', 'many', ['chat']],
  ['CHAT_RATE_PER_MINUTE', '0', ['chat']],
  ['CHAT_RATE_PER_DAY', '-1', ['chat']],
  ['CHAT_DAILY_BUDGET', '1.5', ['chat']],
  ['INQUIRY_RATE_PER_10_MINUTES', 'few', ['inquiry']],
  ['INQUIRY_DAILY_BUDGET', '0', ['inquiry']],
  ['SENDGRID_BASE_URL', 'http://127.0.0.1:1', ['inquiry']],
  ['SENDGRID_RESIDENCY', 'no', ['inquiry']],
  ['TURNSTILE_BASE_URL', 'http://127.0.0.1:1', PUBLIC],
  ['ADMIN_EMAIL', 'nobody', ['inquiry']],
  ['CC_EMAIL', 'nobody', ['inquiry']],
  ['FROM_EMAIL', 'nobody', ['inquiry']],
  ['UPSTASH_REDIS_REST_URL', 'http://127.0.0.1:1', COUNTED],
  ['UPSTASH_REDIS_REST_URL', '', COUNTED],
  ['UPSTASH_REDIS_REST_TOKEN', '', COUNTED],
  ['OPERATOR_JWT_SECRET', 'short', OPERATORS],
  ['OPERATOR_JWKS_URL', 'https://keys.example.no', OPERATORS],
  ['OPERATOR_JWKS_URL', 'http://keys.example.no', OPERATORS],
  ['OPERATOR_TOKEN_MAX_AGE', 'long', OPERATORS],
  ['OPERATOR_OIDC_ISSUER', 'http://login.example.no', OPERATORS],
  ['OPERATOR_OIDC_ISSUER', '', OPERATORS],
  ['OPERATOR_OIDC_CLIENT_ID', '', OPERATORS],
  ['OPERATOR_OIDC_CLIENT_SECRET', '', OPERATORS],
  ['OPERATOR_OIDC_ROLES', 'Drift=event-bus:raed', OPERATORS],
  ['WEBHOOK_CARDPAYMENTS_SCHEME', 'foo', ['cardpayments']],
  ['WEBHOOK_WALLETPAYMENTS_SCHEME', 'foo', ['walletpayments']],
  ['WEBHOOK_IDENTITYPROVIDER_SCHEME', 'foo', ['identityprovider']],
  ['WEBHOOK_CARDPAYMENTS_RECONCILE_KEY', 'pk_live_public', []],
  ['WEBHOOK_IDENTITYPROVIDER_RECONCILE_KEY', 'rk_live_key_of_stripe', []],
  ['WEBHOOK_CARDPAYMENTS_RECONCILE_URL', 'http://127.0.0.1:1', []],
  ['WEBHOOK_CARDPAYMENT_SCHEME', 'stripe', []],
  ['WEBHOOK_CARDPAYMENT_RECONCILE_KEY', 'rk_live_key_of_stripe', []],
  ['WEBHOOK_CARD_PAYMENTS_RECONCILE_URL', 'https://127.0.0.1:1', []],
  ['WEBHOOK_CARDPAYMENTS_SECRETS', WEBHOOK_SECRET, []],
  ['WEBHOOK_CARDPAYMENTS_RECONCILE', 'rk_live_key_of_stripe', []],
  ['SUBSCRIBER_LEDGER_URL', 'http://127.0.0.1:1', []],
  ['SUBSCRIBER_LEDGER_SECRET', 'short', []],
  ['SUBSCRIBER_LEGDER_URL', 'https://127.0.0.1:1', []],
  ['SUBSCRIBER_LEDGER_TOPICS', 'payment.capture', []],
  ['SUBSCRIBER_LEDGER_OUTAGE', 'on', []],
  ['SUBSCRIBER_LEDGER_TOPIC', 'payment.captured', []],
  ['SUBSCRIBER_LEDGER_CONCURENCY', '4', []],
  ['SUBSCRIBER_LEDGER_RATES', '600/m', []],
  ['SUBSCRIBER_LEGDER_BATCH', 'on', []],
  ['SUBSCRIBER_LEGDER_OUTAGE', 'off', []],
  ['SUBSCRIBER_LEGDER_SECRET', WEBHOOK_SECRET, []],
  ['SUBSCRIBER_LEGDER_RATE', '600/m', []],
  ['SUBSCRIBER_LEDGER_2_URL', 'https://127.0.0.1:1', []],
  // Of a component without an address.
  ['SUBSCRIBER_REPORTING_OUTAGE', 'on', []],
  ['SUBSCRIBER_REPORTING_BATCH', 'yes', []],
  ['SUBSCRIBER_REPORTING_SECRET', 'short', []],
  ['ALERT_EMAIL', 'nobody', []],
  ['ALERT_WEBHOOK_URL', 'http://127.0.0.1:1', []],
  ['ALERT_WEBHOOK_SECRET', 'short', []],
  ['ALERT_SLACK_URL', 'http://127.0.0.1:1', []],
  ['ALERT_TEAMS_URL', 'https://solvik.webhook.office.com/webhookb2/1', []],
  ['ALERT_TEAMS_URL', 'http://127.0.0.1:1', []],
  ['PAGERDUTY_ROUTING_KEY', 'short', []],
  ['PAGERDUTY_BASE_URL', 'http://127.0.0.1:1', []],
  ['HEARTBEAT_URL', 'http://127.0.0.1:1', []],
  ['PUBLIC_URL', 'postbud.example.no', []],
  ['LOG_LEVEL', 'loud', []],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://127.0.0.1:1', []],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'http://127.0.0.1:1', []],
  ['OTEL_TRACES_SAMPLER', 'often', []],
  ['OTEL_TRACES_SAMPLER_ARG', '2', []],
  ['PORT', 'http', []],
  ['DEMO', 'no', []],
  ['STAND_INS', 'no', []],
];

// Without its database the cron's function tries again for more than a minute. Here it is the way to that which counts.
vi.mock('../../lib/edge/cron/run-cron.ts', async (original) => ({
  ...(await original<typeof RunCron>()),
  runCron: async () => Response.json({}),
}));

let right: Readonly<Record<string, string>>;
beforeAll(async () => {
  // Everything is set, and nobody is there: what has its variables goes on to a service that refuses it at once.
  const nowhere = `127.0.0.1:${await freePort()}`;
  right = {
    VERCEL: '1',
    DATABASE_URL: `postgres://nobody@${nowhere}/none`,
    CRON_SECRET,
    KICK_SECRET: WEBHOOK_SECRET,
    PRODUCER_BOOKINGS_SECRET: WEBHOOK_SECRET,
    CORS_ORIGINS: 'https://www.example.no',
    ANTHROPIC_API_KEY: 'sk-ant-test',
    ANTHROPIC_BASE_URL: `https://${nowhere}`,
    SENDGRID_API_KEY: 'SG.test',
    SENDGRID_BASE_URL: `https://${nowhere}`,
    TURNSTILE_SECRET_KEY: 'secret-of-turnstile',
    ADMIN_EMAIL: 'post@example.no',
    FROM_EMAIL: 'post@example.no',
    UPSTASH_REDIS_REST_URL: `https://${nowhere}`,
    UPSTASH_REDIS_REST_TOKEN: 'token',
    OPERATOR_JWT_SECRET: OPERATOR_SECRET,
    OPERATOR_OIDC_ISSUER: `https://${nowhere}`,
    OPERATOR_OIDC_CLIENT_ID: 'postbud',
    OPERATOR_OIDC_CLIENT_SECRET: 'a-secret',
    OPERATOR_OIDC_ROLES: 'Drift=event-bus:read',
    SUBSCRIBER_LEDGER_URL: `https://${nowhere}`,
    SUBSCRIBER_LEDGER_SECRET: WEBHOOK_SECRET,
    // Some hosts can only empty a variable.
    SUBSCRIBER_LEGDER_RATE: ' ',
    ...Object.fromEntries(
      WEBHOOKS.flatMap((name) => [
        [`WEBHOOK_${name.toUpperCase()}_SECRET`, WEBHOOK_SECRET],
        [`WEBHOOK_${name.toUpperCase()}_SCHEME`, 'stripe'],
      ]),
    ),
  };
});

let written: string[];
beforeEach(() => {
  written = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((line) => written.push(String(line)) > 0);
});
afterEach(() => vi.unstubAllEnvs());

async function functionOf(name: Name): Promise<Endpoint> {
  switch (name) {
    case 'chat':
      return (await import('../../api/chat.ts')).default;
    case 'inquiry':
      return (await import('../../api/inquiry.ts')).default;
    case 'health':
      return (await import('../../api/health.ts')).default;
    case 'openapi':
      return (await import('../../api/openapi.ts')).default;
    case 'cron':
      return (await import('../../api/cron/relay.ts')).default;
    case 'kick':
      return (await import('../../api/kick.ts')).default;
    case 'posted-events':
      return (await import('../../api/events.ts')).default;
    case 'overview':
      return (await import('../../api/platform/event-bus/index.ts')).default;
    case 'events':
      return (await import('../../api/platform/event-bus/events.ts')).default;
    case 'dead-letters':
      return (await import('../../api/platform/event-bus/dead-letters.ts')).default;
    case 'replay':
      return (await import('../../api/platform/event-bus/replay.ts')).default;
    case 'console':
    case 'sign-in':
      return (await import('../../api/platform/event-bus/console.ts')).default;
    case 'metrics':
      return (await import('../../api/platform/metrics.ts')).default;
    case 'cardpayments':
    case 'walletpayments':
    case 'identityprovider':
      return (await import('../../api/webhooks/[provider].ts')).default;
  }
}

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  new Request(`${ORIGIN}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

function kickHeaders(): Record<string, string> {
  const at = new Date();
  return {
    'webhook-id': 'kick_1',
    'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
    'webhook-signature': new Webhook(WEBHOOK_SECRET).sign('kick_1', at, ''),
  };
}

/** A request that gets as far as there are variables. */
async function requestFor(name: Name): Promise<Request> {
  const token = await operatorToken();
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
  const get = (path: string) => new Request(`${ORIGIN}${path}`, { headers });
  switch (name) {
    case 'chat':
      return post('/api/chat', { system: 'x', messages: [{ role: 'user', content: 'x' }] });
    case 'inquiry':
      return post('/api/inquiry', {
        name: 'Kari',
        email: 'kari@example.no',
        organization: 'Solvik',
        topic: 'Demo',
        persona: 'innbygger',
        source: 'book-demo',
      });
    case 'health':
      return get('/api/health');
    case 'openapi':
      return get('/api/openapi.json');
    case 'cron':
      return new Request(`${ORIGIN}/api/cron/relay`, { headers: { authorization: `Bearer ${CRON_SECRET}` } });
    case 'kick':
      return new Request(`${ORIGIN}/api/kick`, {
        method: 'POST',
        headers: kickHeaders(),
      });
    case 'posted-events':
      return structured(approved('b-1'), WEBHOOK_SECRET);
    case 'overview':
      return get('/platform/event-bus');
    case 'events':
      return get('/platform/event-bus/events');
    case 'dead-letters':
      return get('/platform/event-bus/dead-letters');
    case 'replay':
      return post('/platform/event-bus/replay', { topic: 'payment.captured', since: '1h' }, headers);
    case 'console':
      return get('/platform/event-bus/replays');
    case 'sign-in':
      return post('/platform/event-bus/sign-in', { token }, { origin: ORIGIN, accept: 'application/json' });
    case 'metrics':
      return get('/platform/metrics');
    case 'cardpayments':
    case 'walletpayments':
    case 'identityprovider': {
      const payload = JSON.stringify({ id: 'evt_1', type: 'x' });
      const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: WEBHOOK_SECRET });
      return post(`/webhooks/${name}`, payload, { 'stripe-signature': signature });
    }
  }
}

/** A process of this environment. */
function startWith(variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries({ ...right, ...variables })) vi.stubEnv(name, value);
  vi.resetModules();
}

/** @returns which functions answer 503 `misconfigured`, each in a process of this environment. */
async function stoppedBy(variables: Readonly<Record<string, string>>): Promise<Name[]> {
  startWith(variables);
  const answers = await Promise.all(
    names.map(async (name) => {
      const endpoint = await functionOf(name);
      const response = await endpoint.fetch(await requestFor(name));
      const text = await response.text();
      return { name, isStopped: response.status === 503 && text.includes('"misconfigured"') };
    }),
  );
  return answers.filter(({ isStopped }) => isStopped).map(({ name }) => name);
}

const inOrder = (some: readonly Name[]) => names.filter((name) => some.includes(name));

describe('a wrong variable stops the functions that need it and no others', () => {
  test.each(table)('the wrong variable %s=%s stops exactly %j', async (variable, value, stopped) => {
    expect(await stoppedBy({ [variable]: value })).toEqual(inOrder(stopped));
    expect(written.join('')).toContain(`"variable":"${variable}"`);
  });

  test('caches keep apart what a wrong list of origins has answered to each of them', async () => {
    startWith({ CORS_ORIGINS: '*' });
    const answers = PUBLIC.map(async (name) => (await functionOf(name)).fetch(await requestFor(name)));
    for (const { status, headers } of await Promise.all(answers)) {
      expect([status, headers.get('vary')]).toEqual([503, 'Origin']);
      expect(headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  test('no function is stopped where no variable is wrong', async () => {
    expect(await stoppedBy({})).toEqual([]);
    expect(written.join('')).not.toContain('"variable"');
  });

  test('the table has every variable that can have a wrong value', () => {
    const refusesSomething = Object.keys(environmentOf({})).filter(
      (name) => readable(() => Reflect.get(environmentOf({ [name]: '?' }), name)) === undefined,
    );
    expect(refusesSomething).toContain('DATABASE_URL');
    expect(refusesSomething.filter((name) => !table.some(([variable]) => variable === name))).toEqual([]);
  });
});
