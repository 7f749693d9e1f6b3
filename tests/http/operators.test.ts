import { SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { catalog } from '../../lib/catalog/catalog.ts';
import type { OperatorSettings } from '../../lib/config.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { subscriber } from '../../lib/subscribers/subscriber.ts';
import { HOUR, SECOND } from '../../lib/time.ts';
import { operatorFunction } from '../support/operator-function.ts';
import { drain, drainLive, emitPayments, openBus, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

const SECRET = 'an operator secret of the tests, 32 bytes and more';
const settings: OperatorSettings = {
  issuer: 'postbud',
  audience: 'postbud-operators',
  maxAgeSeconds: 86_400,
  kind: 'secret',
  secret: Buffer.from(SECRET),
};
const HOME = '/platform/event-bus';
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const NOBODY = '999999999999999999-1';
const NO_REPLAY = '019a0000-0000-7000-8000-000000000009';

let bus: Bus;
let kicks: number;
beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
});
afterAll(() => bus.close());
beforeEach(async () => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await bus.reset();
  await rows(bus.db, 'truncate replays, operator_actions, pauses');
  await rows(bus.db, 'update last_pass set at = null');
  kicks = 0;
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

const ledger = (handle: () => unknown = () => undefined) =>
  subscriber('ledger', { 'payment.captured': handle });
const refuse = () => {
  throw new PermanentError('refused');
};
const fail = () => {
  throw new TypeError('the ledger is down');
};

const { fetch } = operatorFunction({
  settings,
  db: () => bus.db,
  subscribers: () => [ledger()],
  kick: () => (kicks += 1),
});

async function token(scope = 'event-bus:read event-bus:replay event-bus:reveal'): Promise<string> {
  const seconds = Math.floor(Date.now() / SECOND);
  return await new SignJWT({
    iss: settings.issuer,
    aud: settings.audience,
    sub: 'kari@solvik.example.no',
    iat: seconds,
    exp: seconds + 300,
    scope,
  })
    .setProtectedHeader({ alg: 'HS256' })
    .sign(Buffer.from(SECRET));
}

interface Sent {
  readonly accept?: string;
  readonly scope?: string;
  readonly json?: unknown;
  readonly form?: Readonly<Record<string, string>>;
  readonly method?: string;
}

async function requestOf(path: string, { accept, scope, json, form, method }: Sent): Promise<Request> {
  const body = form ? new URLSearchParams(form) : json === undefined ? null : JSON.stringify(json);
  return new Request(`https://postbud.example${path}`, {
    method: method ?? (body === null ? 'GET' : 'POST'),
    headers: {
      authorization: `Bearer ${await token(scope)}`,
      ...(accept !== undefined && { accept }),
      ...(json !== undefined && { 'content-type': 'application/json' }),
    },
    body,
  });
}

/** Asks all the functions in one. @param path below the console's home. */
async function ask(path: string, sent: Sent = {}) {
  const response = await fetch(await requestOf(HOME + path, sent));
  const text = await response.text();
  const type = response.headers.get('content-type') ?? '';
  return {
    status: response.status,
    headers: response.headers,
    type,
    text,
    json: (type.includes('json') && text ? JSON.parse(text) : {}) as Record<string, unknown>,
  };
}

/** Makes so many dead letters of the ledger. @returns their ids, oldest first. */
async function died(count: number): Promise<string[]> {
  await emitPayments(bus.db, 1, count);
  await drainLive(bus.db, [ledger(refuse)]);
  return await idsIn('dead_lettered');
}

/** Makes a lane of the ledger wait. @returns the deliveries in it, the one that holds it first. */
async function held(count: number): Promise<string[]> {
  await emitPayments(bus.db, 1, count);
  await drainLive(bus.db, [ledger(fail)]);
  return [...(await idsIn('failing')), ...(await idsIn('pending'))];
}

async function idsIn(state: string): Promise<string[]> {
  const found = await rows<{ id: string }>(
    bus.db,
    `select lane_id || '-' || position as id from deliveries join lanes on lanes.id = lane_id
     where subscriber = 'ledger' and state::text = $1 order by position`,
    [state],
  );
  return found.map(({ id }) => id);
}

const good = { topic: 'payment.captured', since: '24h' };

describe('the JSON of the contract', () => {
  const COUNTS = {
    pending: expect.any(Number),
    failing: expect.any(Number),
    deadLettered: expect.any(Number),
  };

  test('overview', async () => {
    await died(2);
    const { json, status, type } = await ask('');
    expect([status, type]).toEqual([200, 'application/json']);
    expect(json).toMatchObject({
      generatedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      relay: { state: 'running', lastPassAt: expect.stringMatching(/Z$/), lagSeconds: expect.any(Number) },
      totals: { pending: 0, failing: 0, deadLettered: 2 },
    });
    const topics = json['topics'] as Record<string, unknown>[];
    expect(topics.map(({ topic }) => topic)).toEqual(Object.keys(catalog));
    for (const topic of topics) {
      expect(topic).toMatchObject({ topic: expect.any(String), producer: expect.any(String), ...COUNTS });
      expect(Object.keys(topic)).toEqual(
        expect.arrayContaining(['oldestDueAgeSeconds', 'nextRetryAt', 'subscribers']),
      );
      for (const row of topic['subscribers'] as unknown[]) {
        expect(row).toMatchObject({
          subscriber: expect.any(String),
          attached: expect.any(Boolean),
          ...COUNTS,
          paused: expect.any(Boolean),
        });
      }
    }
    expect(topics.find(({ topic }) => topic === 'payment.captured')).toMatchObject({
      producer: 'payments',
      pending: 0,
      deadLettered: 2,
      oldestDueAgeSeconds: null,
      nextRetryAt: null,
      subscribers: [
        { subscriber: 'bookings', attached: false, pending: 2, failing: 0, deadLettered: 0, paused: false },
        { subscriber: 'ledger', attached: true, pending: 0, failing: 0, deadLettered: 2, paused: false },
        { subscriber: 'notifications', attached: false, pending: 2 },
        { subscriber: 'accounting', attached: false, pending: 2 },
      ],
    });
  });

  test('dead letters', async () => {
    const [, second] = await died(2);
    const { json } = await ask('/dead-letters?limit=1&topic=payment.captured');
    expect(json).toMatchObject({ total: 2, nextCursor: expect.stringMatching(/^[\w-]+$/) });
    expect(json['items']).toEqual([
      {
        deliveryId: second,
        eventId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        topic: 'payment.captured',
        subscriber: 'ledger',
        subject: expect.any(String),
        createdAt: expect.stringMatching(/Z$/),
        deadLetteredAt: expect.stringMatching(/Z$/),
        failures: 1,
        replays: 0,
        lastError: { kind: 'permanent', message: 'refused', group: expect.stringMatching(/^[0-9a-f]{16}$/) },
      },
    ]);
    expect(json['groups']).toMatchObject([
      {
        group: expect.stringMatching(/^[0-9a-f]{16}$/),
        message: 'refused',
        topic: 'payment.captured',
        subscriber: 'ledger',
        count: 2,
        firstAt: expect.stringMatching(/Z$/),
        lastAt: expect.stringMatching(/Z$/),
      },
    ]);
    const next = await ask(
      `/dead-letters?limit=1&topic=payment.captured&cursor=${json['nextCursor'] as string}`,
    );
    expect(next.json).toMatchObject({ items: [{ failures: 1 }], nextCursor: null });
  });

  test('replay', async () => {
    await died(2);
    const { json } = await ask('/replay', { json: good });
    expect(json).toEqual({
      replayId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      topic: 'payment.captured',
      since: '24h',
      matched: 2,
      replayed: 2,
    });
  });
});

/** Every page, with what is there to be seen. */
async function places(): Promise<string[]> {
  const [letter] = await died(2);
  const { json } = await ask('/replay', { json: { ...good, limit: 1 } });
  return [
    '',
    '/topics/payment.captured',
    '/dead-letters',
    `/dead-letters/${letter}`,
    '/replay?topic=payment.captured&since=24h',
    '/replays',
    `/replays/${String(json['replayId'])}`,
    '/catalog',
  ];
}

describe('every page', () => {
  test('is HTML for a browser and JSON for a program, and tells caches so', async () => {
    for (const path of await places()) {
      const page = await ask(path, { accept: BROWSER });
      expect([path, page.status, page.type]).toEqual([path, 200, 'text/html; charset=utf-8']);
      expect(page.text).toMatch(/^<!doctype html>/i);
      for (const accept of [undefined, '*/*', 'application/json', 'text/html;q=0.5, application/json']) {
        const answer = await ask(path, accept === undefined ? {} : { accept });
        expect([path, accept, answer.status, answer.type]).toEqual([path, accept, 200, 'application/json']);
        expect(answer.headers.get('vary')).toContain('Accept');
        expect(answer.headers.get('cache-control')).toBe('no-store');
      }
    }
  });

  test('is nothing else: 406', async () => {
    for (const path of await places()) {
      const answer = await ask(path, { accept: 'image/png' });
      expect([path, answer.status, answer.json['code']]).toEqual([path, 406, 'not_acceptable']);
    }
  });

  test('has no body for HEAD, and is not to be deleted', async () => {
    for (const path of await places()) {
      const head = await ask(path, { method: 'HEAD' });
      expect([path, head.status, head.text]).toEqual([path, 200, '']);
      const gone = await ask(path, { method: 'DELETE' });
      expect([path, gone.status, gone.headers.get('allow')?.includes('GET')]).toEqual([path, 405, true]);
    }
  });

  test('is 403 for a token of another scope, as a page and as JSON', async () => {
    for (const path of await places()) {
      const scope = 'event-bus:replay event-bus:reveal';
      const answer = await ask(path, { scope });
      expect([path, answer.status, answer.json['code']]).toEqual([path, 403, 'insufficient_scope']);
      const page = await ask(path, { scope, accept: BROWSER });
      expect([path, page.status, page.type]).toEqual([path, 403, 'text/html; charset=utf-8']);
      expect(page.text).not.toContain('the ledger is down');
    }
  });
});

/** Everything that changes something, or shows what is hidden, with a body that would do. */
async function deeds(): Promise<
  readonly (readonly [path: string, scope: string, body: Record<string, string>])[]
> {
  const [letter] = await died(1);
  const [first] = await held(2);
  const reason = 'for a reason';
  return [
    [`/deliveries/${first}/retry`, 'event-bus:replay', { reason }],
    [`/deliveries/${first}/skip`, 'event-bus:replay', { reason }],
    ['/subscribers/ledger/pause', 'event-bus:replay', { reason }],
    ['/subscribers/ledger/resume', 'event-bus:replay', { reason }],
    [`/dead-letters/${letter}/reveal`, 'event-bus:reveal', { reason }],
    ['/replay', 'event-bus:replay', good],
  ];
}

const SCOPES = ['event-bus:read', 'event-bus:replay', 'event-bus:reveal'];

describe('every deed', () => {
  test('is 403 for a token without its scope, and is not done', async () => {
    for (const [path, scope, body] of await deeds()) {
      const others = SCOPES.filter((other) => other !== scope).join(' ');
      for (const sent of [{ json: body }, { form: body }]) {
        const answer = await ask(path, { ...sent, scope: others });
        expect([path, answer.status, answer.json['code']]).toEqual([path, 403, 'insufficient_scope']);
      }
    }
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    expect(await rows(bus.db, `select from deliveries where replays > 0`)).toEqual([]);
    expect(kicks).toBe(0);
  });

  test('is done with its scope alone, and kept with who and why', async () => {
    for (const [path, scope, body] of await deeds()) {
      const answer = await ask(path, { json: body, scope });
      expect([path, answer.status]).toEqual([path, 200]);
    }
    expect(await rows(bus.db, 'select distinct operator, reason from operator_actions')).toEqual([
      { operator: 'kari@solvik.example.no', reason: 'for a reason' },
    ]);
    expect(await rows(bus.db, 'select action from operator_actions order by at')).toEqual(
      ['retry', 'skip', 'pause', 'resume', 'reveal'].map((action) => ({ action })),
    );
    expect(kicks).toBeGreaterThanOrEqual(4);
  });

  test('is not done by GET', async () => {
    for (const [path] of await deeds()) {
      if (path === '/replay') continue;
      const answer = await ask(path);
      expect([path, answer.status, answer.headers.get('allow')]).toEqual([path, 405, 'POST']);
    }
  });

  test('with a body of another type is 415, with one too large 413, with none or a wrong one 400', async () => {
    for (const [path] of await deeds()) {
      const authorization = `Bearer ${await token()}`;
      const post = async (type: string, body: string) =>
        (
          await fetch(
            new Request(`https://postbud.example${HOME}${path}`, {
              method: 'POST',
              headers: { authorization, 'content-type': type },
              body,
            }),
          )
        ).status;
      expect([path, await post('text/plain', 'reason')]).toEqual([path, 415]);
      expect([path, await post('application/json', `"${'x'.repeat(70_000)}"`)]).toEqual([path, 413]);
      expect([path, await post('application/json', '{')]).toEqual([path, 400]);
      expect([path, await post('application/json', '[]')]).toEqual([path, 400]);
      expect([path, await post('application/json', '{"reason":17}')]).toEqual([path, 400]);
    }
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });
});

describe('a form', () => {
  const asBrowser = { accept: BROWSER };

  test('to replay leads to the replay with 303, and a second click leads to the same', async () => {
    await died(3);
    const preview = await ask('/replay?topic=payment.captured&since=24h');
    const { request, replayId } = preview.json as { request: Record<string, unknown>; replayId: string };
    const form = {
      ...Object.fromEntries(Object.entries(request).map(([name, value]) => [name, String(value)])),
      replayId,
      reason: 'mended',
      confirm: '3',
    };
    for (let click = 0; click < 2; click += 1) {
      const answer = await ask('/replay', { ...asBrowser, form });
      expect([answer.status, answer.headers.get('location')]).toEqual([303, `${HOME}/replays/${replayId}`]);
    }
    expect(await rows(bus.db, 'select requested_by, reason, matched, replayed from replays')).toEqual([
      { requested_by: 'kari@solvik.example.no', reason: 'mended', matched: 3, replayed: 3 },
    ]);
    expect((await ask(`/replays/${replayId}`, asBrowser)).status).toBe(200);
  });

  test.each([
    ['2', '3'],
    ['', '3'],
    ['three', '3'],
    ['33', '3'],
    ['', ''],
    ['3', ''],
  ])('to replay with %j typed to confirm %j is 400 and does nothing', async (confirm, expectedCount) => {
    await died(3);
    const answer = await ask('/replay', { form: { ...good, confirm, expectedCount } });
    expect([answer.status, answer.json['code']]).toEqual([400, 'not_confirmed']);
    expect(await idsIn('dead_lettered')).toHaveLength(3);
  });

  test('to replay that was confirmed with spaces in the number is done', async () => {
    await died(3);
    const answer = await ask('/replay', { form: { ...good, confirm: ' 3 ', expectedCount: '3' } });
    expect(answer.json).toMatchObject({ replayed: 3 });
  });

  test('to replay is 409 with a page when the count has changed', async () => {
    await died(3);
    const answer = await ask('/replay', {
      ...asBrowser,
      form: { ...good, expectedCount: '2', confirm: '2' },
    });
    expect([answer.status, answer.type]).toEqual([409, 'text/html; charset=utf-8']);
    expect(answer.text).toContain('3 deliveries match, not 2');
    expect(await idsIn('dead_lettered')).toHaveLength(3);
  });

  test('for a dry run answers with the preview', async () => {
    await died(2);
    const answer = await ask('/replay', { form: { ...good, dryRun: 'true' } });
    expect(answer.json).toMatchObject({
      replayId: null,
      matched: 2,
      replayed: 0,
      subscriptions: [{ count: 2 }],
    });
    const page = await ask('/replay', { ...asBrowser, form: { ...good, dryRun: 'true' } });
    expect([page.status, page.type]).toEqual([200, 'text/html; charset=utf-8']);
    expect(await idsIn('dead_lettered')).toHaveLength(2);
    expect(kicks).toBe(0);
  });

  test('to act on a lane leads back to where it was sent from, and nowhere else', async () => {
    const topicPage = `${HOME}/topics/payment.captured`;
    const [first] = await held(3);
    const sent = async (path: string, form: Record<string, string>) => {
      const answer = await ask(path, { ...asBrowser, form });
      return [answer.status, answer.headers.get('location')];
    };
    expect(await sent(`/deliveries/${first}/retry`, { next: topicPage })).toEqual([303, topicPage]);
    expect(await sent(`/deliveries/${first}/skip`, { next: 'https://evil.example/', reason: 'x' })).toEqual([
      303,
      HOME,
    ]);
    expect(
      await sent('/subscribers/ledger/pause', { next: '//evil.example', reason: 'x', topic: '' }),
    ).toEqual([303, HOME]);
    expect(await sent('/subscribers/ledger/resume', { reason: '' })).toEqual([303, HOME]);
    expect(await rows(bus.db, 'select action, reason from operator_actions order by at')).toEqual([
      { action: 'retry', reason: null },
      { action: 'skip', reason: 'x' },
      { action: 'pause', reason: 'x' },
      { action: 'resume', reason: null },
    ]);
  });

  test('to resume what this release’s catalog does not list, and is paused all the same', async () => {
    await rows(
      bus.db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
       values ('ledger', 'payment.retired', now(), 'ola', 'x'), ('retired', '', now(), 'ola', 'x')`,
    );
    const resumed = async (subscriber: string, topic: string | null) => {
      const path = `/subscribers/${encodeURIComponent(subscriber)}/resume`;
      const { status, json } = await ask(path, { json: { topic } });
      return [status, json['code'] ?? json['paused']];
    };
    expect(await resumed('ledger', 'payment.retired')).toEqual([200, false]);
    expect(await resumed('retired', null)).toEqual([200, false]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    // There is nothing any more that could be resumed.
    expect(await resumed('ledger', 'payment.retired')).toEqual([404, 'not_found']);
    expect(await resumed('retired\0', null)).toEqual([404, 'not_found']);
    expect(kicks).toBe(2);
  });

  test('to reveal answers with the page itself, which is kept nowhere', async () => {
    const [letter] = await died(1);
    const answer = await ask(`/dead-letters/${letter}/reveal`, {
      ...asBrowser,
      form: { reason: 'the tenant asks' },
    });
    expect([answer.status, answer.type]).toEqual([200, 'text/html; charset=utf-8']);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test.each(['skip', 'pause', 'reveal'])('to %s without a reason is 400 and does nothing', async (deed) => {
    const [letter] = await died(1);
    const [first] = await held(1);
    const path = {
      skip: `/deliveries/${first}/skip`,
      pause: '/subscribers/ledger/pause',
      reveal: `/dead-letters/${letter}/reveal`,
    }[deed]!;
    for (const form of [{ x: '1' }, { reason: '' }, { reason: '  ' }, { reason: '\0' }]) {
      const answer = await ask(path, { form });
      expect([answer.status, answer.json['issues']]).toEqual([
        400,
        [
          expect.objectContaining({
            path: 'reason',
            pointer: '/reason',
            message: expect.stringContaining('expected a reason'),
          }),
        ],
      ]);
    }
    const long = await ask(path, { form: { reason: 'x'.repeat(501) } });
    expect(long.status).toBe(400);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });
});

describe('what there is none of is 404', () => {
  test.each([
    '/topics/payment.capturd',
    '/topics/toString',
    `/dead-letters/${NOBODY}`,
    '/dead-letters/17',
    '/dead-letters/1-2-3',
    "/dead-letters/1-1'",
    `/replays/${NO_REPLAY}`,
    '/replays/17',
    '/nothing',
    '/topics/a/b',
  ])('GET %s, as JSON and as a page', async (path) => {
    const answer = await ask(path);
    expect([answer.status, answer.type, answer.json['code']]).toEqual([
      404,
      'application/problem+json',
      'not_found',
    ]);
    const page = await ask(path, { accept: BROWSER });
    expect([page.status, page.type]).toEqual([404, 'text/html; charset=utf-8']);
  });

  test.each<[string, Record<string, string>]>([
    [`/deliveries/${NOBODY}/retry`, {}],
    [`/deliveries/${NOBODY}/skip`, { reason: 'x' }],
    ['/deliveries/17/skip', { reason: 'x' }],
    [`/dead-letters/${NOBODY}/reveal`, { reason: 'x' }],
    ['/subscribers/nobody/pause', { reason: 'x' }],
    ['/subscribers/http/pause', { reason: 'x' }],
    ['/subscribers/ledger/pause', { reason: 'x', topic: 'mfa.completed' }],
    ['/subscribers/nobody/resume', {}],
  ])('POST %s %j', async (path, json) => {
    const answer = await ask(path, { json });
    expect([answer.status, answer.json['code']]).toEqual([404, 'not_found']);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect(kicks).toBe(0);
  });
});

describe('what can’t be done as things stand is 409 and says why', () => {
  test('to a delivery that is not first, not waiting or under way', async () => {
    const [first, second] = await held(2);
    const done = async (deliveryId: string, deed: string) => {
      const { status, json } = await ask(`/deliveries/${deliveryId}/${deed}`, { json: { reason: 'x' } });
      return [status, json['code']];
    };
    expect(await done(second!, 'skip')).toEqual([409, 'not_first']);
    expect(await done(second!, 'retry')).toEqual([409, 'not_first']);
    expect(await done(first!, 'retry')).toEqual([200, undefined]);
    expect(await done(first!, 'retry')).toEqual([409, 'not_waiting']);
    await rows(bus.db, `update lanes set lease_token = gen_random_uuid() where subscriber = 'ledger'`);
    expect(await done(first!, 'skip')).toEqual([409, 'under_way']);
  });
});

describe('a wrong query is 400 and says what to write', () => {
  const coded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

  test.each([
    ['/dead-letters?since=24', 'since'],
    ['/dead-letters?topic=payment.capturd', 'topic'],
    ['/dead-letters?limit=0', 'limit'],
    ['/dead-letters?limit=many', 'limit'],
    ['/dead-letters?cursor=garbage', 'cursor'],
    [`/dead-letters?cursor=${coded(['2031-13-45T10:00:00.000000Z', '1', '1', 'older'])}`, 'cursor'],
    ['/replays?cursor=garbage', 'cursor'],
    [`/replays?cursor=${coded(['2031-13-45T10:00:00.000000Z', NO_REPLAY])}`, 'cursor'],
    ['/replays?limit=101', 'limit'],
    ['/replay?topic=payment.captured', 'since'],
    ['/replay?since=1h', 'topic'],
    ['/replay?topic=payment.captured&since=1h&until=yesterday', 'until'],
    ['/replay?topic=payment.captured&since=1h&until=0000-01-01T00:00:00Z', 'until'],
    ['/replay?topic=payment.captured&since=1h&until=2031-05-04T10:00:00%2B23:00', 'until'],
    ['/replay?topic=payment.captured&since=1h&group=x', 'group'],
    ['/replay?deliveryIds=1-2,x', 'deliveryIds.1'],
    ['/replay?deliveryIds=1-2&deliveryIds=x', 'deliveryIds.1'],
  ])('%s', async (path, field) => {
    const answer = await ask(path);
    expect([answer.status, answer.json['code']]).toEqual([400, 'validation_failed']);
    expect(answer.json['issues']).toMatchObject([{ path: field, message: expect.any(String) }]);
    expect((await ask(path, { accept: BROWSER })).status).toBe(400);
  });

  test.each([
    '/dead-letters?q=a%00b',
    '/dead-letters?subscriber=a%00b',
    '/dead-letters?group=a%00b',
    '/dead-letters?q=%ff%fe',
    '/dead-letters?q=%25',
    '/dead-letters?cursor=',
    '/dead-letters?q=&topic=&subscriber=&since=',
    '/dead-letters?nothing=1',
    '/replay?topic=payment.captured&since=1h&subscriber=nobody',
  ])('what is only odd is answered: %s', async (path) => {
    expect((await ask(path)).status).toBe(200);
  });

  test.each(['24', '-1h', '1y', '9999999h', '', '1 h', '24H', '0h', '1e3h', '٣h'])(
    'a replay since %j, as JSON and as a form, is not made',
    async (since) => {
      for (const sent of [{ json: { ...good, since } }, { form: { ...good, since } }]) {
        const answer = await ask('/replay', sent);
        expect([answer.status, answer.json['code']]).toEqual([400, 'validation_failed']);
        expect(answer.json['issues']).toMatchObject([
          { path: 'since', pointer: '/since', message: expect.stringContaining('such as 90m, 24h or 7d') },
        ]);
      }
      expect(await rows(bus.db, 'select from replays')).toEqual([]);
    },
  );

  test.each([
    { ...good, reason: 'a\0b' },
    { ...good, reason: 'a\ud800b' },
    { ...good, subscriber: 'a\0b' },
    { ...good, until: '0000-01-01T00:00:00Z' },
  ])('a replay with what no database takes is refused or made without it: %j', async (json) => {
    expect((await ask('/replay', { json })).status).toBeLessThan(500);
  });
});

describe('the function files', () => {
  const FILES = {
    index: () => import('../../api/platform/event-bus/index.ts'),
    'dead-letters': () => import('../../api/platform/event-bus/dead-letters.ts'),
    replay: () => import('../../api/platform/event-bus/replay.ts'),
    console: () => import('../../api/platform/event-bus/console.ts'),
  };

  test('answer at their public paths and at those of their files', async () => {
    const [letter] = await died(1);
    vi.stubEnv('DATABASE_URL', bus.url);
    vi.stubEnv('OPERATOR_JWT_SECRET', SECRET);
    vi.stubEnv('OPERATOR_JWKS_URL', '');
    vi.resetModules();
    const paths: readonly (readonly [keyof typeof FILES, string])[] = [
      ['index', HOME],
      ['index', `/api${HOME}`],
      ['dead-letters', `${HOME}/dead-letters`],
      ['dead-letters', `${HOME}/dead-letters/${letter}`],
      ['replay', `${HOME}/replay?topic=payment.captured&since=24h`],
      ['console', `${HOME}/topics/payment.captured`],
      ['console', `${HOME}/replays`],
      ['console', `${HOME}/catalog`],
    ];
    for (const [file, path] of paths) {
      const { default: endpoint } = await FILES[file]();
      const json = await endpoint.fetch(await requestOf(path, {}));
      expect([path, json.status, json.headers.get('content-type')]).toEqual([path, 200, 'application/json']);
      const page = await endpoint.fetch(await requestOf(path, { accept: BROWSER }));
      expect([path, page.status, page.headers.get('content-type')]).toEqual([
        path,
        200,
        'text/html; charset=utf-8',
      ]);
      // The navigation of every page counts the dead letters.
      expect(await page.text()).toMatch(/Dead letters/);
      const refused = await endpoint.fetch(new Request(`https://postbud.example${path}`));
      expect([path, refused.status]).toEqual([path, 401]);
    }
    const { default: lanes } = await FILES.console();
    const paused = await lanes.fetch(
      await requestOf(`${HOME}/subscribers/ledger/pause`, { json: { reason: 'moving house' } }),
    );
    expect(await paused.json()).toEqual({ subscriber: 'ledger', topic: null, paused: true });
    expect(await rows(bus.db, 'select subscriber, topic, reason from pauses')).toEqual([
      { subscriber: 'ledger', topic: '', reason: 'moving house' },
    ]);
  });
});

describe('a replay that is watched', () => {
  test('goes from pending to delivered', async () => {
    await died(2);
    const { json } = await ask('/replay', { json: good });
    const path = `/replays/${String(json['replayId'])}`;
    expect((await ask(path)).json).toMatchObject({ progress: { pending: 2, delivered: 0 }, replayed: 2 });
    await drain(bus.db, [ledger()], { now: Date.now() + HOUR });
    expect((await ask(path)).json).toMatchObject({
      progress: { pending: 0, failing: 0, deadLettered: 0, delivered: 2, replayedAgain: 0 },
      requestedBy: 'kari@solvik.example.no',
    });
  });
});
