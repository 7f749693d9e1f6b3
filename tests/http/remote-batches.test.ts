import type { ServerResponse } from 'node:http';

import { Webhook } from 'standardwebhooks';
import { describe, expect } from 'vitest';

import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, idsInOrder, emitAlone } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import type { Got } from '../support/receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

const numbersOf = ({ body }: Got) =>
  (JSON.parse(body) as { data: { amountMinor: number } }[]).map(({ data }) => data.amountMinor);

const says =
  (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
  (response: ServerResponse) =>
    response.writeHead(200, headers).end(body);

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

const test = busTest
  .extend('receiver', async ({}, { onCleanup }) => {
    const receiver = await openReceiver();
    onCleanup(() => receiver.close());
    return receiver;
  })
  /** Delivers what is due so long after the start. */
  .extend('again', ({ bus, receiver }) => async (afterMs: number, timeoutMs = 5 * SECOND) => {
    const accounting = remoteSubscriber({ name: 'accounting', url: receiver.url, secret, isBatch: true });
    return await drain(bus.db, [{ ...accounting, timeoutMs }], { now: START + afterMs });
  })
  /** Emits so many events and has them delivered. */
  .extend('deliverAll', ({ bus, again }) => async (count: number, options: { timeoutMs?: number } = {}) => {
    await emitPayments(bus.db, 1, count);
    return await again(0, options.timeoutMs);
  })
  .extend(
    'batches',
    ({ receiver }) =>
      () =>
        receiver.got.map(numbersOf),
  )
  .extend(
    'stored',
    ({ bus }) =>
      () =>
        deliveriesOf(bus.db, 'accounting'),
  );

describe('a component elsewhere that takes batches', () => {
  test('a batch is an array of CloudEvents in order, whose signature the Standard Webhooks SDK verifies', async ({
    bus,
    receiver,
    deliverAll,
    batches,
  }) => {
    receiver.behave = answer(204);
    expect(await deliverAll(3)).toMatchObject({ delivered: 3 });
    const [{ headers, body }] = receiver.got as [Got];
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

  test('a batch has a hundred events at most, and a large event comes alone', async ({
    bus,
    receiver,
    deliverAll,
    batches,
  }) => {
    receiver.behave = answer(204);
    await deliverAll(250);
    expect(batches()).toEqual([upTo(100), upTo(200).slice(100), upTo(250).slice(200)]);
    const component = { ...remoteSubscriber({ name: 'payments', url: receiver.url, secret, isBatch: true }) };
    receiver.got = [];
    for (const kib of [400, 400, 400, 1500, 10]) {
      const body = { padding: 'x'.repeat(kib * 1024) };
      await emitAlone(bus.db, 'webhook.cardpayments.received', {
        eventId: `evt_${kib}`,
        eventType: null,
        body,
      });
    }
    await drain(bus.db, [component]);
    expect(receiver.got.map(({ body }) => (JSON.parse(body) as unknown[]).length)).toEqual([2, 1, 1, 1]);
  });

  test.for([
    ['2xx with a body that is not about it', says('OK', { 'content-type': 'text/plain' })],
    ['2xx with an object that does not say', says('{ "ok": true }')],
    ['2xx that says so', says('{ "delivered": 3 }')],
    ['202 without a body', answer(202)],
  ] as const)(
    'a batch is taken as a whole by an answer %s',
    async ([, behaviour], { receiver, deliverAll }) => {
      receiver.behave = behaviour;
      expect(await deliverAll(3)).toMatchObject({ delivered: 3, failed: 0 });
    },
  );

  test.for([
    ['as JSON', undefined],
    ['without saying that it is JSON', { 'content-type': 'text/plain' }],
  ] as const)(
    'the answer { "delivered": n } takes the first n, %s, and the next one has failed',
    async ([, headers], { bus, receiver, again, deliverAll, batches, stored }) => {
      receiver.behave = says('{ "delivered": 2 }', headers);
      expect(await deliverAll(4)).toMatchObject({ delivered: 2, failed: 1 });
      expect((await stored()).map(({ state }) => state)).toEqual([
        'delivered',
        'delivered',
        'failing',
        'pending',
      ]);
      const deliveries = await stored();
      expect(deliveries.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 0]);
      expect(deliveries[2]!.log).toMatchObject([
        { kind: 'not_taken', message: 'the handler took 2 of 4 events' },
      ]);
      receiver.behave = answer(204);
      expect(await again(MINUTE)).toMatchObject({ delivered: 2 });
      expect(batches()).toEqual([
        [1, 2, 3, 4],
        [3, 4],
      ]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test.for([
    ['{ "delivered": 4 }', '"delivered": 4, to 3 events'],
    ['{ "delivered": -1 }', '"delivered": -1, to 3 events'],
    ['{ "delivered": 1.5 }', '"delivered": 1.5, to 3 events'],
    ['{ "delivered": "3" }', '"delivered": a string, to 3 events'],
    ['{ "delivered": ', 'malformed JSON'],
    [`{ "delivered": 3, "log": "${'x'.repeat(5000)}" }`, 'more than 4096 bytes'],
  ] as const)(
    'the answer %.40s takes no event, and the reason is on record',
    async ([body, why], { receiver, deliverAll, stored }) => {
      receiver.behave = says(body);
      expect(await deliverAll(3)).toMatchObject({ delivered: 0, failed: 1 });
      expect((await stored())[0]!.log).toMatchObject([
        {
          kind: 'wrong_answer',
          message: `the subscriber answered ${why}; expected { "delivered": 2 } for the first two, or no body for all`,
        },
      ]);
      expect((await stored()).map(({ state }) => state)).toEqual(['failing', 'pending', 'pending']);
    },
  );

  test('the answer 410 gives up the first event of a batch, and the lane goes on behind it', async ({
    receiver,
    deliverAll,
    batches,
    stored,
  }) => {
    receiver.behave = (response) => response.writeHead(receiver.got.length === 1 ? 410 : 204).end();
    expect(await deliverAll(3)).toMatchObject({ delivered: 2, deadLettered: 1 });
    expect((await stored()).map(({ state }) => state)).toEqual(['dead_lettered', 'delivered', 'delivered']);
    expect(batches()).toEqual([
      [1, 2, 3],
      [2, 3],
    ]);
  });

  test.for([429, 503])(
    'the answer %i with Retry-After lets the first event wait, and burns no attempt',
    async (status, { receiver, deliverAll, stored }) => {
      receiver.behave = answer(status, { 'retry-after': '120' });
      expect(await deliverAll(2)).toMatchObject({ waited: 1, failed: 0 });
      expect((await stored()).map(({ attempts }) => attempts)).toEqual([0, 0]);
      expect((await stored())[0]!.nextAttemptAt).toBeGreaterThanOrEqual(START + 120 * SECOND);
    },
  );

  test('a failed batch fails its first event, and comes again under the same id', async ({
    receiver,
    again,
    deliverAll,
    batches,
  }) => {
    receiver.behave = answer(500);
    expect(await deliverAll(2)).toMatchObject({ failed: 1 });
    receiver.behave = answer(204);
    await again(MINUTE);
    expect(batches()).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const ids = receiver.got.map(({ headers }) => headers['webhook-id']);
    expect(ids[1]).toBe(ids[0]);
    expect(receiver.got.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2']);
  });

  test('another batch has another id although it begins with the same event', async ({
    bus,
    receiver,
    again,
    deliverAll,
    batches,
  }) => {
    receiver.behave = answer(500);
    await deliverAll(2);
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, []);
    receiver.behave = answer(204);
    await again(MINUTE);
    expect(batches().at(-1)).toEqual([1, 2, 3]);
    expect(receiver.got.at(-1)!.headers['webhook-id']).not.toBe(receiver.got[0]!.headers['webhook-id']);
  });

  test('a batch has failed when its answer does not end within the time limit', async ({
    receiver,
    deliverAll,
    stored,
  }) => {
    receiver.behave = (response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).write('{');
    expect(await deliverAll(2, { timeoutMs: 100 })).toMatchObject({ delivered: 0, failed: 1 });
    expect((await stored())[0]).toMatchObject({ state: 'failing', log: [{ kind: 'timeout' }] });
  });
});
