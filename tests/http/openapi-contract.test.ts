import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';

import { documentUrl } from '../../dev/descriptions.ts';
import { startDirectory } from '../../dev/stand-ins/directory.ts';
import type { DirectoryStandIn } from '../../dev/stand-ins/directory.ts';
import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import document from '../../docs/openapi.json' with { type: 'json' };
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { AnswerJudge } from '../support/answer-judge.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { exchangesOf, operationsOf, send, sendExample } from '../support/contract.ts';
import type { DocumentedOperation, Exchange, OpenApiDocument, Target } from '../support/contract.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createDatabase } from '../support/postgres.ts';
import { leaveSubscription } from '../support/scenes.ts';

/** As strangers have it: what runs is asked for its own, and must have the one that is kept. */
const openApi = document as unknown as OpenApiDocument;
const operations = operationsOf(openApi);
const judge = new AnswerJudge(openApi);
const operationOf = (id: string) => operations.find(({ operationId }) => operationId === id)!;

const OPERATOR_SECRET = randomBytes(36).toString('base64url');
const secret = () => `whsec_${randomBytes(24).toString('base64')}`;
const JSON_TYPE = 'application/json';
const SITE = 'http://localhost:3001';

let folder: string;
let connection: Connection;
let accounting: Server;
let api: MessagesApi;
let sendgrid: SendGridStandIn;
let directory: DirectoryStandIn;
let server: LocalServer;
let target: Target;
/** The operations that have answered with success. */
const succeeded = new Set<string>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postbud-contract-'));
  accounting = await startAccounting();
  api = await startMessagesApi();
  sendgrid = await startSendGrid();
  directory = await startDirectory();
  const databaseUrl = await createDatabase(inject('postgresUrl'));
  const webhookSecret = secret();
  server = await startLocalServer({
    PORT: '0',
    DEMO: 'off',
    DATA_DIR: folder,
    DATABASE_URL: databaseUrl,
    CORS_ORIGINS: SITE,
    ANTHROPIC_API_KEY: 'sk-ant-contract',
    ANTHROPIC_BASE_URL: api.url,
    SENDGRID_API_KEY: 'SG.contract',
    SENDGRID_BASE_URL: sendgrid.url,
    ADMIN_EMAIL: 'admin@example.no',
    FROM_EMAIL: 'noreply@example.no',
    CRON_SECRET: randomBytes(18).toString('base64url'),
    OPERATOR_JWT_SECRET: OPERATOR_SECRET,
    ...directory.variables,
    KICK_SECRET: webhookSecret,
    PRODUCER_BOOKINGS_SECRET: webhookSecret,
    WEBHOOK_IDENTITYPROVIDER_SECRET: webhookSecret,
    SUBSCRIBER_ACCOUNTING_URL: `http://127.0.0.1:${(accounting.address() as AddressInfo).port}/`,
    SUBSCRIBER_ACCOUNTING_SECRET: secret(),
  });
  target = { url: server.url, operatorSecret: OPERATOR_SECRET, webhookSecret };
  connection = await connect(databaseUrl);
  await makeTrouble(connection);
}, 60_000);
afterAll(async () => {
  if (process.env['RECORD_EXAMPLES']) writeFileSync(documentUrl('openapi'), JSON.stringify(document));
  await connection?.close();
  await server?.stop();
  accounting?.close();
  await Promise.all([api?.close(), sendgrid?.close(), directory?.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** A subscriber elsewhere that takes nothing: of some disputes never, of others not now. */
async function startAccounting(): Promise<Server> {
  const listening = createServer((request, response) => {
    const answer = async () => {
      const { data } = JSON.parse(await textOf(request)) as { data: { disputeId?: string } };
      response.writeHead(data.disputeId === HOPELESS ? 410 : 500).end();
    };
    void answer();
  });
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return listening;
}

const HOPELESS = 'dsp_hopeless';
const PACED_REPLAY = '019c7f41-2c3d-7e10-8a6b-0d4f5e6a7b90';

/** Dead letters, and a lane that waits for a retry: what operators come for. */
async function makeTrouble({ db }: Connection): Promise<void> {
  for (const disputeId of [HOPELESS, HOPELESS, HOPELESS, 'dsp_41', 'dsp_42', 'dsp_43']) {
    await emitAlone(db, 'payment.dispute.closed', payloadOf('payment.dispute.closed', { disputeId }));
  }
  await emitAlone(db, 'booking.reminder.due', payloadOf('booking.reminder.due', {}), { at: '24h' });
  // Subscribers of an earlier release.
  await leaveSubscription(db, 'postcard.sent', 'postcards', 1);
  await rows(
    db,
    `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
     values ('faxes', 'payment.captured', now(), 'kari', 'moving')`,
  );
  await rows(
    db,
    `insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
     values (gen_random_uuid(), now(), 'kari', 'retire', 'payment.captured', 'postcards', 'history')`,
  );
  await rows(
    db,
    `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
     values ('reviews', 'unreachable', '', now(), now() + interval '1 hour')`,
  );
  await rows(
    db,
    `with replay as (
       insert into replays (id, topic, requested_at, requested_by, request, matched, replayed)
       values ($1, 'payment.dispute.closed', now(), 'kari', '{}', 5, 0)
     )
     insert into paced_replays (replay_id, per_minute, planned, next_at) values ($1, 1, 5, now() + interval '1 hour')`,
    [PACED_REPLAY],
  );
}

/** Asks until a relay, which a webhook sets going, has run into the trouble. */
async function untilTroubled(): Promise<void> {
  await send(target, operationOf('receiveWebhook'), {
    parameters: [
      { place: 'path', parameter: 'provider', text: 'identityprovider' },
      { place: 'header', parameter: 'webhook-id', text: `idp_${randomBytes(9).toString('hex')}` },
    ],
    contentType: JSON_TYPE,
    body: { type: 'nothing.of.interest' },
  });
  await vi.waitFor(async () => {
    const parameters = [{ place: 'path', parameter: 'topic', text: 'payment.dispute.closed' }];
    const topic = await send(target, operationOf('readTopic'), { parameters });
    const dead = await send(target, operationOf('listDeadLetters'), {});
    const { heldLanes } = (await topic.json()) as { heldLanes: unknown[] };
    const { total } = (await dead.json()) as { total: number };
    expect([heldLanes.length, total >= 2]).toEqual([1, true]);
  }, PATIENTLY);
}

/** What is wrong with an answer. */
async function faultsOf(operation: DocumentedOperation, response: Response) {
  const judged = await judge.judge(operation, response);
  if (response.status < 400) succeeded.add(operation.operationId);
  return judged;
}

test('the document that runs is the one that is kept', async () => {
  const response = await fetch(`${target.url}/api/openapi.json`);
  expect(await response.json()).toEqual(document);
  const again = await fetch(`${target.url}/api/openapi.json`, {
    headers: { 'if-none-match': `"other", W/${response.headers.get('etag')}` },
  });
  expect([again.status, await again.text()]).toEqual([304, '']);
});

describe('an example of the document', () => {
  beforeAll(untilTroubled, 20_000);

  test.each(operations.flatMap(exchangesOf))(
    '$operation.operationId, $name: is answered $status as described',
    async (exchange) => {
      const response = await sendExample(target, exchange);
      const { faults, body } = await faultsOf(exchange.operation, response);
      record(exchange, body);
      expect([response.status, faults]).toEqual([exchange.status, []]);
      if (exchange.code !== undefined) expect((body as { code: string }).code).toBe(exchange.code);
    },
  );
});

/** What the document says of an example's answer in JSON, where it is recorded anew. */
function record({ operation, name, status, type, code }: Exchange, body: unknown): void {
  if (!process.env['RECORD_EXAMPLES'] || !type?.endsWith('json')) return;
  // A description of another kind, whose references lead nowhere here.
  if ('asyncapi' in (body as object)) return;
  const { examples = {} } = operation.responses[status]!.content![type]!;
  const asked = code === undefined ? {} : { requestId: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e' };
  const text = JSON.stringify({ ...(shortened(body) as object), ...asked })
    .replaceAll(target.url, 'https://postbud.example.no')
    .replaceAll(/127\.0\.0\.1:\d+/g, 'accounting.example.no');
  Object.assign(examples[name]!, { value: JSON.parse(text) as unknown });
}

/** Of each list the first two. */

function shortened(value: unknown): unknown {
  if (Array.isArray(value))
    return value.filter((_, place) => place < 2 || typeof value[0] !== 'object').map(shortened);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one)]));
}

const REASON = { reason: 'A test of the contract.' };

/** Operations on what another one has answered with: of which, where its id is, and what they are sent. */
const FOLLOWING: readonly (readonly [
  from: string,
  place: string,
  ids: Readonly<Record<string, object | null>>,
])[] = [
  ['listDeadLetters', 'items.0.deliveryId', { readDeadLetter: null }],
  ['listDeadLetters', 'items.0.eventId', { readEvent: null, revealEvent: REASON }],
  [
    'listIncidents',
    'items.0.incidentId',
    {
      readIncident: null,
      acknowledgeIncident: { note: 'The supplier is notified.' },
      retryIncident: REASON,
      skipIncident: REASON,
      dismissIncident: REASON,
    },
  ],
  ['readTopic', 'heldLanes.0.deliveryId', { probeDelivery: REASON, retryNow: {}, skip: REASON }],
  ['listTimers', 'items.0.eventId', { cancelTimer: REASON }],
  ['replay', 'replayId', { readReplay: null }],
  ['backfill', 'backfillId', { readBackfill: null, stopBackfill: REASON }],
  ['erase', 'erasureId', { readErasure: null }],
];

describe('an operation on what another one has answered with', () => {
  test.each(
    FOLLOWING.flatMap(([from, place, ids]) =>
      Object.entries(ids).map(([id, sent]) => ({ id, from, place, sent })),
    ),
  )('$id, after $from: answers as described', async ({ id, from, place, sent }) => {
    // What was replayed or retried by an example before is where it was.
    await untilTroubled();
    const operation = operationOf(from);
    const exchange = exchangesOf(operation).findLast(
      ({ status, type }) => status === 200 && type === JSON_TYPE,
    );
    const { body } = await judge.judge(operation, await sendExample(target, exchange!));
    const text = place
      .split('.')
      .reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], body);
    const next = operationOf(id);
    const parameter = next.parameters!.find(({ in: where }) => where === 'path');
    const response = await send(target, next, {
      parameters: [{ place: 'path', parameter: parameter!.name, text: String(text) }],
      ...(sent && { body: sent, contentType: JSON_TYPE }),
    });
    const { faults } = await faultsOf(next, response);
    expect([response.status, faults]).toEqual([200, []]);
  });
});

describe('a request that no example can be', () => {
  const withBody = operations.filter(({ requestBody }) => requestBody);
  /** Of the operation's first example, with values for its path. */
  const parametersOf = ({ parameters = [] }: DocumentedOperation) =>
    parameters.flatMap(({ in: place, name, examples = {} }) => {
      const [first] = Object.values(examples);
      return place === 'query' || name === 'Origin' || !first
        ? []
        : [{ place, parameter: name, text: String(first.value) }];
    });

  test.each(withBody)('to $operationId, of another type, is a 415 as described', async (operation) => {
    const response = await send(target, operation, {
      parameters: parametersOf(operation),
      contentType: 'text/plain',
      body: '{}',
    });
    const { faults } = await faultsOf(operation, response);
    expect([response.status, faults]).toEqual([415, []]);
  });

  test.each(withBody)(
    'to $operationId, longer than its x-limit-bytes, is a 413 as described',
    async (operation) => {
      const response = await send(target, operation, {
        parameters: parametersOf(operation),
        contentType: Object.keys(operation.requestBody!.content)[0],
        body: ' '.repeat(operation.requestBody!['x-limit-bytes'] + 1),
      });
      const { faults } = await faultsOf(operation, response);
      expect([response.status, faults]).toEqual([413, []]);
    },
  );

  test.each(Object.entries(openApi.paths))(
    'of another method, to %s, is a 405 that names those described',
    async (path, item) => {
      const url = target.url + path.replaceAll(/\{provider\}/g, 'cardpayments').replaceAll(/\{\w+\}/g, '1-1');
      const response = await fetch(url, { method: 'DELETE' });
      const allowed = (response.headers.get('allow') ?? '')
        .split(', ')
        .filter((method) => method !== 'OPTIONS');
      const described = ['get', 'post'].flatMap((method) => {
        if (!(method in item)) return [];
        return method === 'get' ? ['GET', 'HEAD'] : ['POST'];
      });
      expect([response.status, allowed.toSorted()]).toEqual([405, described.toSorted()]);
      const schema = openApi.components.schemas['Problem']!;
      expect(judge.faultsOf(schema, await response.json())).toEqual([]);
    },
  );

  test('a token that is really one, signs in', async () => {
    const operation = operationOf('signIn');
    const token = await operatorToken({ scope: 'event-bus:read' }, OPERATOR_SECRET);
    const sent = {
      parameters: [{ place: 'header', parameter: 'Sec-Fetch-Site', text: 'same-origin' }],
      contentType: JSON_TYPE,
      body: { token },
    };
    for (const [accept, status] of [
      [JSON_TYPE, 200],
      ['text/html', 303],
    ] as const) {
      const response = await send(target, operation, { ...sent, accept });
      expect([response.status, (await faultsOf(operation, response)).faults]).toEqual([status, []]);
    }
  });

  test('a sign-in with the directory is answered as described, from its beginning to the session', async () => {
    const begun = await send(target, operationOf('signInWithDirectory'), {
      parameters: [{ place: 'header', parameter: 'Sec-Fetch-Site', text: 'same-origin' }],
      contentType: JSON_TYPE,
      body: {},
    });
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? '';
    const { faults, body } = await faultsOf(operationOf('signInWithDirectory'), begun);
    const chosen = new URL((body as { url: string }).url.replace('/authorize', '/signed-in'));
    chosen.searchParams.set('person', 'Kari Nordmann, operator');
    const there = await fetch(chosen, { redirect: 'manual' });
    const answer = await fetch(there.headers.get('location') ?? '', {
      headers: { cookie, accept: JSON_TYPE },
    });
    const finished = await faultsOf(operationOf('finishSignIn'), answer);
    expect([begun.status, faults, answer.status, finished.faults]).toEqual([200, [], 200, []]);
  });

  test('a paced replay that is under way can be stopped once', async () => {
    const operation = operationOf('stopReplay');
    const sent = {
      parameters: [{ place: 'path', parameter: 'replayId', text: PACED_REPLAY }],
      contentType: JSON_TYPE,
      body: { reason: 'The ledger is slow.' },
    };
    for (const status of [200, 409]) {
      const response = await send(target, operation, sent);
      expect([response.status, (await faultsOf(operation, response)).faults]).toEqual([status, []]);
    }
  });

  test.each(['[[529]]', '[[400]]', '[[truncated]]'])(
    'a failure of the language model (%s) is answered as described, whole and streaming',
    async (words) => {
      const operation = operationOf('chat');
      const body = { system: 'Om hallene.', messages: [{ role: 'user', content: words }] };
      for (const accept of [JSON_TYPE, 'text/event-stream']) {
        const response = await send(target, operation, { accept, contentType: JSON_TYPE, body });
        const { faults, body: answered } = await faultsOf(operation, response);
        expect(faults).toEqual([]);
        expect(JSON.stringify(answered)).toMatch(/provider_\w+/);
      }
    },
  );

  // A producer elsewhere may send thousands: tests/http/posted-events.test.ts.
  const limited = operations.filter(
    ({ operationId, responses }) => responses[429] && operationId !== 'postEvents',
  );
  test.each(limited)('one too many to $operationId is a 429 as described', async (operation) => {
    const parameters = parametersOf(operation);
    for (let count = 0; count < 100; count += 1) {
      const content = operation.requestBody ? { contentType: JSON_TYPE, body: '[]' } : {};
      const response = await send(target, operation, { parameters, ...content });
      const { faults } = await faultsOf(operation, response);
      expect(faults).toEqual([]);
      if (response.status === 429) return;
    }
    expect.unreachable('a hundred calls are more than any limit');
  });
});

test('every operation has answered with success, but for the cron, which takes a minute, repair and acceptance, as nothing is broken, and a link that signs in once', () => {
  const rest = operations.map(({ operationId }) => operationId).filter((id) => !succeeded.has(id));
  expect(rest.toSorted()).toEqual(['acceptWebhook', 'repair', 'runRelay']);
});
