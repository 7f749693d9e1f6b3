import { createHash } from 'node:crypto';
import { createServer } from 'node:net';

import fc from 'fast-check';
import pg from 'pg';
import { test as base, describe, expect, inject, onTestFinished, vi } from 'vitest';
import { z } from 'zod';

import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import { providers, schemes } from '../../lib/platform/config.ts';
import type { Config, Scheme } from '../../lib/platform/config.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { createDatabase, freePort } from '../support/postgres.ts';
import { bodyOf, CANARY, secretsOf, sign, WEBHOOK_URL } from '../support/webhook-senders.ts';
import type { Signing } from '../support/webhook-senders.ts';
import { forgetEvents } from '../support/scenes.ts';

// The intake around the schemes. What each scheme accepts is proven in tests/unit/webhook-schemes.test.ts, what a body
// may hold in tests/unit/webhook-body.test.ts, and how a body is read in tests/unit/http.test.ts.

const NOW = Math.floor(Date.now() / 1000);

const test = base
  .extend('database', { scope: 'file' }, async ({}, { onCleanup }) => {
    const url = await createDatabase(inject('postgresUrl'));
    const { db, close } = await connect(url);
    const admin = new pg.Pool({ connectionString: url });
    onCleanup(async () => {
      await close();
      await admin.end();
    });
    return { db, admin };
  })
  .extend('written', { auto: true }, ({}, { onCleanup }): string[] => {
    const written: string[] = [];
    const keep = (...said: unknown[]) => written.push(said.map(String).join(' ')) > 0;
    vi.spyOn(process.stdout, 'write').mockImplementation(keep);
    vi.spyOn(process.stderr, 'write').mockImplementation(keep);
    for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      vi.spyOn(console, level).mockImplementation(keep);
    }
    onCleanup(() => void vi.restoreAllMocks());
    return written;
  })
  .extend('postbud', async ({ database, written }, { onCleanup }) => {
    const { db, admin } = database;
    await forgetEvents(admin, 'webhook_receipts', 'webhook_rejections');
    const postbud = new Postbud(db, admin, written);
    onCleanup(() => postbud.expectNoLeak());
    return postbud;
  });

describe.each(schemes)('a webhook under %s', (scheme) => {
  test('a signed webhook becomes one receipt and one event, and is answered 200', async ({ postbud }) => {
    const body = bodyOf();
    const { status, json } = await postbud.post(postbud.intake({ scheme }), signed(scheme, { body }));
    expect(status).toBe(200);
    expect(json).toEqual({ received: true, duplicate: false, eventId: expect.any(String) });
    const [event] = await postbud.events();
    expect(event).toMatchObject({
      topic: 'webhook.cardpayments.received',
      producer: 'http',
      payload: {
        eventId: json.eventId,
        eventType: expect.any(String),
        endpoint: 'cardpayments',
        body: JSON.parse(body.toString()),
      },
    });
    expect(await postbud.receipts()).toMatchObject([
      {
        provider: 'cardpayments',
        event_id: json.eventId,
        event_type: event!.payload.eventType,
        body_sha256: createHash('sha256').update(body).digest('hex'),
        duplicates: 0,
      },
    ]);
  });

  test('a webhook that is sent again, signed anew, is a duplicate and no second event', async ({
    postbud,
  }) => {
    const target = postbud.intake({ scheme });
    const first = await postbud.post(target, signed(scheme));
    const again = await postbud.post(target, signed(scheme, { at: NOW - 60 }));
    expect(again).toMatchObject({
      status: 200,
      json: { received: true, duplicate: true, eventId: first.json.eventId },
    });
    expect(await postbud.events()).toHaveLength(1);
    expect(await postbud.receipts()).toMatchObject([{ duplicates: 1, body_mismatches: 0 }]);
    expect(target.kicks()).toBe(1);
  });

  test('an unsigned webhook, or one with another secret or a re-encoded body, is refused with 401', async ({
    postbud,
  }) => {
    const target = postbud.intake({ scheme });
    const { headers, body } = signed(scheme);
    const reEncoded = Buffer.from(JSON.stringify(JSON.parse(body.toString()), null, 1));
    for (const posted of [
      { headers: {}, body },
      { headers, body: reEncoded },
      signed(scheme, { secret: secretsOf[scheme][1] }),
    ]) {
      await postbud.expectRefused(401, target, posted);
    }
  });

  test('an endpoint without a usable secret answers 503 before it reads the body', async ({ postbud }) => {
    for (const secrets of [[], ['']]) {
      const body = endless();
      const target = postbud.intake({ scheme, secrets });
      const answer = await postbud.expectRefused(503, target, { headers: {}, body });
      expect(answer.json.code).toBe('webhook_not_configured');
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
      expect(body.pulled()).toBeLessThan(2);
      await postbud.expectRefused(503, target, signed(scheme, { key: Buffer.alloc(0) }));
    }
  });
});

describe('a signature', () => {
  test('a webhook may be signed 300 s ago, and is refused with 401 a second later', async ({ postbud }) => {
    const target = postbud.intake({ now: NOW });
    await postbud.expectRefused(401, target, signed('standard', { at: NOW - 301 }));
    expect((await postbud.post(target, signed('standard', { at: NOW - 300 }))).status).toBe(200);
  });

  test('every fault of a signature gets one and the same answer', async ({ postbud }) => {
    const target = postbud.intake();
    const { headers, body } = signed('standard');
    const posts = [
      { headers: {}, body },
      { headers: { ...headers, 'webhook-signature': 'v1,AAAA' }, body },
      signed('standard', { at: NOW - 3600 }),
      { headers: { ...headers, 'webhook-id': 'msg_other' }, body },
      { headers: { ...headers, 'webhook-id': 'a.b' }, body },
      { headers, body: Buffer.from('no JSON at all') },
      { headers, body: Buffer.alloc(0) },
    ];
    const answers = [];
    for (const posted of posts) {
      const answer = await postbud.post(target, posted);
      answers.push({ ...answer.json, requestId: '', headers: { ...answer.headers, 'x-request-id': '' } });
    }
    expect(answers[0]).toMatchObject({ status: 401, code: 'invalid_signature', title: 'Unauthorized' });
    for (const answer of answers) expect(answer).toEqual(answers[0]);
  });

  test("a webhook is refused with 401 at another provider's endpoint", async ({ postbud }) => {
    const secrets = [secretsOf.standard[1]];
    const target = postbud.intake({ provider: 'identityprovider', secrets });
    const path = '/webhooks/identityprovider';
    await postbud.expectRefused(401, target, { ...signed('standard'), path });
  });
});

test('what Postgres stores of a webhook equals what was sent, or the webhook is refused', async ({
  postbud,
  database,
}) => {
  const target = postbud.intake();
  const numbers = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
    fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
    fc.stringMatching(/^-?(?:0|[1-9]\d{0,20})\.\d{1,20}(?:e[+-]?\d{1,3})?$/),
  );
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(fc.array(numbers, { minLength: 1, maxLength: 3 }), fc.uuid(), async (sent, id) => {
      const text = `{"type":"x","text":"12345678901234567890","numbers":[${sent.join(',')}]}`;
      const { status } = await postbud.post(target, signed('standard', { body: Buffer.from(text), id }));
      statuses.add(status);
      const { rows } = await database.admin.query<{ is_equal: boolean }>(
        `select payload -> 'body' = $1::jsonb as is_equal from events where payload ->> 'eventId' = $2`,
        [status === 200 ? text : '{}', id],
      );
      expect(rows).toEqual(status === 200 ? [{ is_equal: true }] : []);
    }),
    { numRuns: 200 },
  );
  expect([...statuses].toSorted()).toEqual([200, 400]);
});

describe('a signed webhook that cannot be stored', () => {
  test.for<[code: string, body: string | Buffer]>([
    ['invalid_utf8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])],
    ['invalid_json', '{"id":"evt_1"'],
    ['not_an_object', '[{"id":"evt_1"}]'],
    ['unsupported_text', '{"id":"evt_1","a":"\\u0000"}'],
    ['too_deep', `{"id":"evt_1","a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['unsupported_number', '{"id":"evt_1","a":1e200000}'],
    ['unsupported_number', '{"id":"evt_1","a":12345678901234567890}'],
  ])('a signed body with the fault %s is refused with 400', async ([code, body], { postbud }) => {
    const answer = await postbud.expectRefused(
      400,
      postbud.intake(),
      signed('standard', { body: Buffer.from(body) }),
    );
    expect(answer.json.code).toBe(code);
  });

  test.for<[Scheme, string, id?: string]>([
    ['stripe', '{"type":"x"}'],
    ['github-style', '{"eventId":{"a":1},"type":"x"}'],
    ['standard', '{}', 'evt 1'],
  ])(
    'a signed event under %s whose id is missing or unusable is refused with 400: %s',
    async ([scheme, body, id], { postbud }) => {
      const target = postbud.intake({ scheme });
      const posted = signed(scheme, { body: Buffer.from(body), ...(id !== undefined && { id }) });
      expect((await postbud.expectRefused(400, target, posted)).json.code).toBe('invalid_event_id');
    },
  );
});

describe('the checks before the signature', () => {
  test.for([
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
    'cardpayments_2',
    'cardpayments-2',
    ' cardpayments',
    'unknown?provider=cardpayments',
    '',
  ])('a webhook to /webhooks/%s is answered 404', async (path, { postbud }) => {
    const posted = { ...signed('standard'), path: `/webhooks/${path}` };
    const answer = await postbud.expectRefused(404, postbud.intake(), posted);
    expect({ ...answer.json, requestId: '' }).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      code: 'unknown_provider',
      detail: 'There is no webhook endpoint at this address.',
      requestId: '',
    });
  });

  test('the body of a webhook to an unknown provider is not read', async ({ postbud }) => {
    const body = endless();
    await postbud.expectRefused(404, postbud.intake(), { headers: {}, body, path: '/webhooks/unknown' });
    expect(body.pulled()).toBeLessThan(2);
  });

  test.for([
    ['content-type', 'text/plain', 'unsupported_media_type'],
    ['content-encoding', 'gzip', 'unsupported_encoding'],
  ] as const)(
    'a webhook with %s: %s is refused with 415 unread',
    async ([name, value, code], { postbud }) => {
      const body = endless();
      const { headers } = signed('standard');
      const posted = { headers: { ...headers, [name]: value }, body };
      expect((await postbud.expectRefused(415, postbud.intake(), posted)).json.code).toBe(code);
      expect(body.pulled()).toBeLessThan(2);
    },
  );

  test('a signed body of 256 KiB is accepted, and one of a byte more is refused with 413', async ({
    postbud,
  }) => {
    const fitting = bodyOf(256 * 1024);
    const longer = Buffer.concat([fitting, Buffer.from(' ')]);
    const refused = await postbud.expectRefused(413, postbud.intake(), signed('standard', { body: longer }));
    expect(refused.json.code).toBe('body_too_large');
    expect(fitting).toHaveLength(256 * 1024);
    expect((await postbud.post(postbud.intake(), signed('standard', { body: fitting }))).status).toBe(200);
  });
});

describe('the path', () => {
  test('a webhook may arrive at the rewritten path', async ({ postbud }) => {
    const posted = { ...signed('standard'), path: '/api/webhooks/cardpayments' };
    expect((await postbud.post(postbud.intake(), posted)).status).toBe(200);
  });

  test.for(['?provider=walletpayments', '?provider=unknown', '?provider=__proto__'])(
    'the path names the provider, not the query %s',
    async (query, { postbud }) => {
      const posted = { ...signed('standard'), path: `/webhooks/cardpayments${query}` };
      expect((await postbud.post(postbud.intake(), posted)).status).toBe(200);
      expect(await postbud.receipts()).toMatchObject([{ provider: 'cardpayments' }]);
    },
  );

  test.for([
    ['', '?provider=cardpayments', 200],
    ['?a=1', '?a=1&provider=cardpayments', 200],
    ['?a=1', '?provider=cardpayments&a=1', 200],
    ['?a=%7E+b&b', '?a=%7E+b&b&provider=cardpayments', 200],
    ['?provider=cardpayments', '?provider=cardpayments&provider=cardpayments', 200],
    ['?provider=evil', '?provider=evil&provider=cardpayments', 200],
    ['?myprovider=cardpayments', '?myprovider=cardpayments&provider=cardpayments', 200],
    ['?a=1', '?a=1', 200],
    ['?a=2', '?a=1', 401],
  ] as const)(
    'a webhook signed with the query %j that arrives with %j is answered %i',
    async ([sent, received, status], { postbud }) => {
      const posted = signed('vipps', { url: WEBHOOK_URL + sent });
      const target = postbud.intake({ scheme: 'vipps' });
      const path = `/webhooks/cardpayments${received}`;
      expect((await postbud.post(target, { ...posted, path })).status).toBe(status);
    },
  );
});

describe('behind another host or a rewrite', () => {
  const url = 'https://hooks.example.no/vipps/wallet';

  test.for([
    ['', '?provider=cardpayments', 200],
    ['?a=1', '?a=1&provider=cardpayments', 200],
    ['?a=1', '?a=2&provider=cardpayments', 401],
  ] as const)(
    'a webhook signed for the configured address with the query %j that arrives with %j is answered %i',
    async ([sent, received, status], { postbud }) => {
      const posted = { ...signed('vipps', { url: url + sent }), path: `/webhooks/cardpayments${received}` };
      const { status: answered } = await postbud.post(postbud.intake({ scheme: 'vipps', url }), posted);
      expect(answered).toBe(status);
    },
  );

  test('the log of a refused webhook says for which address its signature was checked', async ({
    postbud,
  }) => {
    const posted = { ...signed('vipps', { url }), path: '/webhooks/cardpayments?key=abc' };
    expect((await postbud.post(postbud.intake({ scheme: 'vipps' }), posted)).status).toBe(401);
    expect(postbud.lines()).toContainEqual(
      expect.objectContaining({ reason: 'signature_mismatch', address: WEBHOOK_URL }),
    );
    const foreign = signed('vipps');
    expect((await postbud.post(postbud.intake({ scheme: 'vipps', url }), foreign)).status).toBe(401);
    expect(postbud.lines()).toContainEqual(expect.objectContaining({ address: url }));
  });
});

describe("GitHub's own deliveries", () => {
  const delivered = (id: string, body: string) => {
    const { headers, ...posted } = signed('github-style', { body: Buffer.from(body) });
    const github = { 'x-github-delivery': id, 'x-github-event': 'issues' };
    return { ...posted, headers: { ...headers, ...github } };
  };

  test('are events by their delivery, each body once, also when it is replayed under another delivery', async ({
    postbud,
  }) => {
    const target = postbud.intake({ scheme: 'github-style' });
    const body = '{"action":"opened","issue":{"id":73464126}}';
    const answers = [];
    for (const [id, sent] of [
      ['d-1', body],
      ['d-1', body],
      ['d-2', body],
      ['d-3', body.replace('opened', 'closed')],
    ] as const) {
      const { status, json } = await postbud.post(target, delivered(id, sent));
      answers.push([status, json.eventId, json.duplicate]);
    }
    expect(answers).toEqual([
      [200, 'd-1', false],
      [200, 'd-1', true],
      [200, 'd-2', true],
      [200, 'd-3', false],
    ]);
    expect((await postbud.events()).map(({ payload }) => payload.eventType)).toEqual([
      'issues.opened',
      'issues.closed',
    ]);
    const twins = Array.from({ length: 20 }, (_, n) => postbud.post(target, delivered(`t-${n}`, '{"a":1}')));
    const news = (await Promise.all(twins)).filter(({ json }) => json.duplicate === false);
    expect(news).toHaveLength(1);
    expect(await postbud.events()).toHaveLength(3);
  });
});

describe('the event of a webhook', () => {
  test('an event may have an unknown type, or none', async ({ postbud }) => {
    const target = postbud.intake();
    for (const [id, body] of [
      ['msg_1', '{"type":"never.heard.of"}'],
      ['msg_2', '{}'],
      ['msg_3', '{"type":7}'],
    ] as const) {
      const posted = signed('standard', { id, body: Buffer.from(body) });
      expect((await postbud.post(target, posted)).status).toBe(200);
    }
    const types = (await postbud.events()).map(({ payload }) => payload.eventType);
    expect(types).toEqual(['never.heard.of', null, null]);
  });

  test('an event keeps keys that mean something to JavaScript as plain data', async ({
    database,
    postbud,
  }) => {
    const body = Buffer.from('{"constructor":{"prototype":{"x":1}},"data":{"__proto__":{"x":1}}}');
    expect((await postbud.post(postbud.intake(), signed('standard', { body }))).status).toBe(200);
    expect('x' in {}).toBe(false);
    const { rows } = await database.admin.query(
      `select payload #>> '{body,data,__proto__,x}' as x from events`,
    );
    expect(rows).toEqual([{ x: '1' }]);
  });

  test('the correlation id of an event is the id of its request, and no name that its caller chose', async ({
    postbud,
  }) => {
    const { headers, body } = signed('standard');
    const posted = { headers: { ...headers, 'x-request-id': 'kari.lunde' }, body };
    const answer = await postbud.post(postbud.intake(), posted);
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(await postbud.events()).toMatchObject([{ correlation_id: answer.headers['x-request-id'] }]);
  });
});

describe('the same event id', () => {
  test('100 posts of one event id at once are one event and 99 duplicates', async ({ postbud }) => {
    const target = postbud.intake();
    const posts = Array.from({ length: 100 }, () => postbud.post(target, signed('standard')));
    const answers = await Promise.all(posts);
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(answers.filter(({ json }) => json.duplicate === false)).toHaveLength(1);
    expect(await postbud.events()).toHaveLength(1);
    expect(await postbud.receipts()).toMatchObject([{ duplicates: 99, body_mismatches: 0 }]);
    expect(target.kicks()).toBe(1);
  });

  test('a duplicate with another body is counted, logged and not emitted', async ({ postbud }) => {
    const target = postbud.intake();
    await postbud.post(target, signed('standard'));
    const answer = await postbud.post(target, signed('standard', { body: Buffer.from('{"type":"other"}') }));
    expect(answer).toMatchObject({
      status: 200,
      json: { received: true, duplicate: true, eventId: 'msg_1' },
    });
    expect(await postbud.events()).toMatchObject([{ payload: { eventType: 'charge.refunded' } }]);
    expect(await postbud.receipts()).toMatchObject([
      { duplicates: 1, body_mismatches: 1, event_type: 'charge.refunded' },
    ]);
    expect(postbud.lines()).toContainEqual(
      expect.objectContaining({ level: 'warn', provider: 'cardpayments', eventId: 'msg_1' }),
    );
  });

  test('one event id from two accounts of a provider is two events of one topic, each with its endpoint', async ({
    postbud,
  }) => {
    for (const provider of ['cardpayments', 'cardpayments_2']) {
      const target = postbud.intake({ provider });
      const posted = { ...signed('standard'), path: `/webhooks/${provider}?provider=${provider}` };
      expect((await postbud.post(target, posted)).json).toMatchObject({ duplicate: false, eventId: 'msg_1' });
      expect((await postbud.post(target, posted)).json).toMatchObject({ duplicate: true, eventId: 'msg_1' });
    }
    const from = (endpoint: string) => ({ topic: 'webhook.cardpayments.received', payload: { endpoint } });
    expect(await postbud.events()).toMatchObject([from('cardpayments'), from('cardpayments_2')]);
    expect(await postbud.receipts()).toMatchObject([
      { provider: 'cardpayments', duplicates: 1 },
      { provider: 'cardpayments_2', duplicates: 1 },
    ]);
    const target = postbud.intake({ provider: 'cardpayments_2', secrets: [secretsOf.standard[1]] });
    const foreign = { ...signed('standard', { id: 'msg_2' }), path: '/webhooks/cardpayments_2' };
    expect(await postbud.post(target, foreign)).toMatchObject({ status: 401 });
    expect(postbud.lines()).toContainEqual(
      expect.objectContaining({ message: 'webhook refused', provider: 'cardpayments_2' }),
    );
  });

  test('one event id from two providers is two events', async ({ postbud }) => {
    for (const provider of ['cardpayments', 'walletpayments'] as const) {
      const target = postbud.intake({ provider });
      const answer = await postbud.post(target, { ...signed('standard'), path: `/webhooks/${provider}` });
      expect(answer.json).toMatchObject({ duplicate: false, eventId: 'msg_1' });
    }
    const topics = (await postbud.events()).map(({ topic }) => topic);
    expect(topics).toEqual(['webhook.cardpayments.received', 'webhook.walletpayments.received']);
  });
});

describe('without a database', () => {
  const unavailable = { status: 503, json: { code: 'database_unavailable', title: 'Service Unavailable' } };

  test('a webhook is answered 503 with Retry-After when no database listens', async ({ postbud }) => {
    const { db, close } = await connect(`postgres://postgres@127.0.0.1:${await freePort()}/postgres`);
    onTestFinished(close);
    const answer = await postbud.post(postbud.intake({ database: async () => db }), signed('standard'));
    expect(answer).toMatchObject(unavailable);
    expect(answer.headers['retry-after']).toBe('5');
    expect(postbud.lines()).toContainEqual(expect.objectContaining({ level: 'error', code: 'ECONNREFUSED' }));
  });

  test('a webhook is answered 503 within six seconds when the database does not answer', async ({
    postbud,
  }) => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void silent.close());
    const { port } = z.object({ port: z.number() }).parse(silent.address());
    const { db } = await connect(`postgres://postgres@127.0.0.1:${port}/postgres`);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const unanswered = [async () => db, () => new Promise<Database>(() => undefined)];
    const intakes = unanswered.map((database) => postbud.intake({ database }));
    const answers = intakes.map((target) => postbud.post(target, signed('standard')));
    await expect.poll(() => intakes.map((target) => target.opened())).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(6000);
    for (const answer of await Promise.all(answers)) expect(answer).toMatchObject(unavailable);
  });

  test('a webhook that is not acceptable is refused as usual while the database is away', async ({
    postbud,
  }) => {
    const target = postbud.intake({ database: () => Promise.reject(new Error(CANARY)) });
    const { body } = signed('standard');
    expect((await postbud.post(target, { headers: {}, body })).status).toBe(401);
    expect((await postbud.post(target, { headers: {}, body, path: '/webhooks/x' })).status).toBe(404);
  });
});

describe('a refused webhook', () => {
  test('a refusal leaves one log line with provider, reason and length', async ({ postbud }) => {
    const { body } = signed('standard');
    const { headers } = await postbud.post(postbud.intake(), { headers: {}, body });
    expect(postbud.lines()).toContainEqual({
      level: 'warn',
      at: expect.any(String),
      message: 'webhook refused',
      provider: 'cardpayments',
      reason: 'missing_header',
      bodyLength: body.length,
      requestId: headers['x-request-id'],
    });
  });

  test('refusals are counted by provider and reason, without a query of their own', async ({
    database,
    postbud,
  }) => {
    const target = postbud.intake();
    const { body, headers } = signed('standard');
    for (let n = 0; n < 20; n += 1) await postbud.post(target, { headers: {}, body });
    await postbud.post(target, { headers: { ...headers, 'webhook-id': 'msg_2' }, body });
    await postbud.post(target, { headers, body, path: `/webhooks/${'x'.repeat(50)}` });
    await postbud.post(target, signed('standard', { body: Buffer.from('[]') }));
    expect(target.opened()).toBe(0);
    await target.rejections.flush();
    expect(target.opened()).toBe(1);
    const { rows } = await database.admin.query(
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

describe('the deployed function', () => {
  const environment = {
    DATABASE_URL: '',
    WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
    WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${CANARY}_one whsec_${CANARY}_two`,
  };
  const stripe = (name: 'one' | 'two') => signed('stripe', { secret: `whsec_${CANARY}_${name}` });

  test('the function takes its secrets, schemes and database from the environment', async ({ postbud }) => {
    // One of its own, since the relay that it kicks goes on after the test.
    const own = await createDatabase(inject('postgresUrl'));
    const { default: deployed } = await functionWith({ ...environment, DATABASE_URL: own });
    for (const [posted, answer] of [
      [stripe('two'), { status: 200, json: { duplicate: false } }],
      [stripe('two'), { status: 200, json: { duplicate: true } }],
      [{ ...stripe('two'), headers: {} }, { status: 401 }],
      [
        { ...stripe('two'), path: '/webhooks/walletpayments' },
        { status: 503, json: { code: 'webhook_not_configured' } },
      ],
    ] as const) {
      expect(await postbud.post(deployed, posted)).toMatchObject(answer);
    }
    const client = new pg.Client(own);
    onTestFinished(() => client.end());
    await client.connect();
    expect((await client.query('select topic from events')).rows).toEqual([
      { topic: 'webhook.cardpayments.received' },
    ]);
  });

  test('a function deployed without a database answers 503, and still refuses a forged webhook', async ({
    postbud,
  }) => {
    const { default: deployed } = await functionWith({ ...environment, VERCEL: '1' });
    const request = stripe('one');
    expect(await postbud.post(deployed, request)).toMatchObject({
      status: 503,
      json: { code: 'misconfigured' },
    });
    const forged = { ...request, headers: { ...request.headers, 'stripe-signature': 't=1,v1=' } };
    expect(await postbud.post(deployed, forged)).toMatchObject({ status: 401 });
  });

  /** A fresh one, since the environment is read once. */
  async function functionWith(variables: Record<string, string>) {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.resetModules();
    return await import('../../api/webhooks/[provider].ts');
  }
});

test('the providers are those of the specification', () => {
  expect(providers).toEqual(['cardpayments', 'walletpayments', 'identityprovider']);
});

interface Posted {
  readonly headers: Record<string, string>;
  readonly body: Buffer | ReadableStream<Uint8Array>;
  readonly path?: string;
}

/** A webhook to `/webhooks/cardpayments`, signed now with the configured secret unless told otherwise. */
function signed(scheme: Scheme, { body = bodyOf(), ...signing }: Partial<Signing> & { body?: Buffer } = {}) {
  const signature = sign(scheme, body, { at: NOW, ...signing });
  return { body, headers: { 'content-type': 'application/json', ...signature } };
}

interface IntakeOptions {
  /** The endpoint's name. */
  readonly provider?: string;
  readonly scheme?: Scheme;
  readonly secrets?: readonly string[];
  readonly database?: () => Promise<Database>;
  readonly now?: number;
  readonly url?: string;
}

type Intake = ReturnType<Postbud['intake']>;

interface EventRow {
  readonly topic: string;
  readonly payload: { readonly eventType: string | null };
}

const answer = z.looseObject({
  code: z.string().optional(),
  eventId: z.string().optional(),
  duplicate: z.boolean().optional(),
});

/** Intakes over the file's database, the answers they gave, and the rows they left. */
class Postbud {
  readonly #db: Database;
  readonly #admin: pg.Pool;
  readonly #written: readonly string[];
  readonly #answered: string[] = [];
  readonly #counters: Rejections[] = [];

  constructor(db: Database, admin: pg.Pool, written: readonly string[]) {
    this.#db = db;
    this.#admin = admin;
    this.#written = written;
  }

  /** The function as `api/webhooks/[provider].ts` composes it, with one provider set up. */
  intake(options: IntakeOptions = {}) {
    const { provider = 'cardpayments', scheme = 'standard', now = NOW } = options;
    const { secrets = [secretsOf[scheme][0]] } = options;
    const kick = vi.fn<() => void>();
    onTestFinished(onDue(this.#db, kick));
    const database = vi.fn(options.database ?? (async () => this.#db));
    const rejections = new Rejections(database);
    this.#counters.push(rejections);
    const none = { scheme: 'standard', secrets: [] } satisfies Config['webhooks'][string];
    const unset = { cardpayments: none, walletpayments: none, identityprovider: none };
    const settings: Config['webhooks'] = { ...unset, [provider]: { scheme, secrets, url: options.url } };
    const { fetch } = endpoint(webhookRoute, {
      handle: async (request, { requestId }) =>
        Response.json(await receiveWebhook({ request, requestId, settings, database, rejections, now })),
    });
    return {
      fetch,
      rejections,
      kicks: () => kick.mock.calls.length,
      opened: () => database.mock.calls.length,
    };
  }

  async post({ fetch }: Pick<Intake, 'fetch'>, { headers, body, path = '/webhooks/cardpayments' }: Posted) {
    const type = { 'content-type': 'application/json' };
    const sent = body instanceof ReadableStream ? body : new Uint8Array(body);
    const init = { method: 'POST', headers: { ...type, ...headers }, body: sent, duplex: 'half' } as const;
    const response = await fetch(new Request(new URL(WEBHOOK_URL).origin + path, init));
    const text = await response.text();
    const received = Object.fromEntries(response.headers);
    this.#answered.push(text, JSON.stringify(received));
    return { status: response.status, headers: received, json: answer.parse(JSON.parse(text)) };
  }

  /** Posts, and checks the answer, its form, and that nothing is left of it. */
  async expectRefused(status: number, target: Intake, posted: Posted) {
    const refused = await this.post(target, posted);
    expect(refused.status).toBe(status);
    expect(refused.headers).toMatchObject({
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
    });
    expect(refused.json).toMatchObject({ status, requestId: refused.headers['x-request-id'] });
    expect([await this.events(), await this.receipts()]).toEqual([[], []]);
    expect([target.opened(), target.kicks()]).toEqual([0, 0]);
    return refused;
  }

  async events(): Promise<EventRow[]> {
    return (await this.#admin.query<EventRow>('select * from events order by created_at, seq')).rows;
  }

  async receipts(): Promise<unknown[]> {
    return (await this.#admin.query('select * from webhook_receipts order by received_at')).rows;
  }

  lines(): unknown[] {
    return this.#written.flatMap((text) => (text.startsWith('{') ? [JSON.parse(text)] : []));
  }

  /** Whatever a test does: no secret, signature or body comes out of it. */
  async expectNoLeak(): Promise<void> {
    // Else what was counted is written ten seconds later, in the middle of another test.
    for (const rejections of this.#counters) await rejections.flush();
    const everything = [...this.#written, ...this.#answered].join('\n');
    expect(everything).not.toContain('internal_error');
    for (const secret of [CANARY, ...Object.values(secretsOf).flat()])
      expect(everything).not.toContain(secret);
    expect(everything).not.toMatch(/v1[,=][\w+/]{8}|sha256=|HMAC-SHA256/);
  }
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
