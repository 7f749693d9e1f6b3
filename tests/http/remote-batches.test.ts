import type { ServerResponse } from 'node:http';

import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';

import { emit } from '../../lib/outbox/emit.ts';
import type { RelayReport } from '../../lib/relay/relay.ts';
import { remoteSubscriber } from '../../lib/subscribers/http.ts';
import { MINUTE, SECOND } from '../../lib/time.ts';
import {
  START,
  contradictions,
  deliveriesOf,
  drain,
  emitPayments,
  idsInOrder,
  openBus,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import type { Got, Receiver } from '../support/receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

let bus: Bus;
let receiver: Receiver;
let url: string;

beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
  receiver = await openReceiver();
  url = receiver.url;
});
afterAll(async () => {
  await receiver.close();
  await bus.close();
});
beforeEach(async () => {
  await bus.reset();
  receiver.got = [];
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
  const batches = () => receiver.got.map(numbersOf);
  const states = async () => (await deliveriesOf(bus.db, 'accounting')).map(({ state }) => state);
  const first = async () => (await deliveriesOf(bus.db, 'accounting'))[0]!;
  const says =
    (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
    (response: ServerResponse) =>
      response.writeHead(200, headers).end(body);
  const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

  it('is handed an array of CloudEvents in order, under a signature that the Standard Webhooks SDK verifies', async () => {
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

  it('is handed a hundred at most, and one large event after the other', async () => {
    receiver.behave = answer(204);
    await deliverAll(250);
    expect(batches()).toEqual([upTo(100), upTo(200).slice(100), upTo(250).slice(200)]);
    const component = { ...remoteSubscriber({ name: 'payments', url, secret, isBatch: true }) };
    receiver.got = [];
    for (const kib of [400, 400, 400, 1500, 10]) {
      const body = { padding: 'x'.repeat(kib * 1024) };
      await emit(bus.db, 'webhook.cardpayments.received', { eventId: `evt_${kib}`, eventType: null, body });
    }
    await drain(bus.db, [component]);
    expect(receiver.got.map(({ body }) => (JSON.parse(body) as unknown[]).length)).toEqual([2, 1, 1, 1]);
  });

  it.each([
    ['2xx with a body that is not about it', says('OK', { 'content-type': 'text/plain' })],
    ['2xx with an object that does not say', says('{ "ok": true }')],
    ['2xx that says so', says('{ "delivered": 3 }')],
    ['202 without a body', answer(202)],
  ])('has taken all with %s', async (_, behaviour) => {
    receiver.behave = behaviour;
    expect(await deliverAll(3)).toMatchObject({ delivered: 3, failed: 0 });
  });

  it.each([
    ['as JSON', undefined],
    ['without saying that it is JSON', { 'content-type': 'text/plain' }],
  ])('has taken the first n with { "delivered": n }, %s: the next one has failed', async (_, headers) => {
    receiver.behave = says('{ "delivered": 2 }', headers);
    expect(await deliverAll(4)).toMatchObject({ delivered: 2, failed: 1 });
    expect(await states()).toEqual(['delivered', 'delivered', 'failing', 'pending']);
    const stored = await deliveriesOf(bus.db, 'accounting');
    expect(stored.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 0]);
    expect(stored[2]!.log).toMatchObject([{ kind: 'not_taken', message: 'the handler took 2 of 4 events' }]);
    receiver.behave = answer(204);
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
    receiver.behave = says(body);
    expect(await deliverAll(3)).toMatchObject({ delivered: 0, failed: 1 });
    expect((await first()).log).toMatchObject([
      {
        kind: 'wrong_answer',
        message: `the subscriber answered ${why}; expected { "delivered": 2 } for the first two, or no body for all`,
      },
    ]);
    expect(await states()).toEqual(['failing', 'pending', 'pending']);
  });

  it('gives up the first with 410, and goes on behind it', async () => {
    receiver.behave = (response) => response.writeHead(receiver.got.length === 1 ? 410 : 204).end();
    expect(await deliverAll(3)).toMatchObject({ delivered: 2, deadLettered: 1 });
    expect(await states()).toEqual(['dead_lettered', 'delivered', 'delivered']);
    expect(batches()).toEqual([
      [1, 2, 3],
      [2, 3],
    ]);
  });

  it.each([429, 503])('has the first wait with %i and Retry-After, and burns no attempt', async (status) => {
    receiver.behave = answer(status, { 'retry-after': '120' });
    expect(await deliverAll(2)).toMatchObject({ waited: 1, failed: 0 });
    expect((await deliveriesOf(bus.db, 'accounting')).map(({ attempts }) => attempts)).toEqual([0, 0]);
    expect((await first()).nextAttemptAt).toBeGreaterThanOrEqual(START + 120 * SECOND);
  });

  it('fails with the first otherwise, and under the same id when the same events come again', async () => {
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

  it('is handed another batch under another id, though it begins with the same event', async () => {
    receiver.behave = answer(500);
    await deliverAll(2);
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, []);
    receiver.behave = answer(204);
    await again(MINUTE);
    expect(batches().at(-1)).toEqual([1, 2, 3]);
    expect(receiver.got.at(-1)!.headers['webhook-id']).not.toBe(receiver.got[0]!.headers['webhook-id']);
  });

  it('has failed when its answer does not end within the time limit', async () => {
    receiver.behave = (response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).write('{');
    expect(await deliverAll(2, { timeoutMs: 100 })).toMatchObject({ delivered: 0, failed: 1 });
    expect(await first()).toMatchObject({ state: 'failing', log: [{ kind: 'timeout' }] });
  });
});
