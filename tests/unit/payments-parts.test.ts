import { describe, expect } from 'vitest';
import type { TestBus } from 'postbud/testing';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { createPaymentIntent, payments } from '../../lib/components/payments.ts';
import { contradictions, rows } from '../support/bus.ts';
import {
  card,
  cardFailed,
  cardRefunded,
  cardSucceeded,
  told,
  wallet,
  walletPart,
  webhookOf,
} from '../support/payments.ts';
import { testOn } from '../support/test-bus.ts';

const test = testOn(payments);

type Body = Record<string, unknown>;

/** Has the webhooks handled in this order. */
async function hand(bus: TestBus, ...bodies: readonly Body[]): Promise<void> {
  for (const body of bodies) {
    await webhookOf(bus.db, 'type' in body ? 'cardpayments' : 'walletpayments', body);
  }
  expect(await bus.drain()).toMatchObject({
    delivered: bodies.length,
    waited: 0,
    deadLettered: 0,
    errors: [],
  });
}

/** Every order of these. */
function orders<Item>(items: readonly Item[]): Item[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, at) => orders(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
}

describe('the parts of a payment', () => {
  test.for<[what: string, bodies: Body[], expected: string[]]>([
    [
      'partial refunds of a charge, whose amount is cumulative at Stripe',
      [
        cardSucceeded(),
        cardRefunded('pi_1', 25_000),
        cardRefunded('pi_1', 60_000),
        cardRefunded('pi_1', 125_000),
      ],
      ['pi_1 captured 125000', 'pi_1 refunded 25000', 'pi_1 refunded 35000', 'pi_1 refunded 65000'],
    ],
    [
      'an older cumulative amount that arrives late, which adds nothing',
      [
        cardSucceeded(),
        cardRefunded('pi_1', 60_000),
        cardRefunded('pi_1', 25_000),
        cardRefunded('pi_1', 70_000),
      ],
      ['pi_1 captured 125000', 'pi_1 refunded 60000', 'pi_1 refunded 10000'],
    ],
    [
      'refunds of two charges of one intent, each cumulative by itself',
      [
        cardRefunded('pi_1', 25_000, 'ch_1'),
        cardRefunded('pi_1', 25_000, 'ch_2'),
        cardRefunded('pi_1', 30_000, 'ch_1'),
      ],
      ['pi_1 refunded 25000', 'pi_1 refunded 25000', 'pi_1 refunded 5000'],
    ],
    [
      'captures in parts at Stripe, with a refund between them and an earlier failure behind them',
      [
        cardSucceeded('pi_1', 50_000),
        cardRefunded('pi_1', 10_000),
        cardSucceeded('pi_1', 125_000),
        cardFailed(),
      ],
      ['pi_1 captured 50000', 'pi_1 refunded 10000', 'pi_1 captured 75000'],
    ],
    [
      'captures and refunds in parts at Vipps MobilePay, two of the same amount among them',
      [
        walletPart('CAPTURED', 'psp-1', 30_000),
        walletPart('CAPTURED', 'psp-2', 30_000),
        walletPart('REFUNDED', 'psp-3', 10_000),
        walletPart('REFUNDED', 'psp-4', 20_000),
      ],
      [
        'wallet-1 captured 30000',
        'wallet-1 captured 30000',
        'wallet-1 refunded 10000',
        'wallet-1 refunded 20000',
      ],
    ],
    [
      'the same part under other event ids and in other bodies',
      [
        cardRefunded(),
        { ...cardRefunded(), livemode: true },
        walletPart('CAPTURED', 'psp-1', 30_000),
        { ...walletPart('CAPTURED', 'psp-1', 30_000), timestamp: '2026-02-21T18:45:02Z' },
      ],
      ['pi_1 refunded 25000', 'wallet-1 captured 30000'],
    ],
  ])('each part is emitted once: %s', async ([, bodies, expected], { bus }) => {
    await createPaymentIntent(bus.db, card);
    await createPaymentIntent(bus.db, wallet);
    await hand(bus, ...bodies);
    // By intent: the two providers' lanes run side by side.
    expect((await told(bus.db)).toSorted(byIntent)).toEqual(expected);
    for (const provider of ['cardpayments', 'walletpayments'] as const) {
      await bus.replay(`webhook.${provider}.received`, { include: 'all' });
    }
    expect(await bus.drain()).toMatchObject({ delivered: bodies.length });
    expect((await told(bus.db)).toSorted(byIntent)).toEqual(expected);
    expect(await contradictions(bus.db)).toEqual([]);
    for (const { topic, payload } of await rows<{
      topic: 'payment.captured' | 'payment.refunded';
      payload: object;
    }>(bus.db, `select topic, payload from events where topic in ('payment.captured', 'payment.refunded')`)) {
      expect(catalog[topic].payload.strict().parse(payload)).toEqual(payload);
    }
  });

  test('the parts add up to what the provider says, in every order of arrival', async ({ bus }) => {
    const bodies = [
      cardSucceeded(),
      cardRefunded('pi_1', 25_000),
      cardRefunded('pi_1', 60_000),
      cardFailed(),
    ];
    for (const [number, order] of orders(bodies).entries()) {
      const id = `pi_order_${number}`;
      await createPaymentIntent(bus.db, { ...card, id });
      await hand(
        bus,
        ...order.map((body) => JSON.parse(JSON.stringify(body).replaceAll('pi_1', id)) as Body),
      );
      const words = (await told(bus.db)).filter((line) => line.startsWith(`${id} `));
      const sum = (state: string) =>
        words.reduce(
          (total, line) => total + (line.includes(` ${state} `) ? Number(line.split(' ')[2]) : 0),
          0,
        );
      expect([sum('captured'), sum('refunded')], words.join()).toEqual([125_000, 60_000]);
      expect(words.filter((line) => line.includes('captured'))).toHaveLength(1);
    }
  });

  test('a part is emitted once even when the events of the earlier parts were pruned', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await hand(bus, cardSucceeded(), cardRefunded('pi_1', 25_000));
    await rows(bus.db, 'truncate events, awaiting_fan_out, lanes, home_lanes, deliveries, backlog');
    await hand(bus, cardSucceeded(), cardRefunded('pi_1', 25_000), cardRefunded('pi_1', 40_000));
    expect(await told(bus.db)).toEqual(['pi_1 refunded 15000']);
  });

  test('a Vipps MobilePay capture without a pspReference is dead-lettered', async ({ bus }) => {
    await createPaymentIntent(bus.db, wallet);
    const { pspReference: _, ...body } = walletPart('CAPTURED', 'psp-1', 30_000);
    await webhookOf(bus.db, 'walletpayments', body);
    expect(await bus.drain()).toMatchObject({ deadLettered: 1 });
  });
});

describe('beside a release that emits each outcome once and writes down no parts', () => {
  /** What that release did with a webhook: the state, and the event with the intent's id as its dedupe key. */
  async function handledBefore(
    bus: TestBus,
    intent: typeof card,
    state: 'captured' | 'refunded',
    body: Body,
    amountMinor: number,
  ): Promise<void> {
    const causationId = await webhookOf(bus.db, intent.provider, body);
    await rows(bus.db, 'update payment_intents set state = $1 where id = $2', [state, intent.id]);
    const { id: intentId, bookingId, provider, currency } = intent;
    await emit(
      bus.db,
      `payment.${state}`,
      { intentId, bookingId, provider, currency, amountMinor, providerEventId: 'evt_before' },
      { dedupeKey: intentId, causationId },
    );
  }

  test('what that release emitted is not emitted again, and the next part is emitted with what it adds', async ({
    bus,
  }) => {
    await createPaymentIntent(bus.db, card);
    await createPaymentIntent(bus.db, wallet);
    await handledBefore(bus, card, 'captured', cardSucceeded(), 125_000);
    await handledBefore(bus, card, 'refunded', cardRefunded('pi_1', 25_000), 25_000);
    await handledBefore(bus, wallet, 'captured', walletPart('CAPTURED', 'psp-1', 30_000), 30_000);
    // The webhooks of before are handed over again, as a replay would.
    await bus.drain();
    await hand(
      bus,
      cardRefunded('pi_1', 60_000),
      walletPart('CAPTURED', 'psp-2', 20_000),
      walletPart('CAPTURED', 'psp-1', 30_000),
    );
    expect((await told(bus.db)).toSorted(byIntent)).toEqual([
      'pi_1 captured 125000',
      'pi_1 refunded 25000',
      'pi_1 refunded 35000',
      'wallet-1 captured 30000',
      'wallet-1 captured 20000',
    ]);
  });

  test('a part that the older release recorded without a pspReference does not prevent later parts', async ({
    bus,
  }) => {
    await createPaymentIntent(bus.db, wallet);
    const { pspReference: _, ...body } = walletPart('CAPTURED', 'psp-1', 30_000);
    await handledBefore(bus, wallet, 'captured', body, 30_000);
    // Handed over again it is a dead letter.
    await bus.drain();
    await hand(bus, walletPart('CAPTURED', 'psp-2', 20_000), walletPart('CAPTURED', 'psp-2', 20_000));
    expect(await told(bus.db)).toEqual(['wallet-1 captured 30000', 'wallet-1 captured 20000']);
  });

  test("the provider's total is used where the event of the earlier part was pruned", async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await handledBefore(bus, card, 'refunded', cardRefunded('pi_1', 25_000), 25_000);
    await rows(bus.db, 'truncate events, awaiting_fan_out, lanes, home_lanes, deliveries, backlog');
    const { data, type } = cardRefunded('pi_1', 60_000);
    await hand(bus, { type, data: { ...data, previous_attributes: { amount_refunded: 25_000 } } });
    expect(await told(bus.db)).toEqual(['pi_1 refunded 35000']);
  });

  test('that release does not emit a capture again that this one emitted', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await hand(bus, cardSucceeded(), cardRefunded());
    // What that release does with the capture when it comes again: the intent is refunded by now, so it emits.
    await handledBefore(bus, card, 'captured', cardSucceeded(), 125_000);
    expect(await told(bus.db)).toEqual(['pi_1 captured 125000', 'pi_1 refunded 25000']);
  });
});

/** Keeps the order of each intent's. */
function byIntent(one: string, other: string): number {
  return one.split(' ')[0]!.localeCompare(other.split(' ')[0]!);
}
