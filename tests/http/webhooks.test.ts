import { createHash, createHmac } from 'node:crypto';
import { createServer } from 'node:net';

import pg from 'pg';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  inject,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { z } from 'zod';

import { InvalidConfiguration, providers } from '../../lib/config.ts';
import type { Config, Provider } from '../../lib/config.ts';
import { onDue } from '../../lib/db/commits.ts';
import { connect } from '../../lib/db/connect.ts';
import type { Connection, Database } from '../../lib/db/connect.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { receiveWebhook } from '../../lib/webhooks/receive.ts';
import { Rejections } from '../../lib/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/webhooks/route.ts';
import { schemes } from '../../lib/config.ts';
import type { Scheme } from '../../lib/config.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

/** In every body, signature header and secret of this file; must be in no answer and no log line. */
const CANARY = 'kanarifugl';

const NOW = Math.floor(Date.now() / 1000);

let connection: Connection;
let admin: pg.Pool;
let written: string[];
let answered: string[];
/** Of the test's intakes. */
let counters: Rejections[];

beforeAll(async () => {
  const url = await createDatabase(inject('postgresUrl'));
  connection = await connect(url);
  admin = new pg.Pool({ connectionString: url });
});

afterAll(async () => {
  await connection.close();
  await admin.end();
});

beforeEach(async () => {
  written = [];
  answered = [];
  counters = [];
  const keep = (...said: unknown[]) => written.push(said.map(String).join(' ')) > 0;
  vi.spyOn(process.stdout, 'write').mockImplementation(keep);
  vi.spyOn(process.stderr, 'write').mockImplementation(keep);
  for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
    vi.spyOn(console, level).mockImplementation(keep);
  }
  await admin.query('truncate events, awaiting_fan_out, webhook_receipts, webhook_rejections');
});

afterEach(async () => {
  // Else what was counted is written ten seconds later, in the middle of another test.
  for (const rejections of counters) await rejections.flush();
  vi.restoreAllMocks();
  // Whatever a test does: no secret, signature or body comes out of it.
  const everything = [...written, ...answered].join('\n');
  expect(everything).not.toContain(CANARY);
  for (const { secret } of Object.values(senders)) expect(everything).not.toContain(secret);
  expect(everything).not.toMatch(/v1[,=][\w+/]{8}|sha256=|HMAC-SHA256/);
});

describe.each(schemes)('a webhook under %s', (scheme) => {
  test('is accepted, becomes one event and is answered 200', async () => {
    const body = bodyOf();
    const { status, json } = await post(intake({ scheme }), signed(scheme, { body }));
    expect(status).toBe(200);
    expect(json).toEqual({ received: true, duplicate: false, eventId: expect.any(String) });
    const [event] = await events();
    expect(event).toMatchObject({
      topic: 'webhook.cardpayments.received',
      producer: 'http',
      open: 1,
      payload: { eventId: json.eventId, eventType: expect.any(String), body: JSON.parse(body.toString()) },
    });
    expect(await receipts()).toMatchObject([
      {
        provider: 'cardpayments',
        event_id: json.eventId,
        event_type: event!.payload.eventType,
        body_sha256: createHash('sha256').update(body).digest('hex'),
        duplicates: 0,
      },
    ]);
  });

  test('that is sent again is answered 200 as a duplicate, and is no second event', async () => {
    const target = intake({ scheme });
    const first = await post(target, signed(scheme));
    const again = await post(target, signed(scheme, { at: NOW - 60 }));
    expect(again).toMatchObject({
      status: 200,
      json: { received: true, duplicate: true, eventId: first.json.eventId },
    });
    expect(await events()).toHaveLength(1);
    expect(await receipts()).toMatchObject([{ duplicates: 1, body_mismatches: 0 }]);
    expect(target.kicks()).toBe(1);
  });

  test('may be signed with the older of two secrets', async () => {
    const target = intake({ scheme, secrets: [otherSecret(scheme), senders[scheme].secret] });
    expect((await post(target, signed(scheme))).status).toBe(200);
  });

  test('is refused once its secret is gone', async () => {
    await expectRefused(401, intake({ scheme, secrets: [otherSecret(scheme)] }), signed(scheme));
  });

  test('is refused without its signature headers, and without any one of them', async () => {
    const target = intake({ scheme });
    const { headers, body } = signed(scheme);
    await expectRefused(401, target, { body, headers: {} });
    for (const name of signatureHeaders(headers)) {
      const rest = Object.entries(headers).filter(([other]) => other !== name);
      await expectRefused(401, target, { body, headers: Object.fromEntries(rest) });
      await expectRefused(401, target, { body, headers: { ...headers, [name]: '' } });
    }
  });

  test('is refused with a header of another, of garbage, or twice', async () => {
    const target = intake({ scheme });
    const { headers, body } = signed(scheme);
    const name = signatureHeaders(headers).at(-1)!;
    const value = headers[name]!;
    for (const wrong of [
      value.slice(0, -8),
      value.slice(0, -1) + (value.endsWith('0') ? '1' : '0'),
      `${value}, ${value}`,
      'v1,',
      't=,v1=',
      'v2,AAAA',
      `v1,${Buffer.alloc(32).toString('base64')} `.repeat(10_000),
    ]) {
      await expectRefused(401, target, { body, headers: { ...headers, [name]: wrong } });
    }
  });

  test('is refused when its body was changed, re-encoded or moved by a byte', async () => {
    const target = intake({ scheme });
    const { headers, body } = signed(scheme);
    const changed = [
      Buffer.concat([body, Buffer.from('\n')]),
      Buffer.concat([Buffer.from('\uFEFF'), body]),
      Buffer.from(JSON.stringify(JSON.parse(body.toString()), null, 1)),
      Buffer.from(body.toString().replace('1200', '1201')),
    ];
    for (const other of changed) await expectRefused(401, target, { headers, body: other });
  });

  test("is refused at another provider's endpoint, where another secret is", async () => {
    const target = intake({ scheme, provider: 'identityprovider', secrets: [otherSecret(scheme)] });
    await expectRefused(401, target, { ...signed(scheme), path: '/webhooks/identityprovider' });
  });

  test('that is signed but not what can be stored is a 400 that says why, and no row', async () => {
    const target = intake({ scheme });
    for (const [code, body] of unstorable) {
      const answer = await expectRefused(400, target, signed(scheme, { body }));
      expect(answer.json.code).toBe(code);
    }
    expect(written.join()).not.toContain('internal_error');
  });
});

describe("a webhook that a provider's own library has signed", () => {
  test('is accepted under standard', async () => {
    const { secret } = senders.standard;
    const body = bodyOf();
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': `${NOW}`,
      'webhook-signature': new Webhook(secret).sign('msg_1', new Date(NOW * 1000), body.toString()),
    };
    expect((await post(intake(), { headers, body })).json).toMatchObject({
      duplicate: false,
      eventId: 'msg_1',
    });
  });

  test('is accepted under stripe', async () => {
    const { secret } = senders.stripe;
    const body = bodyOf();
    const header = Stripe.webhooks.generateTestHeaderString({ payload: body.toString(), secret });
    const answer = await post(intake({ scheme: 'stripe' }), {
      headers: { 'stripe-signature': header },
      body,
    });
    expect(answer.json).toMatchObject({ duplicate: false, eventId: 'evt_1' });
  });
});

const timed = ['standard', 'stripe', 'vipps'] as const;

describe.each(timed)("a sender's clock under %s", (scheme) => {
  test.each([300, -300])('may be off by %i s', async (offset) => {
    expect((await post(intake({ scheme, now: NOW }), signed(scheme, { at: NOW + offset }))).status).toBe(200);
  });

  test.each([301, -301, 3.2e8, -3.2e8])('must not be off by %i s', async (offset) => {
    await expectRefused(401, intake({ scheme, now: NOW }), signed(scheme, { at: NOW + offset }));
  });
});

test.each(['abc', '123abc', ' 1', '+1', '1e9', '-1', `${NOW}000`, `${NOW}.5`])(
  'a time that is signed but no number of seconds is a 401 (%s)',
  async (time) => {
    const body = bodyOf();
    const mac = createHmac('sha256', senders.stripe.secret).update(`${time}.`).update(body).digest('hex');
    const headers = { 'stripe-signature': `t=${time},v1=${mac}` };
    await expectRefused(401, intake({ scheme: 'stripe', now: NOW }), { body, headers });
  },
);

test('all that is wrong with a signature gets one and the same answer', async () => {
  const scheme = 'standard';
  const target = intake({ scheme });
  const { headers, body } = signed(scheme);
  const answers = [
    await post(target, { headers: {}, body }),
    await post(target, { headers: { ...headers, 'webhook-signature': 'v1,AAAA' }, body }),
    await post(target, signed(scheme, { at: NOW - 3600 })),
    await post(target, { headers: { ...headers, 'webhook-id': 'msg_other' }, body }),
    await post(target, { headers: { ...headers, 'webhook-id': 'a.b' }, body }),
    await post(target, { headers, body: Buffer.from('no JSON at all') }),
    await post(target, { headers, body: Buffer.alloc(0) }),
  ].map(({ json, headers }) => ({ ...json, requestId: '', headers: { ...headers, 'x-request-id': '' } }));
  expect(answers[0]).toMatchObject({ status: 401, code: 'invalid_signature', title: 'Unauthorized' });
  for (const answer of answers) expect(answer).toEqual(answers[0]);
});

describe('before a signature is looked at', () => {
  test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])('%s is a 405', async (method) => {
    const target = intake();
    const { status, headers } = await send(target, new Request(`${HOST}/webhooks/cardpayments`, { method }));
    expect([status, headers['allow']]).toEqual([405, 'POST']);
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    await expectNothingStored(target);
  });

  test.each([
    'unknown',
    '__proto__',
    'constructor',
    'toString',
    'CARDPAYMENTS',
    'Cardpayments',
    'cardpayments%2F..',
    'cardpayments%00',
    'card%70ayments',
    'cardpayments/',
    'cardpayments/extra',
    'extra/cardpayments',
    'cardpayments;a=1',
    'cardpayments.json',
    ' cardpayments',
    'unknown?provider=cardpayments',
    '',
  ])('/webhooks/%s is a 404, whatever is sent', async (path) => {
    const target = intake();
    const answer = await expectRefused(404, target, { ...signed('standard'), path: `/webhooks/${path}` });
    expect({ ...answer.json, requestId: '' }).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      code: 'unknown_provider',
      detail: 'There is no webhook endpoint at this address.',
      requestId: '',
    });
  });

  test('the body of a request to an unknown provider is not read', async () => {
    const body = endless();
    await expectRefused(404, intake(), { headers: {}, body, path: '/webhooks/unknown' });
    expect(body.pulled()).toBeLessThan(2);
  });

  test.each<[string, Scheme, string[]]>([
    ['no secret', 'standard', []],
    ['a blank one', 'standard', ['']],
    ['a bare prefix', 'standard', ['whsec_']],
    ['a short one', 'standard', ['whsec_c2hvcnQ=']],
    ['no secret', 'stripe', []],
    ['a bare prefix', 'stripe', ['whsec_']],
    ['a blank one', 'vipps', [' ']],
    ['an empty one', 'criipto', ['']],
    ['an empty one', 'github-style', ['']],
  ])('%s under %s is a 503, not an HMAC with an empty key', async (_, scheme, secrets) => {
    const body = endless();
    const target = intake({ scheme, secrets });
    const answer = await expectRefused(503, target, { headers: {}, body });
    expect(answer.json.code).toBe('webhook_not_configured');
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    expect(body.pulled()).toBeLessThan(2);
    const empty = createHmac('sha256', '').update(bodyOf()).digest('hex');
    const headers = { 'x-hub-signature-256': `sha256=${empty}`, 'content-type': 'application/json' };
    await expectRefused(503, target, { headers, body: bodyOf() });
  });

  test.each([
    ['text/plain', 'content-type', 'text/plain', 'unsupported_media_type'],
    ['a form', 'content-type', 'application/x-www-form-urlencoded', 'unsupported_media_type'],
    ['multipart', 'content-type', 'multipart/form-data; boundary=x', 'unsupported_media_type'],
    ['JSON in UTF-16', 'content-type', 'application/json; charset=utf-16', 'unsupported_media_type'],
    ['no type', 'content-type', '', 'unsupported_media_type'],
    ['gzip', 'content-encoding', 'gzip', 'unsupported_encoding'],
    ['brotli', 'content-encoding', 'br', 'unsupported_encoding'],
  ])('%s is a 415, before its length or signature', async (_, name, value, code) => {
    const body = endless();
    const { headers } = signed('standard');
    const answer = await expectRefused(415, intake(), { headers: { ...headers, [name]: value }, body });
    expect(answer.json.code).toBe(code);
    expect(body.pulled()).toBeLessThan(2);
  });

  test.each([
    ['says so', { 'content-length': `${256 * 1024 + 1}` }, 1],
    ['does not say so', {}, 300],
    ['says that it has less', { 'content-length': '10' }, 300],
  ])(
    'a body of more than 256 KiB that %s is a 413 as soon as that is clear',
    async (_, length, kibibytes) => {
      const body = endless();
      const { headers } = signed('standard');
      const answer = await expectRefused(413, intake(), { headers: { ...headers, ...length }, body });
      expect(answer.json.code).toBe('body_too_large');
      expect(body.pulled()).toBeLessThanOrEqual(kibibytes);
    },
  );

  test('a signed body of 256 KiB is accepted, one of a byte more is a 413', async () => {
    const target = intake();
    const fitting = bodyOf(256 * 1024);
    expect(fitting).toHaveLength(256 * 1024);
    expect((await post(target, signed('standard', { body: fitting }))).status).toBe(200);
    await admin.query('truncate events, awaiting_fan_out, webhook_receipts');
    const longer = Buffer.concat([fitting, Buffer.from(' ')]);
    await expectRefused(413, intake(), signed('standard', { body: longer }));
  });

  test('a body that breaks off is a 400', async () => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bodyOf()),
      pull: (controller) => controller.error(new Error(CANARY)),
    });
    await expectRefused(400, intake(), { ...signed('standard'), body });
  });
});

describe('the path', () => {
  test('may be the rewritten one', async () => {
    const { status } = await post(intake(), { ...signed('standard'), path: '/api/webhooks/cardpayments' });
    expect(status).toBe(200);
  });

  test.each(['?provider=walletpayments', '?provider=unknown', '?provider=__proto__'])(
    'decides on the provider, not the query (%s)',
    async (query) => {
      const { status } = await post(intake(), {
        ...signed('standard'),
        path: `/webhooks/cardpayments${query}`,
      });
      expect(status).toBe(200);
      expect(await receipts()).toMatchObject([{ provider: 'cardpayments' }]);
    },
  );

  test.each([
    ['', '?provider=cardpayments'],
    ['?a=1', '?a=1&provider=cardpayments'],
    ['?a=1', '?provider=cardpayments&a=1'],
    ['?a=%7E+b&b', '?a=%7E+b&b&provider=cardpayments'],
    ['?provider=cardpayments', '?provider=cardpayments&provider=cardpayments'],
    ['?provider=evil', '?provider=evil&provider=cardpayments'],
    ['?myprovider=cardpayments', '?myprovider=cardpayments&provider=cardpayments'],
    ['?a=1', '?a=1'],
  ])('signed with the query %j passes when the platform has made it %j', async (sent, received) => {
    const path = '/webhooks/cardpayments';
    const target = intake({ scheme: 'vipps' });
    const request = signed('vipps', { url: `${HOST}${path}${sent}` });
    expect((await post(target, { ...request, path: path + received })).status).toBe(200);
  });

  test.each([
    ['another query', `${HOST}/webhooks/cardpayments?a=2`],
    ['another path', `${HOST}/webhooks/walletpayments?a=1`],
    ['another host', 'https://elsewhere.example/webhooks/cardpayments?a=1'],
  ])('that Vipps signed with %s is a 401', async (_, signedUrl) => {
    const request = signed('vipps', { url: signedUrl });
    await expectRefused(401, intake({ scheme: 'vipps' }), { ...request, path: '/webhooks/cardpayments?a=1' });
  });
});

describe('what a webhook says', () => {
  test('may be of a type that nobody knows, or of none', async () => {
    const target = intake();
    for (const [id, body] of [
      ['msg_1', '{"type":"never.heard.of"}'],
      ['msg_2', '{}'],
      ['msg_3', '{"type":7}'],
    ] as const) {
      expect((await post(target, signed('standard', { id, body: Buffer.from(body) }))).status).toBe(200);
    }
    const types = (await events()).map(({ payload }) => payload.eventType);
    expect(types).toEqual(['never.heard.of', null, null]);
  });

  test('may hold keys that mean something to JavaScript', async () => {
    const body = Buffer.from('{"constructor":{"prototype":{"x":1}},"data":{"__proto__":{"x":1}}}');
    expect((await post(intake(), signed('standard', { body }))).status).toBe(200);
    expect('x' in {}).toBe(false);
    const { rows } = await admin.query(`select payload #>> '{body,data,__proto__,x}' as x from events`);
    expect(rows).toEqual([{ x: '1' }]);
  });

  test('is tied to its request by the correlation id', async () => {
    const { headers } = await post(intake(), signed('standard'));
    expect(await events()).toMatchObject([{ correlation_id: headers['x-request-id'] }]);
  });
});

describe('the same event id', () => {
  test('in 100 posts at once is one event and 99 duplicates', async () => {
    const target = intake();
    const answers = await Promise.all(Array.from({ length: 100 }, () => post(target, signed('standard'))));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(answers.filter(({ json }) => json.duplicate === false)).toHaveLength(1);
    expect(await events()).toHaveLength(1);
    expect(await receipts()).toMatchObject([{ duplicates: 99, body_mismatches: 0 }]);
    expect(target.kicks()).toBe(1);
  });

  test('with another body is a duplicate that is counted, reported and not emitted', async () => {
    const target = intake();
    await post(target, signed('standard', { id: 'msg_1' }));
    const other = signed('standard', { id: 'msg_1', body: Buffer.from('{"type":"other"}') });
    const answer = await post(target, other);
    expect(answer).toMatchObject({
      status: 200,
      json: { received: true, duplicate: true, eventId: 'msg_1' },
    });
    expect(await events()).toMatchObject([{ payload: { eventType: 'charge.refunded' } }]);
    expect(await receipts()).toMatchObject([
      { duplicates: 1, body_mismatches: 1, event_type: 'charge.refunded' },
    ]);
    expect(lines()).toContainEqual(
      expect.objectContaining({ level: 'warn', provider: 'cardpayments', eventId: 'msg_1' }),
    );
  });

  test('from two providers is two events', async () => {
    for (const provider of ['cardpayments', 'walletpayments'] as const) {
      const target = intake({ provider });
      const answer = await post(target, { ...signed('standard'), path: `/webhooks/${provider}` });
      expect(answer.json).toMatchObject({ duplicate: false, eventId: 'msg_1' });
    }
    const topics = (await events()).map(({ topic }) => topic);
    expect(topics).toEqual(['webhook.cardpayments.received', 'webhook.walletpayments.received']);
  });
});

describe('without a database', () => {
  const unavailable = { status: 503, json: { code: 'database_unavailable', title: 'Service Unavailable' } };

  test('that listens, the answer is a 503 to be tried again', async () => {
    const { db, close } = await connect(`postgres://postgres@127.0.0.1:${await freePort()}/postgres`);
    onTestFinished(close);
    const answer = await post(intake({ database: async () => db }), signed('standard'));
    expect(answer).toMatchObject(unavailable);
    expect(answer.headers['retry-after']).toBe('5');
    expect(lines()).toContainEqual(expect.objectContaining({ level: 'error', code: 'ECONNREFUSED' }));
  });

  test('that answers, or that opens at all, it is one within six seconds', async () => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void silent.close());
    const { port } = z.object({ port: z.number() }).parse(silent.address());
    const { db } = await connect(`postgres://postgres@127.0.0.1:${port}/postgres`);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const unanswered = [async () => db, () => new Promise<Database>(() => undefined)];
    const intakes = unanswered.map((database) => intake({ database }));
    const answers = intakes.map((target) => post(target, signed('standard')));
    await expect.poll(() => intakes.map((target) => target.opened())).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(6000);
    for (const answer of await Promise.all(answers)) expect(answer).toMatchObject(unavailable);
  });

  test('that is configured, it is a 503 that names no variable', async () => {
    const database = () => Promise.reject(new InvalidConfiguration('DATABASE_URL', CANARY));
    const answer = await post(intake({ database }), signed('standard'));
    expect(answer).toMatchObject({ status: 503, json: { code: 'misconfigured' } });
    expect(answer.headers['retry-after']).toBeDefined();
    expect(answered.join()).not.toContain('DATABASE_URL');
    expect(lines()).toContainEqual(expect.objectContaining({ level: 'error', variable: 'DATABASE_URL' }));
  });

  test('what is refused is refused as ever', async () => {
    const database = () => Promise.reject(new Error(CANARY));
    const { body } = signed('standard');
    expect((await post(intake({ database }), { headers: {}, body })).status).toBe(401);
    expect((await post(intake({ database }), { headers: {}, body, path: '/webhooks/x' })).status).toBe(404);
  });
});

describe('what is refused', () => {
  test('leaves one line with provider, reason and length', async () => {
    const { body } = signed('standard');
    const { headers } = await post(intake(), { headers: {}, body });
    expect(lines()).toContainEqual({
      level: 'warn',
      at: expect.any(String),
      message: 'webhook refused',
      provider: 'cardpayments',
      reason: 'missing_header',
      bodyLength: body.length,
      requestId: headers['x-request-id'],
    });
  });

  test('is counted by provider and reason, and costs no query of its own', async () => {
    const target = intake();
    const { body, headers } = signed('standard');
    for (let n = 0; n < 20; n += 1) await post(target, { headers: {}, body });
    await post(target, { headers: { ...headers, 'webhook-id': 'msg_2' }, body });
    await post(target, { headers, body, path: `/webhooks/${'x'.repeat(50)}` });
    await post(target, signed('standard', { body: Buffer.from('[]') }));
    expect(target.opened()).toBe(0);
    await target.rejections.flush();
    expect(target.opened()).toBe(1);
    const { rows } = await admin.query(
      `select provider, reason, count::int, day = (last_at at time zone 'utc')::date as today
       from webhook_rejections order by provider, reason`,
    );
    expect(rows).toEqual([
      { provider: 'cardpayments', reason: 'missing_header', count: 20, today: true },
      { provider: 'cardpayments', reason: 'not_an_object', count: 1, today: true },
      { provider: 'cardpayments', reason: 'signature_mismatch', count: 1, today: true },
      { provider: 'unknown', reason: 'unknown_provider', count: 1, today: true },
    ]);
  });
});

describe('the function', () => {
  const environment = {
    DATABASE_URL: '',
    WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
    WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${CANARY}_one whsec_${CANARY}_two`,
  };

  test('takes its secrets, schemes and database from the environment', async () => {
    // One of its own, since the relay that it kicks goes on after the test.
    const own = await createDatabase(inject('postgresUrl'));
    const { default: deployed } = await functionWith({ ...environment, DATABASE_URL: own });
    const body = bodyOf();
    const headers = senders.stripe.sign(body, { ...defaults, secret: `whsec_${CANARY}_two` });
    const request = { body, headers: { ...headers, 'content-type': 'application/json' } };
    expect(await post(deployed, request)).toMatchObject({ status: 200, json: { duplicate: false } });
    expect(await post(deployed, request)).toMatchObject({ status: 200, json: { duplicate: true } });
    expect(await post(deployed, { ...request, headers: {} })).toMatchObject({ status: 401 });
    const elsewhere = { ...request, path: '/webhooks/walletpayments' };
    expect(await post(deployed, elsewhere)).toMatchObject({
      status: 503,
      json: { code: 'webhook_not_configured' },
    });
    const client = new pg.Client(own);
    onTestFinished(() => client.end());
    await client.connect();
    expect((await client.query('select topic from events')).rows).toEqual([
      { topic: 'webhook.cardpayments.received' },
    ]);
  });

  test('that is deployed without a database answers 503, and refuses what it refuses without one', async () => {
    const { default: deployed } = await functionWith({ ...environment, VERCEL: '1' });
    const body = bodyOf();
    const headers = senders.stripe.sign(body, { ...defaults, secret: `whsec_${CANARY}_one` });
    const request = { body, headers: { ...headers, 'content-type': 'application/json' } };
    expect(await post(deployed, request)).toMatchObject({ status: 503, json: { code: 'misconfigured' } });
    const forged = { ...request, headers: { ...request.headers, 'stripe-signature': 't=1,v1=' } };
    expect(await post(deployed, forged)).toMatchObject({ status: 401 });
  });

  test('whose environment is wrong answers 503 and logs the name of the variable', async () => {
    const wrong = { ...environment, WEBHOOK_CARDPAYMENTS_SCHEME: CANARY };
    const { default: deployed } = await functionWith(wrong);
    expect(await post(deployed, signed('stripe'))).toMatchObject({
      status: 503,
      json: { code: 'misconfigured' },
    });
    expect(lines()).toContainEqual(expect.objectContaining({ variable: 'WEBHOOK_CARDPAYMENTS_SCHEME' }));
  });

  /** A fresh one, since the environment is read once. */
  async function functionWith(variables: Record<string, string>) {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.resetModules();
    return await import('../../api/webhooks/[provider].ts');
  }
});

const HOST = 'https://postbud.example';

/** What a signature can do nothing about, under every scheme but where the text itself is the point. */
const unstorable: [code: string, body: Buffer][] = [
  ['invalid_utf8', Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xff]), Buffer.from('"}')])],
  ['invalid_json', Buffer.from('{"id":"evt_1"')],
  ['invalid_json', Buffer.from('')],
  ['not_an_object', Buffer.from('[{"id":"evt_1"}]')],
  ['not_an_object', Buffer.from('null')],
  ['unsupported_text', Buffer.from('{"id":"evt_1","a":"\\u0000"}')],
  ['unsupported_text', Buffer.from('{"id":"evt_1","a":"\\ud800"}')],
  ['too_deep', Buffer.from(`{"id":"evt_1","a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)],
  ['unsupported_number', Buffer.from('{"id":"evt_1","a":1e200000}')],
];

test.each<[Scheme, string]>([
  ['stripe', '{"type":"x"}'],
  ['stripe', '{"id":"","type":"x"}'],
  ['stripe', '{"id":9007199254740993}'],
  ['stripe', `{"id":"${'a'.repeat(256)}"}`],
  ['stripe', '{"id":"evt 1"}'],
  ['github-style', '{"eventId":{"a":1},"type":"x"}'],
  ['vipps', '{"name":"CAPTURED","reference":"acme-1"}'],
  ['vipps', '{"name":"CAPTURED","reference":"acme:1","pspReference":"1"}'],
])('a signed event under %s without an id that can be kept is a 400: %s', async (scheme, text) => {
  const answer = await expectRefused(400, intake({ scheme }), signed(scheme, { body: Buffer.from(text) }));
  expect(answer.json.code).toBe('invalid_event_id');
});

test.each(['evt 1', 'evt:1', 'a'.repeat(256)])(
  'a signed event under standard with the id %s is a 400',
  async (id) => {
    const answer = await expectRefused(400, intake(), signed('standard', { id, body: Buffer.from('{}') }));
    expect(answer.json.code).toBe('invalid_event_id');
  },
);

interface Signing {
  readonly secret: string;
  readonly at: number;
  readonly id: string;
  readonly url: string;
}

const defaults = { at: NOW, id: 'msg_1', url: `${HOST}/webhooks/cardpayments` };

interface Sender {
  readonly secret: string;
  readonly sign: (body: Buffer, signing: Signing) => Record<string, string>;
}

/** Written from the providers' documentation, over bytes: the SDKs sign text only. */
const senders: Record<Scheme, Sender> = {
  standard: {
    secret: `whsec_${Buffer.from(`${CANARY} of at least 24 bytes`).toString('base64')}`,
    sign: (body, { secret, at, id }) => {
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
      const mac = createHmac('sha256', key).update(`${id}.${at}.`).update(body).digest('base64');
      return { 'webhook-id': id, 'webhook-timestamp': `${at}`, 'webhook-signature': `v1,${mac}` };
    },
  },
  stripe: {
    secret: `whsec_${CANARY}_stripe`,
    sign: (body, { secret, at }) => {
      const mac = createHmac('sha256', secret).update(`${at}.`).update(body).digest('hex');
      return { 'stripe-signature': `t=${at},v1=${mac}` };
    },
  },
  vipps: {
    secret: `${CANARY}-vipps`,
    sign(body, { secret, at, url: signedUrl }) {
      const { host, pathname, search } = new URL(signedUrl);
      const date = new Date(at * 1000).toUTCString();
      const hash = createHash('sha256').update(body).digest('base64');
      const signature = createHmac('sha256', secret).update(
        `POST\n${pathname}${search}\n${date};${host};${hash}`,
      );
      return {
        'x-ms-date': date,
        'x-ms-content-sha256': hash,
        authorization: `HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=${signature.digest('base64')}`,
      };
    },
  },
  criipto: {
    secret: Buffer.from(`${CANARY} of at least 32 bytes for Idura`).toString('base64'),
    sign: (body, { secret }) => ({
      'x-criipto-signature': createHmac('sha256', Buffer.from(secret, 'base64'))
        .update(body)
        .digest('base64'),
    }),
  },
  'github-style': {
    secret: `${CANARY}-hub`,
    sign: (body, { secret }) => ({
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    }),
  },
};

function otherSecret(scheme: Scheme): string {
  const bytes = Buffer.from(`${CANARY} of another endpoint, 32 bytes`);
  return scheme === 'standard' ? `whsec_${bytes.toString('base64')}` : bytes.toString('base64');
}

/** A body in which every scheme finds its fields. @param length pads it to so many bytes. */
function bodyOf(length = 0): Buffer {
  const fields = {
    id: 'evt_1',
    type: 'charge.refunded',
    event: 'login.succeeded',
    name: 'CAPTURED',
    reference: 'acme-1',
    pspReference: '42',
    data: { amount: 1200, text: CANARY, letters: 'blåbær 🫐' },
  };
  const bare = Buffer.byteLength(JSON.stringify({ ...fields, padding: '' }));
  return Buffer.from(JSON.stringify(length ? { ...fields, padding: 'x'.repeat(length - bare) } : fields));
}

function signed(
  scheme: Scheme,
  options: Partial<Signing> & { body?: Buffer } = {},
): { body: Buffer; headers: Record<string, string> } {
  const { body = bodyOf(), ...signing } = options;
  const { secret, sign } = senders[scheme];
  return {
    body,
    headers: { 'content-type': 'application/json', ...sign(body, { ...defaults, secret, ...signing }) },
  };
}

function signatureHeaders(headers: Record<string, string>): string[] {
  return Object.keys(headers).filter((name) => name !== 'content-type');
}

interface IntakeOptions {
  readonly provider?: Provider;
  readonly scheme?: Scheme;
  readonly secrets?: readonly string[];
  readonly database?: () => Promise<Database>;
  readonly now?: number;
}

/** The function as `api/webhooks/[provider].ts` composes it, with one provider set up. */
function intake(options: IntakeOptions = {}) {
  const { provider = 'cardpayments', scheme = 'standard', secrets = [senders[scheme].secret] } = options;
  const kick = vi.fn<() => void>();
  onTestFinished(onDue(connection.db, kick));
  const database = vi.fn(options.database ?? (async () => connection.db));
  const rejections = new Rejections(database);
  counters.push(rejections);
  const settings = settingsOf(provider, { scheme, secrets: [...secrets] });
  const { fetch } = endpoint(webhookRoute, {
    handle: async (request, { requestId }) =>
      Response.json(
        await receiveWebhook({
          request,
          requestId,
          settings,
          database,
          rejections,
          now: options.now ?? NOW,
        }),
      ),
  });
  return { fetch, rejections, kicks: () => kick.mock.calls.length, opened: () => database.mock.calls.length };
}

function settingsOf(provider: Provider, own: Config['webhooks'][Provider]): Config['webhooks'] {
  const none = { scheme: 'standard', secrets: [] } satisfies Config['webhooks'][Provider];
  const settings = { cardpayments: none, walletpayments: none, identityprovider: none };
  return { ...settings, [provider]: own };
}

interface Posted {
  readonly headers: Record<string, string>;
  readonly body: Buffer | ReadableStream<Uint8Array>;
  readonly path?: string;
}

type Target = Pick<ReturnType<typeof intake>, 'fetch'>;

async function post(target: Target, { headers, body, path = '/webhooks/cardpayments' }: Posted) {
  const type = { 'content-type': 'application/json' };
  const sent = body instanceof ReadableStream ? body : new Uint8Array(body);
  const init = { method: 'POST', headers: { ...type, ...headers }, body: sent, duplex: 'half' } as const;
  return await send(target, new Request(`${HOST}${path}`, init));
}

async function send({ fetch }: Target, request: Request) {
  const response = await fetch(request);
  const text = await response.text();
  const headers = Object.fromEntries(response.headers);
  answered.push(text, JSON.stringify(headers));
  return { status: response.status, headers, json: text ? answer.parse(JSON.parse(text)) : {} };
}

const answer = z.looseObject({
  code: z.string().optional(),
  eventId: z.string().optional(),
  duplicate: z.boolean().optional(),
});

/** Posts, and checks the answer, its form, and that nothing is left of it. */
async function expectRefused(status: number, target: ReturnType<typeof intake>, posted: Posted) {
  const refused = await post(target, posted);
  expect(refused.status).toBe(status);
  expect(refused.headers['content-type']).toBe('application/problem+json');
  expect(refused.headers['cache-control']).toBe('no-store');
  expect(refused.json).toMatchObject({ status, requestId: refused.headers['x-request-id'] });
  await expectNothingStored(target);
  return refused;
}

async function expectNothingStored(target: ReturnType<typeof intake>): Promise<void> {
  expect(await events()).toEqual([]);
  expect(await receipts()).toEqual([]);
  expect(target.opened()).toBe(0);
  expect(target.kicks()).toBe(0);
}

interface EventRow {
  readonly topic: string;
  readonly correlation_id: string;
  readonly payload: { readonly eventId: string; readonly eventType: string | null; readonly body: unknown };
}

async function events(): Promise<EventRow[]> {
  const { rows } = await admin.query<EventRow>('select * from events order by created_at, seq');
  return rows;
}

async function receipts(): Promise<unknown[]> {
  return (await admin.query('select * from webhook_receipts order by received_at')).rows;
}

function lines(): unknown[] {
  return written.flatMap((text) => (text.startsWith('{') ? [JSON.parse(text)] : []));
}

/** A body without an end, in pieces of 1 KiB. */
function endless() {
  let pulled = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1;
      controller.enqueue(Buffer.alloc(1024, ' '));
    },
  });
  return Object.assign(stream, { pulled: () => pulled });
}

test('the providers are those of the specification', () => {
  expect(providers).toEqual(['cardpayments', 'walletpayments', 'identityprovider']);
});
