import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { functionsOf } from '../../dev/build/functions.ts';
import { readVercelJson } from '../../dev/build/vercel-json.ts';
import { secured } from '../../dev/serve-output/https.ts';
import type { Secured } from '../../dev/serve-output/https.ts';
import { PLATFORM } from '../../dev/serve-output/serve-output.ts';
import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { rows } from '../support/bus.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import { launchFunction } from '../support/platform-launcher.ts';
import type { LaunchedFunction } from '../support/platform-launcher.ts';
import { createDatabase } from '../support/postgres.ts';

const root = new URL('../../', import.meta.url);
const built = pathToFileURL(`${process.env['POSTBUD_ARTEFACT']}/functions/`);
const functions = functionsOf(root, readVercelJson(root)).map(({ name }) => name);

const SITE = 'http://localhost:3001';
const operatorSecret = randomBytes(36).toString('base64url');
const webhookSecret = `whsec_${randomBytes(24).toString('base64')}`;

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: object;
  /** Whose credentials go with it. */
  readonly by?: 'operator' | 'provider';
}

const BUS = '/platform/event-bus';
const LOGIN = { type: 'login.succeeded', data: { subject: 'a-subject', method: 'bank-id' } };
const QUESTION = { system: 'Om lokalene.', messages: [{ role: 'user', content: 'Hei' }] };
const page: Sent = { by: 'operator', headers: { accept: 'text/html' } };
const noEvents: Sent = { body: [], headers: { 'content-type': 'application/cloudevents-batch+json' } };
const fromSite: Sent = { headers: { origin: SITE, 'access-control-request-method': 'POST' } };
const fromElsewhere: Sent = { headers: { origin: 'https://elsewhere.example.no' } };

type Asked = [method: string, path: string, status: number, sent?: Sent];

/** For each function what may be asked of it, with each of its methods and without, and the status that answers. */
const asked: Readonly<Record<string, readonly Asked[]>> = {
  'api/chat': [
    ['POST', '/api/chat', 200, { ...fromSite, body: QUESTION }],
    ['POST', '/api/chat', 403, { ...fromElsewhere, body: QUESTION }],
    ['POST', '/api/chat', 400, { body: {} }],
    ['OPTIONS', '/api/chat', 204, fromSite],
    ['GET', '/api/chat', 405],
  ],
  'api/cron/relay': [
    ['GET', '/api/cron/relay', 401],
    ['POST', '/api/cron/relay', 405],
  ],
  'api/events': [
    ['POST', '/api/events', 200, { ...noEvents, by: 'provider' }],
    ['POST', '/api/events', 401, noEvents],
    ['POST', '/api/events', 415, { body: {} }],
    ['GET', '/api/events', 405],
  ],
  'api/health': [
    ['GET', '/api/health', 200],
    ['HEAD', '/api/health', 200],
    ['OPTIONS', '/api/health', 204, fromElsewhere],
    ['DELETE', '/api/health', 405],
  ],
  'api/inquiry': [
    ['POST', '/api/inquiry', 400, { body: {} }],
    ['POST', '/api/inquiry', 415, { body: {}, headers: { 'content-type': 'text/plain' } }],
    ['OPTIONS', '/api/inquiry', 204, fromSite],
    ['PUT', '/api/inquiry', 405, { body: {} }],
  ],
  'api/kick': [
    ['POST', '/api/kick', 202, { by: 'provider' }],
    ['POST', '/api/kick', 401],
    ['GET', '/api/kick', 405],
  ],
  'api/openapi': [
    ['GET', '/api/openapi.json', 200],
    ['PATCH', '/api/openapi.json', 405, { body: {} }],
  ],
  'api/platform/event-bus/console': [
    ['GET', `${BUS}/sign-in`, 200, { headers: { accept: 'text/html' } }],
    ['GET', `${BUS}/catalog/asyncapi`, 401],
    ['GET', `${BUS}/catalog/asyncapi`, 200, page],
  ],
  'api/platform/event-bus/dead-letters': [
    ['GET', `${BUS}/dead-letters`, 401],
    ['GET', `${BUS}/dead-letters`, 200, { by: 'operator' }],
    ['GET', `${BUS}/dead-letters/1-999999`, 404, { by: 'operator' }],
  ],
  'api/platform/event-bus/events': [
    ['GET', `${BUS}/events`, 401],
    ['GET', `${BUS}/events?q=pi_nowhere`, 200, page],
    ['GET', `${BUS}/events/019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77`, 404, { by: 'operator' }],
  ],
  'api/platform/event-bus/index': [
    ['GET', BUS, 401],
    ['GET', BUS, 200, { by: 'operator' }],
    ['GET', BUS, 200, page],
    ['PUT', BUS, 405, { body: {} }],
  ],
  'api/platform/event-bus/replay': [
    ['POST', `${BUS}/replay`, 401, { body: {} }],
    ['POST', `${BUS}/replay`, 400, { by: 'operator', body: {} }],
    ['PUT', `${BUS}/replay`, 405, { body: {} }],
  ],
  'api/platform/metrics': [
    ['GET', '/platform/metrics', 401],
    ['GET', '/platform/metrics', 200, { by: 'operator' }],
    ['POST', '/platform/metrics', 405],
  ],
  'api/webhooks/[provider]': [
    ['POST', '/webhooks/identityprovider', 200, { by: 'provider', body: LOGIN }],
    ['POST', '/webhooks/identityprovider', 401, { body: LOGIN }],
    ['POST', '/webhooks/cardpayments', 503, { body: LOGIN }],
    ['POST', '/webhooks/postcards', 404, { body: LOGIN }],
    ['GET', '/webhooks/identityprovider', 405],
  ],
};

let folder: string;
let messages: MessagesApi;
/** What the launched functions have: a deployment calls nothing without HTTPS. */
let deployed: Secured;
let ours: LocalServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postbud-launcher-'));
  messages = await startMessagesApi();
  const variables = {
    LOG_LEVEL: 'error',
    CORS_ORIGINS: SITE,
    ANTHROPIC_API_KEY: 'sk-ant-launcher',
    ANTHROPIC_BASE_URL: messages.url,
    CRON_SECRET: randomBytes(18).toString('base64url'),
    OPERATOR_JWT_SECRET: operatorSecret,
    WEBHOOK_IDENTITYPROVIDER_SECRET: webhookSecret,
    KICK_SECRET: webhookSecret,
    PRODUCER_BOOKINGS_SECRET: webhookSecret,
  };
  deployed = await secured(variables);
  ours = await startLocalServer({
    ...variables,
    // One that verifies nothing: a local server would make one up.
    WEBHOOK_CARDPAYMENTS_SECRET: 'none',
    PORT: '0',
    DEMO: 'off',
    DATA_DIR: folder,
  });
});
afterAll(async () => {
  await ours?.stop();
  deployed?.close();
  await messages?.close();
  rmSync(folder, { recursive: true, force: true });
});

describe.each([
  ['source', root, (name: string) => `${name}.ts`],
  ['bundle', built, (name: string) => `${name}.func/${name}.mjs`],
] as const)('the platform’s launcher runs the %s of', (_, within, fileOf) => {
  const launch = async (name: string, more: Record<string, string> = {}) => {
    const DATABASE_URL = await createDatabase(inject('postgresUrl'));
    return await launchFunction(within, fileOf(name), {
      ...PLATFORM,
      ...deployed.variables,
      DATABASE_URL,
      ...more,
    });
  };

  describe.each(functions)('%s', (name) => {
    let launched: LaunchedFunction;
    beforeAll(async () => {
      launched = await launch(name);
    });
    afterAll(() => launched?.kill());

    test.each(asked[name] ?? [])(
      'a function under the platform’s launcher answers %s %s with %i, like our server',
      async (method, path, status, sent) => {
        const theirs = await essence(await send(launched.url, method, path, sent));
        expect(theirs).toMatchObject({ status, isTraceable: true });
        expect(theirs).toEqual(await essence(await send(ours.url, method, path, sent)));
      },
    );
  });

  test('the chat’s stream under the launcher begins before the model has ended', async () => {
    const launched = await launch('api/chat');
    try {
      messages.behave('stall', 1);
      const response = await send(launched.url, 'POST', '/api/chat', {
        headers: { accept: 'text/event-stream' },
        body: QUESTION,
      });
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      const { value } = await response.body!.getReader().read();
      expect(new TextDecoder().decode(value)).toMatch(/^event: delta\n/);
    } finally {
      await launched.kill();
    }
  });

  test('the launcher does not end a webhook’s function before the relay that it kicked', async () => {
    const DATABASE_URL = await createDatabase(inject('postgresUrl'));
    const launched = await launch('api/webhooks/[provider]', { DATABASE_URL });
    // One that is kept open keeps the process alive too.
    const sent: Sent = { by: 'provider', body: LOGIN, headers: { connection: 'close' } };
    const answer = await send(launched.url, 'POST', '/webhooks/identityprovider', sent);
    expect(await answer.json()).toMatchObject({ received: true, duplicate: false });
    await launched.stop();
    const { db, close } = await connect(DATABASE_URL);
    const states = await rows(
      db,
      `select distinct state::text from deliveries where topic = 'webhook.identityprovider.received'`,
    );
    await close();
    expect(states).toEqual([{ state: 'delivered' }]);
  });
});

test('every function of the project is asked for something', () => {
  expect(Object.keys(asked)).toEqual(functions);
});

async function send(url: string, method: string, path: string, sent: Sent = {}): Promise<Response> {
  const body = sent.body && JSON.stringify(sent.body);
  return await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(sent.by === 'operator' && {
        authorization: `Bearer ${await operatorToken({ scope: 'event-bus:read event-bus:replay' }, operatorSecret)}`,
      }),
      ...(sent.by === 'provider' && signatureOf(body ?? '')),
      ...sent.headers,
    },
    ...(body !== undefined && { body }),
  });
}

function signatureOf(body: string): Record<string, string> {
  const id = `idp_${randomBytes(9).toString('hex')}`;
  const at = new Date();
  return {
    'webhook-id': id,
    'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
    'webhook-signature': new Webhook(webhookSecret).sign(id, at, body),
  };
}

/** All of an answer that is the same whoever runs the function, and at whatever time. */
async function essence(response: Response) {
  const { status, headers } = response;
  const text = await response.text();
  const isProblem = headers.get('content-type') === 'application/problem+json';
  const { requestId, ...problem } = isProblem ? (JSON.parse(text) as Record<string, unknown>) : {};
  const id = headers.get('x-request-id') ?? '';
  return {
    status,
    // Whoever complains with the id that they see is found in the log.
    isTraceable: id !== '' && (!isProblem || requestId === id),
    headers: Object.fromEntries([...headers].filter(([name]) => OWN_HEADERS.test(name))),
    problem,
    isEmpty: text === '',
  };
}

/** What a function says, not who carries it; and nothing that counts or tells the time. */
const OWN_HEADERS =
  /^(content-type|allow|www-authenticate|retry-after|vary|access-control-.*|cache-control|location|content-security-policy|x-content-type-options|ratelimit-policy)$/;
