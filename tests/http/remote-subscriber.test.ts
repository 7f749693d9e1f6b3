import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';

import { emit } from '../../lib/outbox/emit.ts';
import { relay } from '../../lib/relay/relay.ts';
import type { RelayReport } from '../../lib/relay/relay.ts';
import { cloudEvent, remoteSubscriber } from '../../lib/subscribers/http.ts';
import { DAY, MINUTE, SECOND } from '../../lib/time.ts';
import {
  START,
  contradictions,
  deliveriesOf,
  drain,
  emitPayments,
  idsInOrder,
  openBus,
  payloadOf,
  rows,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { freePort } from '../support/postgres.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

interface Got {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: Record<string, string>;
  readonly body: string;
}

let bus: Bus;
let server: Server;
let url: string;
/** The requests so far, and how the next ones are answered. */
let got: Got[];
let behave: (response: ServerResponse, request: IncomingMessage) => void;

beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const headers = Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      );
      got.push({
        method: request.method,
        path: request.url,
        headers,
        body: Buffer.concat(chunks).toString('utf8'),
      });
      behave(response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/events?tenant=solvik`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await bus.close();
});
beforeEach(async () => {
  await bus.reset();
  got = [];
});

const answer =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    response.writeHead(status, headers).end('said');

/** Emits one event and has it delivered to the server, or to another address. */
async function deliver({ to = url, timeoutMs = 5 * SECOND, forMs = 45 * SECOND } = {}): Promise<RelayReport> {
  await emit(bus.db, 'payment.captured', payloadOf('payment.captured', { bookingId: 'bkg_blåbær' }), {
    correlationId: 'req-1',
    causationId: 'evt-0',
    orderingKey: 'solvik',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
  const accounting = { ...remoteSubscriber({ name: 'accounting', url: to, secret }), timeoutMs };
  return await relay({ db: bus.db, subscribers: [accounting], until: Date.now() + forMs });
}

const delivery = async () => (await deliveriesOf(bus.db, 'accounting'))[0]!;

describe('what a component elsewhere is handed', () => {
  it('is a CloudEvent in JSON, under a signature that the Standard Webhooks SDK verifies', async () => {
    behave = answer(204);
    await deliver();
    const [stored] = await rows<{ id: string; seq: number; at: number }>(
      bus.db,
      'select id::text, seq::float8 as seq, floor(extract(epoch from created_at) * 1000)::float8 as at from events',
    );
    const [{ method, path, headers, body }] = got as [Got];
    expect([method, path]).toEqual(['POST', '/events?tenant=solvik']);
    expect(headers).toMatchObject({
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'webhook-id': stored!.id,
      'x-attempt': '1',
    });
    const event = new Webhook(secret).verify(body, headers) as Record<string, unknown>;
    expect(event).toEqual({
      specversion: '1.0',
      id: stored!.id,
      source: '/postbud/payments',
      type: 'payment.captured',
      time: new Date(stored!.at).toISOString(),
      datacontenttype: 'application/json',
      sequence: String(stored!.seq),
      schemaversion: 1,
      partitionkey: 'solvik',
      correlationid: 'req-1',
      causationid: 'evt-0',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      data: payloadOf('payment.captured', { bookingId: 'bkg_blåbær' }),
    });
    // The names that the specification allows, and the types: no null, no nesting outside of data.
    for (const [name, value] of Object.entries(event)) {
      expect(name).toMatch(/^[a-z0-9]{1,20}$/);
      expect(typeof value).toMatch(name === 'data' ? /^object$/ : /^(string|number)$/);
    }
  });

  it('does not verify when a byte of it is changed or under another secret', async () => {
    behave = answer(204);
    await deliver();
    const [{ headers, body }] = got as [Got];
    expect(() => new Webhook(secret).verify(body.replace('62500', '62501'), headers)).toThrow(
      'No matching signature',
    );
    const other = `whsec_${Buffer.alloc(32, 6).toString('base64')}`;
    expect(() => new Webhook(other).verify(body, headers)).toThrow('No matching signature');
  });

  it('leaves out the attributes that the event does not have', () => {
    const event = cloudEvent({
      id: 'id',
      topic: 'payment.captured',
      payload: payloadOf('payment.captured'),
      version: 1,
      producer: 'payments',
      createdAt: new Date(0),
      seq: 1,
      orderingKey: '',
      correlationId: 'id',
      causationId: null,
      traceparent: null,
    });
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['partitionkey']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['causationid']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['traceparent']));
  });
});

describe('what a component elsewhere answers', () => {
  it.each([200, 201, 202, 204, 299])('%i is delivered', async (status) => {
    behave = answer(status);
    expect(await deliver()).toMatchObject({ delivered: 1, failed: 0, waited: 0, deadLettered: 0 });
    expect(await delivery()).toMatchObject({ state: 'delivered', attempts: 1 });
  });

  it('200 is delivered even when the body after it never ends', async () => {
    behave = (response) => response.writeHead(200).write('so far');
    expect(await deliver()).toMatchObject({ delivered: 1 });
  });

  it('410 is dead-lettered at once', async () => {
    behave = answer(410);
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
    expect(await delivery()).toMatchObject({
      state: 'dead_lettered',
      attempts: 1,
      log: [{ kind: 'permanent', message: 'the subscriber answered 410 Gone' }],
    });
  });

  it.each([429, 503])(
    '%i with Retry-After in seconds waits so long, and burns no attempt',
    async (status) => {
      behave = answer(status, { 'retry-after': '120' });
      const before = Date.now();
      expect(await deliver()).toMatchObject({ waited: 1, failed: 0 });
      const { nextAttemptAt, ...rest } = await delivery();
      expect(rest).toMatchObject({ state: 'pending', attempts: 0, log: [{ outcome: 'waited' }] });
      expect(nextAttemptAt).toBeGreaterThanOrEqual(before + 120 * SECOND);
      expect(nextAttemptAt).toBeLessThanOrEqual(Date.now() + 120 * SECOND);
    },
  );

  it.each([429, 503])('%i with Retry-After as an HTTP date waits until then', async (status) => {
    const date = new Date(Date.now() + 10 * MINUTE).toUTCString();
    behave = answer(status, { 'retry-after': date });
    const before = Date.now();
    expect(await deliver()).toMatchObject({ waited: 1, failed: 0 });
    const { nextAttemptAt, attempts } = await delivery();
    expect(attempts).toBe(0);
    // It is a wait from the answer, on whatever clock the database has.
    expect(Math.abs(nextAttemptAt! - Date.parse(date))).toBeLessThanOrEqual(Date.now() - before + SECOND);
  });

  it('no Retry-After parks the lane for more than a day', async () => {
    behave = answer(503, { 'retry-after': '99999999' });
    expect(await deliver()).toMatchObject({ waited: 1 });
    expect((await delivery()).nextAttemptAt).toBeLessThanOrEqual(Date.now() + DAY);
  });

  it.each(['0', '-5', '0.5', 'Sun, 06 Nov 1994 08:49:37 GMT'])(
    '503 with Retry-After %j does not make the relay ask without a pause',
    async (value) => {
      behave = answer(503, { 'retry-after': value });
      await deliver({ forMs: 300 });
      expect(got.length).toBeLessThanOrEqual(2);
    },
  );

  it.each([
    [429, {}],
    [503, {}],
    [503, { 'retry-after': 'soon' }],
    [503, { 'retry-after': '' }],
    [500, {}],
    [500, { 'retry-after': '120' }],
    [400, {}],
    [401, {}],
    [404, {}],
    [304, {}],
  ])('%i with %j is a failure', async (status, headers) => {
    behave = answer(status, headers);
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 1, waited: 0, deadLettered: 0 });
    expect(await delivery()).toMatchObject({
      state: 'failing',
      attempts: 1,
      log: [{ outcome: 'failed', message: `the subscriber answered ${status}` }],
    });
  });

  it.each([301, 302, 303, 307, 308])('%i is a failure, and is not followed', async (status) => {
    behave = answer(status, { location: url });
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 1 });
    expect(got).toHaveLength(1);
  });

  it('none, because nobody listens, is a failure', async () => {
    expect(await deliver({ to: `http://127.0.0.1:${await freePort()}/` })).toMatchObject({ failed: 1 });
    expect(await delivery()).toMatchObject({ state: 'failing', attempts: 1 });
  });

  it('none, because the connection is reset, is a failure', async () => {
    behave = (_, request) => request.socket.resetAndDestroy();
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 1 });
    expect(got).toHaveLength(1);
  });

  it('none within the time limit is a failure, and the connection is let go', async () => {
    let whenClosed: () => void;
    const closed = new Promise<void>((resolve) => (whenClosed = resolve));
    behave = (_, request) => request.socket.once('close', () => whenClosed());
    expect(await deliver({ timeoutMs: 100 })).toMatchObject({ delivered: 0, failed: 1 });
    await closed;
    expect(await delivery()).toMatchObject({ state: 'failing', attempts: 1, log: [{ kind: 'timeout' }] });
  });

  it('is remembered under the same id: the next attempt says that it is the second', async () => {
    behave = answer(500);
    await deliver();
    behave = answer(204);
    const accounting = remoteSubscriber({ name: 'accounting', url, secret });
    const now = Date.now() + 2 * MINUTE;
    await relay({ db: bus.db, subscribers: [accounting], until: Date.now() + 45 * SECOND, now });
    expect(got.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2']);
    expect(got[1]!.headers['webhook-id']).toBe(got[0]!.headers['webhook-id']);
    expect(new Webhook(secret).verify(got[1]!.body, got[1]!.headers)).toBeTruthy();
  });
});

describe('a component elsewhere that takes batches', () => {
  const accounting = (timeoutMs = 5 * SECOND) => ({
    ...remoteSubscriber({ name: 'accounting', url, secret, isBatch: true }),
    timeoutMs,
  });
  /** Emits so many events and has them delivered. */
  async function deliverAll(count: number, options: { timeoutMs?: number } = {}): Promise<RelayReport> {
    await emitPayments(bus.db, 1, count);
    return await again(0, options.timeoutMs);
  }
  const again = (afterMs: number, timeoutMs?: number) =>
    drain(bus.db, [accounting(timeoutMs)], { now: START + afterMs });
  const numbersOf = ({ body }: Got) =>
    (JSON.parse(body) as { data: { amountMinor: number } }[]).map(({ data }) => data.amountMinor);
  const batches = () => got.map(numbersOf);
  const states = async () => (await deliveriesOf(bus.db, 'accounting')).map(({ state }) => state);
  const first = async () => (await deliveriesOf(bus.db, 'accounting'))[0]!;
  const says =
    (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
    (response: ServerResponse) =>
      response.writeHead(200, headers).end(body);
  const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

  it('is handed an array of CloudEvents in order, under a signature that the Standard Webhooks SDK verifies', async () => {
    behave = answer(204);
    expect(await deliverAll(3)).toMatchObject({ delivered: 3 });
    const [{ headers, body }] = got as [Got];
    expect(headers).toMatchObject({
      'content-type': 'application/cloudevents-batch+json; charset=utf-8',
      'webhook-id': expect.stringMatching(/^batch_[\w-]{32}$/),
      'x-attempt': '1',
    });
    const events = new Webhook(secret).verify(body, headers) as { id: string; type: string }[];
    expect(events.map(({ id }) => id)).toEqual(await idsInOrder(bus.db, 'payment.captured'));
    expect(events[0]).toMatchObject({ specversion: '1.0', type: 'payment.captured' });
    expect(batches()).toEqual([[1, 2, 3]]);
  });

  it('is handed a hundred at most, and one large event after the other', async () => {
    behave = answer(204);
    await deliverAll(250);
    expect(batches()).toEqual([upTo(100), upTo(200).slice(100), upTo(250).slice(200)]);
    const component = { ...remoteSubscriber({ name: 'payments', url, secret, isBatch: true }) };
    got = [];
    for (const kib of [400, 400, 400, 1500, 10]) {
      const body = { padding: 'x'.repeat(kib * 1024) };
      await emit(bus.db, 'webhook.cardpayments.received', { eventId: `evt_${kib}`, eventType: null, body });
    }
    await drain(bus.db, [component]);
    expect(got.map(({ body }) => (JSON.parse(body) as unknown[]).length)).toEqual([2, 1, 1, 1]);
  });

  it.each([
    ['2xx with a body that is not about it', says('OK', { 'content-type': 'text/plain' })],
    ['2xx with an object that does not say', says('{ "ok": true }')],
    ['2xx that says so', says('{ "delivered": 3 }')],
    ['202 without a body', answer(202)],
  ])('has taken all with %s', async (_, behaviour) => {
    behave = behaviour;
    expect(await deliverAll(3)).toMatchObject({ delivered: 3, failed: 0 });
  });

  it.each([
    ['as JSON', undefined],
    ['without saying that it is JSON', { 'content-type': 'text/plain' }],
  ])('has taken the first n with { "delivered": n }, %s: the next one has failed', async (_, headers) => {
    behave = says('{ "delivered": 2 }', headers);
    expect(await deliverAll(4)).toMatchObject({ delivered: 2, failed: 1 });
    expect(await states()).toEqual(['delivered', 'delivered', 'failing', 'pending']);
    const stored = await deliveriesOf(bus.db, 'accounting');
    expect(stored.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 0]);
    expect(stored[2]!.log).toMatchObject([{ kind: 'not_taken', message: 'the handler took 2 of 4 events' }]);
    behave = answer(204);
    expect(await again(MINUTE)).toMatchObject({ delivered: 2 });
    expect(batches()).toEqual([
      [1, 2, 3, 4],
      [3, 4],
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  it.each([
    ['{ "delivered": 4 }', '"delivered": 4, to 3 events'],
    ['{ "delivered": -1 }', '"delivered": -1, to 3 events'],
    ['{ "delivered": 1.5 }', '"delivered": 1.5, to 3 events'],
    ['{ "delivered": "3" }', '"delivered": a string, to 3 events'],
    ['{ "delivered": ', 'malformed JSON'],
    [`{ "delivered": 3, "log": "${'x'.repeat(5000)}" }`, 'more than 4096 bytes'],
  ])('has taken none with %.40s, and is told why', async (body, why) => {
    behave = says(body);
    expect(await deliverAll(3)).toMatchObject({ delivered: 0, failed: 1 });
    expect((await first()).log).toMatchObject([
      {
        kind: 'wrong_answer',
        message: `the subscriber answered ${why}: answer { "delivered": 2 } for the first two, or no body for all`,
      },
    ]);
    expect(await states()).toEqual(['failing', 'pending', 'pending']);
  });

  it('gives up the first with 410, and goes on behind it', async () => {
    behave = (response) => response.writeHead(got.length === 1 ? 410 : 204).end();
    expect(await deliverAll(3)).toMatchObject({ delivered: 2, deadLettered: 1 });
    expect(await states()).toEqual(['dead_lettered', 'delivered', 'delivered']);
    expect(batches()).toEqual([
      [1, 2, 3],
      [2, 3],
    ]);
  });

  it.each([429, 503])('has the first wait with %i and Retry-After, and burns no attempt', async (status) => {
    behave = answer(status, { 'retry-after': '120' });
    expect(await deliverAll(2)).toMatchObject({ waited: 1, failed: 0 });
    expect((await deliveriesOf(bus.db, 'accounting')).map(({ attempts }) => attempts)).toEqual([0, 0]);
    expect((await first()).nextAttemptAt).toBeGreaterThanOrEqual(START + 120 * SECOND);
  });

  it('fails with the first otherwise, and under the same id when the same events come again', async () => {
    behave = answer(500);
    expect(await deliverAll(2)).toMatchObject({ failed: 1 });
    behave = answer(204);
    await again(MINUTE);
    expect(batches()).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const ids = got.map(({ headers }) => headers['webhook-id']);
    expect(ids[1]).toBe(ids[0]);
    expect(got.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2']);
  });

  it('is handed another batch under another id, though it begins with the same event', async () => {
    behave = answer(500);
    await deliverAll(2);
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, []);
    behave = answer(204);
    await again(MINUTE);
    expect(batches().at(-1)).toEqual([1, 2, 3]);
    expect(got.at(-1)!.headers['webhook-id']).not.toBe(got[0]!.headers['webhook-id']);
  });

  it('has failed when its answer does not end within the time limit', async () => {
    behave = (response) => response.writeHead(200, { 'content-type': 'application/json' }).write('{');
    expect(await deliverAll(2, { timeoutMs: 100 })).toMatchObject({ delivered: 0, failed: 1 });
    expect(await first()).toMatchObject({ state: 'failing', log: [{ kind: 'timeout' }] });
  });
});

it('a component that the catalog does not list is refused by the name of its variable', () => {
  expect(() => remoteSubscriber({ name: 'acounting', url, secret })).toThrow(
    'SUBSCRIBER_ACOUNTING_URL: the catalog has no subscriber acounting',
  );
});
