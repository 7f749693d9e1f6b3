import { Webhook } from 'standardwebhooks';
import { describe, expect } from 'vitest';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import { cloudEvent } from '../../lib/components/remote/cloud-event.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { DAY, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import { freePort } from '../support/postgres.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import type { Got } from '../support/receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

const test = busTest
  .extend('receiver', async ({}, { onCleanup }) => {
    const receiver = await openReceiver();
    onCleanup(() => receiver.close());
    return receiver;
  })
  /** Emits one event and has it delivered to the receiver, or to another address. */
  .extend('deliver', ({ bus, receiver }) => {
    return async ({ to = receiver.url, timeoutMs = 5 * SECOND, forMs = 45 * SECOND } = {}) => {
      await emitAlone(
        bus.db,
        'payment.captured',
        payloadOf('payment.captured', { bookingId: 'bkg_blåbær' }),
        {
          correlationId: 'req-1',
          causationId: 'evt-0',
          orderingKey: 'solvik',
          traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        },
      );
      const accounting = { ...remoteSubscriber({ name: 'accounting', url: to, secret }), timeoutMs };
      return await relay({ db: bus.db, subscribers: [accounting], until: Date.now() + forMs });
    };
  })
  .extend(
    'delivery',
    ({ bus }) =>
      async () =>
        (await deliveriesOf(bus.db, 'accounting'))[0]!,
  );

describe('the request to a component elsewhere', () => {
  test('a component elsewhere is handed a CloudEvent whose signature the Standard Webhooks SDK verifies', async ({
    bus,
    receiver,
    deliver,
  }) => {
    receiver.behave = answer(204);
    await deliver();
    const [stored] = await rows<{ id: string; seq: number; at: number }>(
      bus.db,
      'select id::text, seq::float8 as seq, floor(extract(epoch from created_at) * 1000)::float8 as at from events',
    );
    const [{ method, path, headers, body }] = receiver.got as [Got];
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

  test('a CloudEvent leaves out the attributes that its event does not have', () => {
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
      erased: false,
    });
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['partitionkey']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['causationid']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['traceparent']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['erased']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['previousid']));
    expect(Object.keys(event)).not.toEqual(expect.arrayContaining(['previousskipped']));
  });
});

describe('the answer of a component elsewhere', () => {
  test.for([200, 201, 202, 204, 299])(
    'an event is delivered by the answer %i',
    async (status, { receiver, deliver, delivery }) => {
      receiver.behave = answer(status);
      expect(await deliver()).toMatchObject({ delivered: 1, failed: 0, waited: 0, deadLettered: 0 });
      expect(await delivery()).toMatchObject({ state: 'delivered', attempts: 1 });
    },
  );

  test('an event is delivered by an answer 200 whose body never ends', async ({ receiver, deliver }) => {
    receiver.behave = (response) => response.writeHead(200).write('so far');
    expect(await deliver()).toMatchObject({ delivered: 1 });
  });

  test('an event is dead-lettered at once by the answer 410', async ({ receiver, deliver, delivery }) => {
    receiver.behave = answer(410);
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
    expect(await delivery()).toMatchObject({
      state: 'dead_lettered',
      attempts: 1,
      log: [{ kind: 'permanent', message: 'the subscriber answered 410: said' }],
    });
  });

  test.for([429, 503])(
    'a delivery waits the seconds of Retry-After in an answer %i, and burns no attempt',
    async (status, { receiver, deliver, delivery }) => {
      receiver.behave = answer(status, { 'retry-after': '120' });
      const before = Date.now();
      expect(await deliver()).toMatchObject({ waited: 1, failed: 0 });
      const { nextAttemptAt, ...rest } = await delivery();
      expect(rest).toMatchObject({ state: 'pending', attempts: 0, log: [{ outcome: 'waited' }] });
      expect(nextAttemptAt).toBeGreaterThanOrEqual(before + 120 * SECOND);
      expect(nextAttemptAt).toBeLessThanOrEqual(Date.now() + 120 * SECOND);
    },
  );

  test.for([429, 503])(
    'a delivery waits until the HTTP date of Retry-After in an answer %i',
    async (status, { receiver, deliver, delivery }) => {
      const date = new Date(Date.now() + 10 * MINUTE).toUTCString();
      receiver.behave = answer(status, { 'retry-after': date });
      const before = Date.now();
      expect(await deliver()).toMatchObject({ waited: 1, failed: 0 });
      const { nextAttemptAt, attempts } = await delivery();
      expect(attempts).toBe(0);
      // It is a wait from the answer, on whatever clock the database has.
      expect(Math.abs(nextAttemptAt! - Date.parse(date))).toBeLessThanOrEqual(Date.now() - before + SECOND);
    },
  );

  test('a Retry-After of more than a day lets the lane wait for a day', async ({
    receiver,
    deliver,
    delivery,
  }) => {
    receiver.behave = answer(503, { 'retry-after': '99999999' });
    expect(await deliver()).toMatchObject({ waited: 1 });
    expect((await delivery()).nextAttemptAt).toBeLessThanOrEqual(Date.now() + DAY);
  });

  test.for(['0', '-5', '0.5', 'Sun, 06 Nov 1994 08:49:37 GMT'])(
    'the Retry-After %j does not make the relay ask again at once',
    async (value, { receiver, deliver }) => {
      receiver.behave = answer(503, { 'retry-after': value });
      await deliver({ forMs: 300 });
      expect(receiver.got.length).toBeLessThanOrEqual(2);
    },
  );

  test.for([
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
  ] as const)(
    'an attempt has failed by the answer %i with %j',
    async ([status, headers], { receiver, deliver, delivery }) => {
      receiver.behave = answer(status, headers);
      expect(await deliver()).toMatchObject({ delivered: 0, failed: 1, waited: 0, deadLettered: 0 });
      expect(await delivery()).toMatchObject({
        state: 'failing',
        attempts: 1,
        log: [
          {
            outcome: 'failed',
            message: `the subscriber answered ${status}${status === 304 ? '' : ': said'}`,
          },
        ],
      });
    },
  );

  test.for([301, 302, 303, 307, 308])(
    'an attempt has failed by the redirect %i, which is not followed',
    async (status, { receiver, deliver }) => {
      receiver.behave = answer(status, { location: receiver.url });
      expect(await deliver()).toMatchObject({ delivered: 0, failed: 1 });
      expect(receiver.got).toHaveLength(1);
    },
  );

  test('an attempt has failed when nobody listens', async ({ deliver, delivery }) => {
    expect(await deliver({ to: `http://127.0.0.1:${await freePort()}/` })).toMatchObject({ failed: 1 });
    expect(await delivery()).toMatchObject({ state: 'failing', attempts: 1 });
  });

  test('an attempt has failed when the connection is reset', async ({ receiver, deliver }) => {
    receiver.behave = (_, request) => request.socket.resetAndDestroy();
    expect(await deliver()).toMatchObject({ delivered: 0, failed: 1 });
    expect(receiver.got).toHaveLength(1);
  });

  test('an attempt has failed without an answer within its time limit, and the connection is closed', async ({
    receiver,
    deliver,
    delivery,
  }) => {
    let whenClosed: () => void;
    const closed = new Promise<void>((resolve) => (whenClosed = resolve));
    receiver.behave = (_, request) => request.socket.once('close', () => whenClosed());
    expect(await deliver({ timeoutMs: 100 })).toMatchObject({ delivered: 0, failed: 1 });
    await closed;
    expect(await delivery()).toMatchObject({ state: 'failing', attempts: 1, log: [{ kind: 'timeout' }] });
  });

  test('the second attempt comes under the same id and says that it is the second', async ({
    bus,
    receiver,
    deliver,
  }) => {
    receiver.behave = answer(500);
    await deliver();
    receiver.behave = answer(204);
    const accounting = remoteSubscriber({ name: 'accounting', url: receiver.url, secret });
    const now = Date.now() + 2 * MINUTE;
    await relay({ db: bus.db, subscribers: [accounting], until: Date.now() + 45 * SECOND, now });
    expect(receiver.got.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2']);
    expect(receiver.got[1]!.headers['webhook-id']).toBe(receiver.got[0]!.headers['webhook-id']);
    expect(new Webhook(secret).verify(receiver.got[1]!.body, receiver.got[1]!.headers)).toBeTruthy();
  });
});

test('a component with some topics elsewhere is sent those alone, handles the others here, and the rest wait', async ({
  bus,
  receiver,
}) => {
  const topics = ['booking.approved', 'webhook.walletpayments.received'];
  const all: TopicName[] = ['booking.approved', 'booking.expired', 'webhook.cardpayments.received'];
  for (const topic of [...all, 'webhook.walletpayments.received'] as const)
    await emitAlone(bus.db, topic, payloadOf(topic));
  const payments = subscribersOf({
    remoteSubscribers: [{ name: 'payments', url: receiver.url, secret, topics }],
    database: { kind: 'none' },
  }).filter(({ name }) => name === 'payments');
  await relay({ db: bus.db, subscribers: payments, until: Date.now() + 45 * SECOND });
  const sent = receiver.got.map(({ body }) => (JSON.parse(body) as { type: string }).type);
  expect(sent.toSorted()).toEqual(topics);
  // In the order of the topics' names.
  expect(await statesOf(bus.db, 'payments')).toEqual(['delivered', 'pending', 'delivered', 'delivered']);
});
