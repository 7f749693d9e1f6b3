import { createHmac } from 'node:crypto';

import { receiver } from 'postbud/receive';
import { describe, expect } from 'vitest';

import { SECRET, eventOf, requestOf } from '../support/receive.ts';
import type { Difference } from '../support/receive.ts';
import { read, test } from '../support/receive-test.ts';

describe('a request that the bus did not make', () => {
  const event = eventOf({ id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77' });
  const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);

  test.for<[string, Difference]>([
    ['signed with another secret', { secret: other }],
    ['whose body was changed', { sent: JSON.stringify({ ...event, data: { amountMinor: 1 } }) }],
    ['without a signature', { headers: { 'webhook-signature': '' } }],
    ['with half a signature', { headers: { 'webhook-signature': 'v1,' } }],
    ['with another id', { headers: { 'webhook-id': 'msg_2' } }],
    ['from six minutes ago', { at: minutesAgo(6) }],
    ['from in six minutes', { at: minutesAgo(-6) }],
  ])(
    'a request %s is answered 401, and always in the same words',
    async ([, difference], { ledger, effects }) => {
      const { status, body } = await ledger()(event, difference);
      expect([status, body?.code]).toEqual([401, 'bad_signature']);
      expect(body).toEqual((await ledger()(event, { secret: other })).body);
      expect(await effects()).toEqual([]);
    },
  );

  test.for([4, -4])('a request whose clock is %i minutes off is taken', async (minutes, { ledger }) => {
    expect(await ledger()(event, { at: minutesAgo(minutes) })).toMatchObject({ status: 204 });
  });

  test('both the old and the new secret verify during a rotation', async ({ ledger }) => {
    for (const secrets of [[SECRET, other], `${SECRET} ${other}`]) {
      for (const secret of [SECRET, other])
        expect(await ledger(undefined, { secrets })(event, { secret })).toMatchObject({ status: 204 });
    }
  });

  test.for<[status: number, string, Difference]>([
    [405, 'by GET', { method: 'GET' }],
    [405, 'by PUT', { method: 'PUT' }],
    [415, 'as plain JSON', { headers: { 'content-type': 'application/json' } }],
    [415, 'without a type', { headers: { 'content-type': '' } }],
    [
      415,
      'in another charset',
      { headers: { 'content-type': 'application/cloudevents+json; charset=latin1' } },
    ],
    [415, 'compressed', { headers: { 'content-encoding': 'gzip' } }],
    [413, 'longer than it may be', { sent: 'x'.repeat(3000) }],
    [413, 'longer than it may be, in pieces', { sent: inPieces(40) }],
    [400, 'whose body breaks off', { sent: broken() }],
  ])('an answer %i is for a request %s', async ([status, , difference], { ledger }) => {
    expect(await ledger(undefined, { maxBytes: 2000 })(event, difference)).toMatchObject({ status });
  });

  test('a declared length over the limit is refused before the body is read', async ({ ledger }) => {
    const headers = { 'content-length': '9999' };
    expect(await ledger(undefined, { maxBytes: 2000 })(event, { headers })).toMatchObject({ status: 413 });
  });

  test('a request whose body was read before is answered with what to change', async ({ pool }) => {
    const handlers = { 'payment.captured': () => undefined };
    const answer = receiver({ subscriber: 'ledger', secrets: SECRET, database: pool, handlers });
    const request = requestOf(event);
    await request.text();
    expect(await read(await answer(request))).toMatchObject({ status: 500, body: { code: 'body_used' } });
  });

  test.for<[unknown, string]>([
    ['{', 'The body is not JSON.'],
    ['[]', 'expected object'],
    [{ ...event, specversion: '0.3' }, 'specversion'],
    [{ ...event, id: '1; drop table effects' }, 'id: Invalid'],
    [{ ...event, previousid: "x' or true" }, 'previousid: Invalid'],
    [{ ...event, data: 'text' }, 'data'],
    [[event, { ...event, time: 'today' }], '1.time'],
    [{ ...event, id: undefined, time: undefined }, 'id: '],
  ])('a signed body %j is malformed, and the answer says where', async ([content, where], { ledger }) => {
    const kind = content === '[]' ? { 'content-type': 'application/cloudevents+json' } : {};
    const { status, body } = await ledger()(content, { headers: kind });
    expect([status, body?.code]).toEqual([400, 'malformed']);
    expect(body?.detail).toContain(where);
  });

  test('a signed body that is not UTF-8 is malformed', async ({ pool }) => {
    const handlers = { 'payment.captured': () => undefined };
    const answer = receiver({ subscriber: 'ledger', secrets: SECRET, database: pool, handlers });
    const bytes = Buffer.from([0x22, 0xff, 0x22]);
    const at = String(Math.floor(Date.now() / 1000));
    const signed = Buffer.concat([Buffer.from(`a.${at}.`), bytes]);
    const signature = createHmac('sha256', Buffer.alloc(32, 7)).update(signed).digest('base64');
    const request = requestOf(event, {
      sent: bytes,
      headers: { 'webhook-id': 'a', 'webhook-timestamp': at, 'webhook-signature': `v1,${signature}` },
    });
    expect(await read(await answer(request))).toMatchObject({
      status: 400,
      body: { detail: 'The body is not UTF-8.' },
    });
  });
});

describe('a receiver that is set up wrongly', () => {
  const handlers = { 'payment.captured': () => undefined };
  const make = (options: object) => () =>
    receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database: { connect: () => Promise.reject(new Error()) },
      handlers,
      ...options,
    });

  test.for<[object, string]>([
    [{ subscriber: 'leger' }, "Unknown subscriber 'leger'. Did you mean 'ledger'?"],
    [{ subscriber: undefined }, "Unknown subscriber 'undefined'. Known: "],
    [
      { handlers: { 'payment.capture': () => 1 } },
      "Unknown topic 'payment.capture' of ledger. Did you mean 'payment.captured'?",
    ],
    [{ handlers: { 'user.signed_up': () => 1 } }, 'The catalog does not list ledger for user.signed_up'],
    [{ handlers: { 'payment.captured': 'yes' } }, 'handlers: expected a function for payment.captured'],
    [{ handlers: {} }, 'handlers: expected at least one'],
    [{ secrets: [] }, 'secrets: expected the secret that SUBSCRIBER_<NAME>_SECRET has'],
    [{ secrets: '' }, 'secrets: expected the secret'],
    [{ secrets: undefined }, 'secrets: expected the secret'],
    [{ secrets: [SECRET, 'hunter2'] }, 'secrets[1]: expected whsec_'],
    [{ secrets: 'whsec_short' }, 'secrets[0]: expected whsec_'],
    [{ secrets: `whpk_${Buffer.alloc(32, 1).toString('base64')}` }, 'secrets[0]: expected whsec_'],
    [{ database: 'postgres://ledger.example.no' }, 'database: expected the Pool'],
    // What has transactions of another shape: Kysely, Sequelize, Drizzle on Neon over HTTP, and a single client.
    [{ database: { transaction: () => ({}), executeQuery: () => 1 } }, 'by databaseOf, for example'],
    [{ database: { transaction: () => 1, query: () => 1 } }, 'by databaseOf, for example'],
    [{ database: { transaction: () => 1, execute: () => 1, batch: () => 1 } }, 'database: expected the Pool'],
    [{ database: { connect: () => 1, escapeLiteral: () => 1 } }, 'database: expected the Pool'],
    [{ maxBytes: 0 }, 'maxBytes: expected a number of bytes'],
  ])('%j is a TypeError at the start: %s', ([options, message]) => {
    expect(make(options)).toThrow(TypeError);
    expect(make(options)).toThrow(message);
    expect(make(options)).not.toThrow(/hunter2|postgres:/);
  });
});

function inPieces(count: number): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (let piece = 0; piece < count; piece += 1) controller.enqueue(Buffer.alloc(100, 'x'));
      controller.close();
    },
  });
}

function broken(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from('{'));
      controller.error(new Error('reset'));
    },
  });
}
