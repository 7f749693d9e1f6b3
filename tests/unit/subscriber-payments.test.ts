import { describe, expect } from 'vitest';
import type { TestBus } from 'postbud/testing';

import { InvalidPayload } from '../../lib/bus/outbox/errors.ts';
import { createPaymentIntent, payments } from '../../lib/components/payments.ts';
import { codeOf } from '../../lib/platform/log.ts';
import { rows } from '../support/bus.ts';
import {
  card,
  cardFailed,
  cardRefunded,
  cardSucceeded,
  wallet,
  walletCallback,
} from '../support/payments.ts';
import { eventsOf, testOn, webhook } from '../support/test-bus.ts';

const test = testOn(payments);

/** The topics of what was told of payments, oldest first; the intents' own creation is left out. */
const outcomes = async (bus: TestBus) =>
  (await eventsOf(bus, 'payment.')).flatMap(({ topic }) => (topic === 'payment.intent.created' ? [] : topic));

const intentStates = (bus: TestBus) =>
  rows<{ id: string; state: string }>(bus.db, 'select id, state from payment_intents order by id');

describe('payments', () => {
  describe("turn a card webhook into the booking's payment event:", () => {
    const common = { intentId: 'pi_1', bookingId: 'bkg_1', provider: 'cardpayments' };
    test.for([
      ['captured', cardSucceeded(), { amountMinor: 125_000, currency: 'NOK' }],
      ['failed', cardFailed(), { reason: 'expired_card' }],
      ['failed', cardFailed('pi_1', null), { reason: 'declined' }],
      ['failed', cardFailed('pi_1', { code: 17 }), { reason: 'declined' }],
      ['refunded', cardRefunded(), { amountMinor: 25_000, currency: 'NOK' }],
    ] as const)('payment.%s', async ([state, body, more], { bus }) => {
      await createPaymentIntent(bus.db, card);
      if (state === 'refunded') await webhook(bus, 'webhook.cardpayments.received', cardSucceeded(), 'evt_8');
      await bus.drain();
      const id = await webhook(bus, 'webhook.cardpayments.received', body, 'evt_9');
      expect(await bus.drain()).toMatchObject({ delivered: 1, failed: 0, deadLettered: 0 });
      expect((await eventsOf(bus, 'payment.')).at(-1)).toMatchObject({
        topic: `payment.${state}`,
        payload: { ...common, ...more, providerEventId: 'evt_9' },
        causationId: id,
      });
      expect(await intentStates(bus)).toEqual([{ id: 'pi_1', state }]);
    });
  });

  describe("turn a wallet callback into the booking's payment event:", () => {
    test.for([
      ['CAPTURED', 'captured', { amountMinor: 80_000, currency: 'NOK' }],
      ['REFUNDED', 'refunded', { amountMinor: 80_000, currency: 'NOK' }],
      ['FAILED', 'failed', { reason: 'failed' }],
      ['ABORTED', 'failed', { reason: 'aborted' }],
      ['EXPIRED', 'failed', { reason: 'expired' }],
      ['TERMINATED', 'failed', { reason: 'terminated' }],
    ] as const)('%s is payment.%s', async ([name, state, more], { bus }) => {
      await createPaymentIntent(bus.db, wallet);
      if (name === 'REFUNDED')
        await webhook(bus, 'webhook.walletpayments.received', walletCallback('CAPTURED'));
      await bus.drain();
      await webhook(bus, 'webhook.walletpayments.received', walletCallback(name));
      expect(await bus.drain()).toMatchObject({ delivered: 1 });
      expect((await eventsOf(bus, 'payment.')).at(-1)).toMatchObject({
        topic: `payment.${state}`,
        payload: { intentId: 'wallet-1', bookingId: 'bkg_2', provider: 'walletpayments', ...more },
      });
      expect(await intentStates(bus)).toEqual([{ id: 'wallet-1', state }]);
    });

    test('a capture that did not succeed emits nothing', async ({ bus }) => {
      await createPaymentIntent(bus.db, wallet);
      await webhook(bus, 'webhook.walletpayments.received', walletCallback('CAPTURED', { success: false }));
      expect(await bus.drain()).toMatchObject({ delivered: 1 });
      expect(await outcomes(bus)).toEqual([]);
      expect(await intentStates(bus)).toEqual([{ id: 'wallet-1', state: 'created' }]);
    });
  });

  test('emit an outcome of an intent once, however many webhooks report it and however often they are replayed', async ({
    bus,
  }) => {
    await createPaymentIntent(bus.db, card);
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardRefunded());
    expect(await bus.drain()).toMatchObject({ delivered: 3 });
    expect(await outcomes(bus)).toEqual(['payment.captured', 'payment.refunded']);
    expect(await bus.replay('webhook.cardpayments.received', { include: 'all' })).toMatchObject({
      replayed: 3,
    });
    expect(await bus.drain()).toMatchObject({ delivered: 3 });
    expect(await outcomes(bus)).toEqual(['payment.captured', 'payment.refunded']);
    expect(await intentStates(bus)).toEqual([{ id: 'pi_1', state: 'refunded' }]);
  });

  test.for([
    ['webhook.cardpayments.received', { type: 'invoice.paid', data: { object: { id: 'in_1' } } }],
    ['webhook.cardpayments.received', { type: 'PAYMENT_INTENT.SUCCEEDED' }],
    ['webhook.cardpayments.received', { type: ['payment_intent.succeeded'] }],
    [
      'webhook.cardpayments.received',
      {
        type: 'charge.refunded',
        data: { object: { id: 'ch_1', payment_intent: null, amount_refunded: 5, currency: 'nok' } },
      },
    ],
    ['webhook.cardpayments.received', {}],
    ['webhook.walletpayments.received', { name: 'CREATED', reference: 'wallet-1' }],
    ['webhook.walletpayments.received', { name: null }],
  ] as const)('ignore a webhook without a meaning for them: %s %j', async ([topic, body], { bus }) => {
    await webhook(bus, topic, body);
    expect(await bus.drain()).toMatchObject({ delivered: 1, deadLettered: 0 });
    expect(await outcomes(bus)).toEqual([]);
  });

  test.for([
    ['webhook.cardpayments.received', { type: 'payment_intent.succeeded' }],
    ['webhook.cardpayments.received', { type: 'payment_intent.succeeded', data: { object: 'pi_1' } }],
    // Thin events that name no object which may be asked for.
    ...[undefined, '/v1/../v2/x', '//elsewhere.example/v1/x', '/v1/payment_intents/pi_1?expand[]=x'].map(
      (url) =>
        [
          'webhook.cardpayments.received',
          {
            object: 'v2.core.event',
            type: 'v1.payment_intent.succeeded',
            related_object: { id: 'pi_1', type: 'payment_intent', url },
          },
        ] as const,
    ),
    [
      'webhook.cardpayments.received',
      {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', amount_received: '1', currency: 'nok' } },
      },
    ],
    [
      'webhook.cardpayments.received',
      {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', amount_received: 1.5, currency: 'nok' } },
      },
    ],
    [
      'webhook.cardpayments.received',
      { type: 'charge.refunded', data: { object: { payment_intent: null } } },
    ],
    ['webhook.walletpayments.received', { name: 'CAPTURED', amount: { value: 1, currency: 'NOK' } }],
    ['webhook.walletpayments.received', { name: 'CAPTURED', reference: 'wallet-1' }],
    ['webhook.walletpayments.received', { name: 'FAILED', reference: '' }],
  ] as const)(
    'dead-letter a body that does not fit its type at once: %s %j',
    async ([topic, body], { bus }) => {
      await createPaymentIntent(bus.db, card);
      await createPaymentIntent(bus.db, wallet);
      await webhook(bus, topic, body);
      expect(await bus.drain()).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
      expect(await bus.deadLetters()).toMatchObject([
        { subscriber: 'payments', attempt: 1, error: { code: 'permanent' } },
      ]);
      expect(await outcomes(bus)).toEqual([]);
    },
  );

  test.for([
    ['webhook.cardpayments.received', { amount_received: -1, currency: 'nok' }],
    ['webhook.cardpayments.received', { amount_received: 1, currency: '12 ' }],
  ] as const)(
    'dead-letter an outcome that no event can carry at once: %s %j',
    async ([topic, object], { bus }) => {
      await createPaymentIntent(bus.db, card);
      await webhook(bus, topic, {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', ...object } },
      });
      expect(await bus.drain()).toMatchObject({ failed: 0, deadLettered: 1 });
    },
  );

  test('keep a capture after a late failure, and a refund after a late capture', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardFailed());
    await bus.drain();
    expect(await intentStates(bus)).toEqual([{ id: card.id, state: 'captured' }]);

    await createPaymentIntent(bus.db, wallet);
    for (const name of ['REFUNDED', 'CAPTURED', 'FAILED']) {
      await webhook(bus, 'webhook.walletpayments.received', walletCallback(name));
    }
    await bus.drain();
    expect(await intentStates(bus)).toEqual([
      { id: card.id, state: 'captured' },
      { id: wallet.id, state: 'refunded' },
    ]);
  });

  test('create an intent with its row and its event', async ({ bus }) => {
    const { eventId } = await createPaymentIntent(bus.db, card);
    const { id, ...rest } = card;
    expect(await eventsOf(bus, 'payment.')).toMatchObject([
      { id: eventId, topic: 'payment.intent.created', payload: { intentId: id, ...rest } },
    ]);
    expect(await intentStates(bus)).toEqual([{ id, state: 'created' }]);
  });

  test('create neither row nor event of an intent that is invalid or exists', async ({ bus }) => {
    await expect(createPaymentIntent(bus.db, { ...card, currency: 'nok' })).rejects.toBeInstanceOf(
      InvalidPayload,
    );
    expect([await intentStates(bus), await eventsOf(bus, 'payment.')]).toEqual([[], []]);
    await createPaymentIntent(bus.db, card);
    const taken = await createPaymentIntent(bus.db, { ...card, bookingId: 'bkg_9' }).catch(codeOf);
    expect(taken).toBe('23505');
    expect(await eventsOf(bus, 'payment.')).toHaveLength(1);
  });
});
