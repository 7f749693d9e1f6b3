import { describe, expect } from 'vitest';
import type { TestBus } from 'postbud/testing';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { createPaymentIntent, payments } from '../../lib/components/payments.ts';
import sequences from '../fixtures/payments.json' with { type: 'json' };
import { contradictions, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import {
  card,
  cardRefunded,
  cardSucceeded,
  told,
  wallet,
  walletCallback,
  webhookOf,
} from '../support/payments.ts';
import { eventsOf, testOn } from '../support/test-bus.ts';

const test = testOn(payments);

/** The posts of a sequence as webhooks. Those of Vipps MobilePay are in short. */
function bodiesOf({ posts }: (typeof sequences)[number]): Record<string, unknown>[] {
  return posts.map((post, index) =>
    'name' in post
      ? walletCallback(post.name, {
          pspReference: `psp-${index}`,
          amount: { currency: 'NOK', value: post.value },
          timestamp: '2026-02-21T18:45:02Z',
        })
      : (JSON.parse(
          JSON.stringify({ created: 1_771_581_600 + index, ...post }).replaceAll('<intent>', card.id),
        ) as Record<string, unknown>),
  );
}

/** What a ledger makes of the events. */
async function netOf(bus: TestBus): Promise<number> {
  const signs: Readonly<Record<string, number>> = {
    'payment.captured': 1,
    'payment.refunded': -1,
    'payment.refund.failed': 1,
  };
  const found = await eventsOf(bus, 'payment.');
  return found.reduce((net, { topic, payload }) => {
    const amount = Number('amountMinor' in payload && payload.amountMinor);
    return net + (signs[topic] ?? 0) * amount;
  }, 0);
}

describe('a sequence of webhooks means what its provider means', () => {
  /** What is told of the intent, how many deliveries are dead letters, and what is set aside. */
  const expected: Readonly<Record<string, readonly [told: string[], dead: number, aside: number]>> = {
    'A reservation is cancelled': [['reservation.released 62500'], 0, 0],
    '40,000 of 62,500': [['captured 40000'], 0, 0],
    'A refund fails': [['captured 62500', 'refunded 62500', 'refund.failed 62500'], 0, 0],
    'The same news': [['captured 62500', 'refunded 30000', 'refund.failed 20000', 'refunded 5000'], 0, 0],
    'A wallet reservation': [['reserved 62500', 'reservation.released 62500'], 0, 0],
    'Another currency': [[], 1, 0],
    'More is refunded': [['captured 10000'], 1, 0],
  };

  test.for(sequences)('$name', async (sequence, { bus }) => {
    const of = sequence.provider === 'cardpayments' ? card : wallet;
    await createPaymentIntent(bus.db, { ...of, ...sequence.intent });
    const bodies = bodiesOf(sequence);
    for (const body of bodies) await webhookOf(bus.db, of.provider, body);
    const [words, dead, aside] = Object.entries(expected).find(([name]) =>
      sequence.name.startsWith(name),
    )![1];
    const outcome = { delivered: bodies.length - dead, deadLettered: dead };
    expect(await bus.drain()).toMatchObject(outcome);
    const check = async () => {
      expect((await told(bus.db)).map((line) => line.slice(of.id.length + 1))).toEqual(words);
      expect(await netOf(bus)).toBe(sequence.net);
      expect(await rows(bus.db, 'select from webhooks_set_aside')).toHaveLength(aside);
    };
    await check();
    await bus.replay(`webhook.${of.provider}.received`, { include: 'all' });
    expect(await bus.drain()).toMatchObject(outcome);
    await check();
    expect(await contradictions(bus.db)).toEqual([]);
    for (const { topic, payload } of await eventsOf(bus, 'payment.')) {
      expect(catalog[topic].payload.parse(payload)).toEqual(payload);
      if (topic !== 'payment.intent.created') expect(payload).toHaveProperty('occurredAt');
    }
  });
});

describe('the parts of a payment', () => {
  test('a part is emitted once even when the events of the earlier parts were pruned', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await hand(bus, cardSucceeded(), cardRefunded('pi_1', 25_000));
    await forgetEvents(bus.db);
    await hand(bus, cardSucceeded(), cardRefunded('pi_1', 25_000), cardRefunded('pi_1', 40_000));
    expect(await told(bus.db)).toEqual(['pi_1 refunded 15000']);
  });

  test('a Vipps MobilePay capture without a pspReference is dead-lettered', async ({ bus }) => {
    await createPaymentIntent(bus.db, wallet);
    const { pspReference: _, ...body } = walletCallback('CAPTURED');
    await webhookOf(bus.db, 'walletpayments', body);
    expect(await bus.drain()).toMatchObject({ deadLettered: 1 });
  });
});

/** Has the webhooks of the card intent handled in this order. */
async function hand(bus: TestBus, ...bodies: readonly Record<string, unknown>[]): Promise<void> {
  for (const body of bodies) await webhookOf(bus.db, 'cardpayments', body);
  expect(await bus.drain()).toMatchObject({ delivered: bodies.length, deadLettered: 0, errors: [] });
}
