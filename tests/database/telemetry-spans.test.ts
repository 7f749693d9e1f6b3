import { createServer } from 'node:http';
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { readConfig } from '../../lib/platform/config.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drain, payloadOf, payment, rows, statementsDuring, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

const CANARY = 'kanarifugl@example.no';
const CALLER = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' };

const WHSEC = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

/** A span as the collector got it, with its attributes as an object. */
interface Collected {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly status: { readonly code: number; readonly message?: string };
  readonly links: readonly { readonly spanId: string }[];
  readonly events: readonly unknown[];
  readonly attributes: Readonly<Record<string, unknown>>;
}
let collector: Server;
let component: Server;
let collected: Collected[];
/** All that the collector was sent, as it came. */
let bodies: string;
let asked: IncomingHttpHeaders[];
let handed: IncomingHttpHeaders[];
let isDown: boolean;
/** What the platform was asked to wait for. */
let waits: Promise<unknown>[];

const KINDS = { server: 2, producer: 4, consumer: 5 };

beforeAll(async () => {
  collector = await listening((headers, body) => {
    // Of an answer that is worth another try, the exporter would make some.
    if (isDown) return 400;
    asked.push(headers);
    bodies += body;
    const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Raw[] }[] }[] };
    collected.push(
      ...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans.map(read))),
    );
    return 200;
  });
  component = await listening((headers) => {
    handed.push(headers);
    return 204;
  });
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', urlOf(collector));
  vi.stubEnv('OTEL_EXPORTER_OTLP_HEADERS', 'x-api-key=the-key-of-the-tests');
  vi.stubEnv('OTEL_SERVICE_NAME', 'postbud-of-the-tests');
});
afterAll(async () => {
  for (const server of [collector, component]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
test.beforeEach(async ({ output }) => {
  // It is written seconds later, for which the platform would be asked to wait too.
  vi.spyOn(HealthRecorder.prototype, 'count').mockReturnValue();
  vi.stubGlobal(PLATFORM, { get: () => ({ waitUntil: (work: Promise<unknown>) => waits.push(work) }) });
  await sent();
  output.writes.length = 0;
  [collected, bodies, asked, handed, isDown, waits] = [[], '', [], [], false, []];
});
afterEach(() => void vi.unstubAllGlobals());

/** Where `@vercel/functions` looks for the platform. A global may be named by a symbol, whatever the type says. */
const PLATFORM = Symbol.for('@vercel/request-context') as unknown as string;

async function listening(answer: (headers: IncomingHttpHeaders, body: string) => number): Promise<Server> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.statusCode = answer(request.headers, Buffer.concat(chunks).toString('utf8'));
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

type Raw = Omit<Collected, 'attributes'> & {
  readonly attributes: readonly { key: string; value: Record<string, unknown> }[];
};

const read = (span: Raw): Collected => ({
  ...span,
  attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
});

/** Waits for what the platform was asked to wait for, also by that. */
async function sent(): Promise<void> {
  while (waits?.length > 0) await Promise.all(waits.splice(0));
}

const named = (name: string) => collected.filter((span) => span.name === name);
const one = (name: string) => {
  const [span, ...others] = named(name);
  expect(others).toEqual([]);
  expect(span, `${name} among ${collected.map((other) => other.name).join(', ')}`).toBeDefined();
  return span!;
};

const post = (headers: Record<string, string> = {}) =>
  new Request(`https://postbud.example/dev/${CANARY}?email=${CANARY}`, {
    method: 'POST',
    headers: { 'x-request-id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e', 'user-agent': CANARY, ...headers },
    body: CANARY,
  });

/** A function that reports a payment. */
const paying = (bus: Bus) =>
  guardedEndpoint({
    methods: ['POST'],
    route: '/dev/:who',
    handle: async () => {
      await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1)));
      return new Response(null, { status: 201 });
    },
  });

test('one trace leads from a caller’s span through the request and the event to each delivery, and on', async ({
  bus,
}) => {
  await paying(bus).fetch(post({ traceparent: `00-${CALLER.trace}-${CALLER.span}-01` }));
  const ledger = subscriber(
    'ledger',
    {
      'payment.captured': async (_, { tx }) =>
        void (await emit(tx, 'payment.refunded', payloadOf('payment.refunded'))),
    },
    { transactional: true },
  );
  await drain(bus.db, [ledger, attach('bookings', { 'payment.captured': () => undefined })]);
  await sent();

  const request = one('POST /dev/:who');
  expect(request).toMatchObject({ kind: KINDS.server, traceId: CALLER.trace, parentSpanId: CALLER.span });
  expect(request.attributes).toEqual({
    'http.request.method': 'POST',
    'http.route': '/dev/:who',
    'http.response.status_code': 201,
    'url.scheme': 'https',
    'postbud.request.id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
  });
  const send = one('send payment.captured');
  expect(send).toMatchObject({ kind: KINDS.producer, traceId: CALLER.trace, parentSpanId: request.spanId });
  const [event] = await rows<{ id: string; traceparent: string }>(
    bus.db,
    `select id::text, traceparent from events where topic = 'payment.captured'`,
  );
  expect(event!.traceparent).toBe(`00-${CALLER.trace}-${send.spanId}-01`);
  expect(send.attributes).toMatchObject({
    'messaging.system': 'postbud',
    'messaging.destination.name': 'payment.captured',
    'messaging.operation.type': 'send',
    'messaging.message.id': event!.id,
  });
  const relayed = one('relay');
  const handled = named('process payment.captured');
  expect(handled.map(({ attributes }) => attributes['messaging.consumer.group.name']).toSorted()).toEqual([
    'bookings',
    'ledger',
  ]);
  for (const span of handled) {
    expect(span).toMatchObject({ kind: KINDS.consumer, traceId: CALLER.trace, parentSpanId: send.spanId });
    expect(span.links.map(({ spanId }) => spanId)).toEqual([relayed.spanId]);
    expect(span.attributes).toMatchObject({
      'messaging.operation.type': 'process',
      'messaging.message.id': event!.id,
      'postbud.delivery.attempt': 1,
      'postbud.delivery.outcome': 'delivered',
    });
  }
  const byLedger = handled.find(({ attributes }) => attributes['messaging.consumer.group.name'] === 'ledger');
  expect(one('send payment.refunded')).toMatchObject({
    traceId: CALLER.trace,
    parentSpanId: byLedger!.spanId,
  });
  expect(relayed.traceId).not.toBe(CALLER.trace);
  expect(relayed.attributes).toMatchObject({ 'postbud.relay.placed': 2, 'postbud.relay.delivered': 2 });
});

test('a webhook’s event is part of its provider’s trace, and a duplicate records none', async ({ bus }) => {
  const body = JSON.stringify({ type: 'login.succeeded', data: { subject: CANARY, method: 'bank-id' } });
  const at = new Date();
  const signature = new Webhook(WHSEC).sign('msg_1', at, body);
  const { fetch } = guardedEndpoint({
    methods: ['POST'],
    route: '/webhooks/:provider',
    handle: async (request, { requestId }) => {
      const database = async () => bus.db;
      const rejections = new Rejections(database);
      const { webhooks: settings } = readConfig({ WEBHOOK_IDENTITYPROVIDER_SECRET: WHSEC });
      return Response.json(await receiveWebhook({ request, requestId, settings, database, rejections }));
    },
  });
  const headers = {
    'content-type': 'application/json',
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / SECOND)),
    'webhook-signature': signature,
    traceparent: `00-${CALLER.trace}-${CALLER.span}-01`,
  };
  const request = () =>
    new Request('https://postbud.example/webhooks/identityprovider', { method: 'POST', headers, body });
  for (const duplicate of [false, true]) {
    expect(await (await fetch(request())).json()).toMatchObject({ duplicate });
  }
  await sent();
  const [event, ...others] = await rows<{ id: string; traceparent: string }>(
    bus.db,
    'select id::text, traceparent from events',
  );
  expect(others).toEqual([]);
  const sends = named('send webhook.identityprovider.received');
  expect(sends.map(({ attributes }) => attributes['messaging.message.id'])).toEqual([event!.id, undefined]);
  expect(event!.traceparent).toBe(`00-${CALLER.trace}-${sends[0]!.spanId}-01`);
  expect(bodies).not.toContain('kanari');
});

test('tracing adds no statement to an emit', async ({ bus }) => {
  const statements = await statementsDuring(() => emitAlone(bus.db, 'payment.captured', payment(1)));
  expect(statements).toBe(1);
  await drain(bus.db, []);
  await sent();
  expect(named('send payment.captured').length).toBe(1);
});

test("a producer's own span is kept as it is", async ({ bus }) => {
  const traceparent = `00-${CALLER.trace}-${CALLER.span}-01`;
  await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1), { traceparent }));
  await drain(bus.db, [attach('ledger', { 'payment.captured': () => undefined })]);
  await sent();
  expect(one('process payment.captured')).toMatchObject({ traceId: CALLER.trace, parentSpanId: CALLER.span });
  expect(named('send payment.captured')).toEqual([]);
});

test('a delivery of an event without a trace is part of the span of its relay', async ({ bus }) => {
  await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1), { traceparent: 'none' }));
  await drain(bus.db, [attach('ledger', { 'payment.captured': () => undefined })]);
  await sent();
  expect(one('process payment.captured')).toMatchObject({ parentSpanId: one('relay').spanId });
});

test.for<[outcome: string, error: () => unknown, kind: string]>([
  ['failed', () => new TypeError(CANARY), 'TypeError'],
  ['dead_lettered', () => new PermanentError(CANARY), 'permanent'],
  ['failed', () => Object.assign(new Error(CANARY), { code: CANARY }), 'other'],
])(
  'an attempt that %s records the kind of its error, and nothing else of it',
  async ([outcome, error, kind], { bus }) => {
    await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1)));
    await drain(bus.db, [
      attach('ledger', {
        'payment.captured': () => {
          throw error();
        },
      }),
    ]);
    await sent();
    const span = one('process payment.captured');
    expect(span.status).toEqual({ code: 2 });
    expect(span.attributes).toMatchObject({ 'postbud.delivery.outcome': outcome, 'error.type': kind });
    expect(span.events).toEqual([]);
    expect(bodies).not.toContain('kanari');
  },
);

test('a delivery that is rolled back with a neighbour has one span, of when it was run again', async ({
  bus,
}) => {
  for (const number of [1, 2])
    await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(number)));
  let calls = 0;
  const failing = subscriber(
    'ledger',
    {
      'payment.captured': ({ payload }) => {
        calls += 1;
        if (payload.amountMinor === 2) throw new TypeError(CANARY);
      },
    },
    { transactional: true },
  );
  await drain(bus.db, [failing]);
  await sent();
  expect(calls).toBe(4);
  const outcomes = named('process payment.captured').map(
    ({ attributes }) => attributes['postbud.delivery.outcome'],
  );
  expect(outcomes).toEqual(['delivered', 'failed']);
});

test('each delivery of a batch has a span, in the trace of its event', async ({ bus }) => {
  for (const number of [1, 2])
    await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(number)));
  const batching = subscriber('ledger', { 'payment.captured': () => {} }, { batch: true });
  await drain(bus.db, [batching]);
  await sent();
  const traces = named('process payment.captured').map(({ traceId }) => traceId);
  expect(traces).toEqual(named('send payment.captured').map(({ traceId }) => traceId));
  expect(new Set(traces).size).toBe(2);
});

test('an attempt that asks for time has not failed', async ({ bus }) => {
  await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1)));
  const wait = () => {
    throw new RetryAfter(1000);
  };
  await drain(bus.db, [attach('ledger', { 'payment.captured': wait })]);
  await sent();
  const span = one('process payment.captured');
  expect([span.status.code, span.attributes['postbud.delivery.outcome']]).toEqual([0, 'waited']);
});

test('a component elsewhere is told the span of the attempt, in the header; the document has the event’s', async ({
  bus,
}) => {
  await paying(bus).fetch(post());
  await drain(bus.db, [remoteSubscriber({ name: 'accounting', url: urlOf(component), secret: WHSEC })]);
  await sent();
  const { traceId, spanId } = one('process payment.captured');
  expect(handed.map(({ traceparent }) => traceparent)).toEqual([`00-${traceId}-${spanId}-01`]);
  expect(named('POST /dev/:who').map((span) => span.traceId)).toEqual([traceId]);
});

test.for([
  [503, 'chat_not_configured', 2],
  [404, 'not_found', 0],
] as const)(
  'a request that is answered %i %s has a span with the status %i',
  async ([status, problem, code]) => {
    const { fetch } = guardedEndpoint({
      methods: ['POST'],
      route: '/dev/:who',
      handle: async () => {
        throw new Problem(problem, { detail: CANARY });
      },
    });
    await fetch(post());
    await sent();
    const span = one('POST /dev/:who');
    expect([span.status.code, span.attributes['http.response.status_code']]).toEqual([code, status]);
  },
);

test('a method that nobody knows, and a path that is not declared, are in no name', async () => {
  const { fetch } = guardedEndpoint({ methods: ['GET'], handle: async () => new Response() });
  await fetch(new Request(`https://postbud.example/${CANARY}`, { method: 'KANARI' }));
  await sent();
  expect(one('HTTP').attributes['http.request.method']).toBe('_OTHER');
  expect(bodies.toLowerCase()).not.toContain('kanari');
});

test('spans go to the collector with its headers, after the answer, as the service’s', async ({ bus }) => {
  await paying(bus).fetch(post());
  expect(asked).toEqual([]);
  expect(waits.length).toBe(1);
  await sent();
  expect(asked[0]).toMatchObject({ 'x-api-key': 'the-key-of-the-tests' });
  expect(bodies).toContain('"postbud-of-the-tests"');
  expect(bodies).not.toContain('kanari');
  expect(bodies).not.toContain('the-key-of-the-tests');
});

test('a collector that is down is logged once, and delays nothing', async ({ bus, output }) => {
  isDown = true;
  for (const _ of [1, 2]) {
    expect((await paying(bus).fetch(post())).status).toBe(201);
    await sent();
  }
  const warnings = output
    .text()
    .split('\n')
    .filter((line) => line.includes('"warn"'));
  expect(warnings).toEqual([expect.stringContaining('spans could not be exported')]);
  expect(warnings[0]).not.toContain('127.0.0.1');
});

test('every line of the log says which trace it is part of', async ({ bus, output }) => {
  await paying(bus).fetch(post({ traceparent: `00-${CALLER.trace}-${CALLER.span}-01` }));
  await drain(bus.db, [attach('ledger', { 'payment.captured': () => undefined })], { isLogged: true });
  const told = output
    .text()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(told.map(({ message, traceId }) => [message, traceId])).toEqual([
    ['request', CALLER.trace],
    ['delivery', CALLER.trace],
    ['relay', undefined],
  ]);
});

test('an anonymous caller’s request begins a trace of its own, and so do the events that it leads to', async ({
  bus,
}) => {
  const { fetch } = guardedEndpoint({
    methods: ['POST'],
    route: '/api/form',
    isAnonymous: true,
    handle: async () => {
      await bus.db.transaction((tx) => emit(tx, 'payment.captured', payment(1)));
      return new Response(null, { status: 201 });
    },
  });
  await fetch(post({ traceparent: `00-${CALLER.trace}-${CALLER.span}-01` }));
  await sent();
  const request = one('POST /api/form');
  expect(request.traceId).not.toBe(CALLER.trace);
  expect(request.attributes['postbud.request.id']).not.toBe('0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e');
  expect(one('send payment.captured')).toMatchObject({
    traceId: request.traceId,
    parentSpanId: request.spanId,
  });
});
