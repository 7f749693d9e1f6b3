import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { fold } from '../../lib/components/payments/fold.ts';
import type { Fact } from '../../lib/components/payments/fold.ts';
import { NotPlausible } from '../../lib/components/payments/recorded-intent.ts';
import type { RecordedIntent } from '../../lib/components/payments/recorded-intent.ts';
import { providerStatements } from '../../lib/components/payments/provider-statements.ts';
import type { PaymentProvider } from '../../lib/components/payments/provider-statements.ts';
import {
  cardDispute,
  cardFailed,
  cardOf,
  cardRefund,
  cardRefunded,
  cardReserved,
  cardSucceeded,
  walletPart,
} from '../support/payments.ts';

type Body = Readonly<Record<string, unknown>>;

const NEW: RecordedIntent = { amountMinor: 125_000, currency: 'NOK', state: 'created', parts: [] };

/** Hands webhooks over one by one, as the handler does: what may become plausible waits, and is tried after each that is taken. */
function take(bodies: readonly Body[], intent = NEW) {
  let current = intent;
  let waiting: Body[] = [];
  const facts: Fact[] = [];
  const refused: string[] = [];
  const isTaken = (body: Body): boolean => {
    const event = typeof body['id'] === 'string' ? body['id'] : undefined;
    const provider: PaymentProvider = 'type' in body ? 'cardpayments' : 'walletpayments';
    try {
      const folded = fold(current, providerStatements(provider, body)?.statements ?? [], false, event);
      current = folded.intent;
      facts.push(...folded.facts);
      return true;
    } catch (error) {
      if (!(error instanceof NotPlausible)) throw error;
      if (error.mayBecomePlausible) return false;
      refused.push(error.message);
      return true;
    }
  };
  for (const body of bodies) {
    waiting.push(body);
    for (let left = -1; left !== waiting.length;) {
      left = waiting.length;
      waiting = waiting.filter((one) => !isTaken(one));
    }
  }
  return { intent: current, facts, refused, waiting };
}

/** The facts as words: `captured 125000`. */
const words = (facts: readonly Fact[]) =>
  facts.map((fact) =>
    [fact.topic.slice('payment.'.length), 'amountMinor' in fact ? fact.amountMinor : fact.reason].join(' '),
  );

/** What the facts add up to, by topic. */
function sums(facts: readonly Fact[]): Readonly<Record<string, number>> {
  const sum: Record<string, number> = {};
  for (const fact of facts)
    sum[fact.topic] = (sum[fact.topic] ?? 0) + ('amountMinor' in fact ? fact.amountMinor : 1);
  return sum;
}

const BEFORE_BASIL = { api_version: '2025-02-24.acacia' };
const BASIL = { api_version: '2025-03-31.basil' };

/** At this second. */
const at = (created: number, body: Body): Body => ({ ...body, created });

const refundedOf = (captured: number, refunded: number) =>
  cardOf('charge.refunded', {
    id: 'ch_1',
    payment_intent: 'pi_1',
    amount: 125_000,
    amount_captured: captured,
    captured: captured > 0,
    amount_refunded: refunded,
  });

const cancelled = (more: object = {}) =>
  cardOf('payment_intent.canceled', { id: 'pi_1', status: 'canceled', amount: 125_000, ...more });

const wallet = (name: string, value: number, pspReference = `psp-${name}`) =>
  walletPart(name, pspReference, value);

describe('what a provider states of a payment becomes', () => {
  test.for<[what: string, bodies: Body[], expected: string[]]>([
    ['a reservation at Stripe', [cardReserved(125_000)], ['reserved 125000']],
    [
      'a reservation that grows, by what it adds',
      [cardReserved(100_000), cardReserved(125_000), cardReserved(100_000)],
      ['reserved 100000', 'reserved 25000'],
    ],
    [
      'several captures of one reservation',
      [cardReserved(125_000), cardReserved(75_000, 50_000), cardReserved(25_000, 100_000), cardSucceeded()],
      ['reserved 125000', 'captured 50000', 'captured 50000', 'captured 25000'],
    ],
    [
      'a capture that the charge reports, and then the intent',
      [
        cardOf('charge.captured', { id: 'ch_1', payment_intent: 'pi_1', amount_captured: 40_000 }),
        cardSucceeded('pi_1', 40_000),
      ],
      ['captured 40000'],
    ],
    [
      'a capture whose own webhook has not come, by a refund of it',
      [refundedOf(125_000, 5000)],
      ['captured 125000', 'refunded 5000'],
    ],
    [
      'what was released before basil, whose charge says of its capture only that there was none',
      [
        {
          ...cardOf('charge.refunded', {
            id: 'ch_1',
            payment_intent: 'pi_1',
            amount: 125_000,
            amount_captured: null,
            captured: false,
            amount_refunded: 125_000,
          }),
          ...BEFORE_BASIL,
        },
      ],
      ['reservation.released 125000'],
    ],
    [
      'a refund before basil while more can be captured',
      [cardReserved(105_000, 20_000), refundedOf(20_000, 5000)].map((body) => ({ ...body, ...BEFORE_BASIL })),
      ['reserved 125000', 'captured 20000', 'refunded 5000'],
    ],
    [
      'an intent that was abandoned before 2022-11-15, when intents listed their charges',
      [{ ...cancelled({ charges: { data: [] } }), api_version: '2022-08-01' }],
      ['failed cancelled'],
    ],
    [
      'a refund that fails and is made again with the same total, also where no time tells them apart',
      [
        cardSucceeded(),
        { ...cardRefunded('pi_1', 30_000), id: 'evt_1' },
        cardRefund('re_1', 30_000, 'failed', 'refund.failed'),
        { ...cardRefunded('pi_1', 30_000), id: 'evt_2' },
        { ...cardRefunded('pi_1', 30_000), id: 'evt_2' },
      ],
      ['captured 125000', 'refunded 30000', 'refund.failed 30000', 'refunded 30000'],
    ],
    [
      'what was released before basil, which is no refund: nothing was captured',
      [
        { ...refundedOf(0, 125_000), ...BEFORE_BASIL },
        { ...cancelled(), ...BEFORE_BASIL },
      ],
      ['reservation.released 125000'],
    ],
    [
      'the same in the other order',
      [
        { ...cancelled(), ...BEFORE_BASIL },
        { ...refundedOf(0, 125_000), ...BEFORE_BASIL },
      ],
      ['reservation.released 125000'],
    ],
    [
      'the released rest of a partial capture before basil, which is no refund',
      [cardSucceeded('pi_1', 80_000), { ...refundedOf(80_000, 45_000), ...BEFORE_BASIL }],
      ['captured 80000'],
    ],
    [
      'a true refund after that rest',
      [cardSucceeded('pi_1', 80_000), { ...refundedOf(80_000, 55_000), ...BEFORE_BASIL }],
      ['captured 80000', 'refunded 10000'],
    ],
    [
      'the same body since basil, which is a true refund',
      [cardSucceeded('pi_1', 80_000), { ...refundedOf(80_000, 45_000), ...BASIL }],
      ['captured 80000', 'refunded 45000'],
    ],
    [
      'a refund object of what was released before basil, which is no refund either',
      [cardSucceeded('pi_1', 80_000), { ...cardRefund('re_1', 45_000, 'succeeded'), ...BEFORE_BASIL }],
      ['captured 80000'],
    ],
    [
      'a single refund, and then its charge’s total',
      [cardSucceeded(), cardRefund('re_1', 5000, 'pending', 'refund.created'), cardRefunded('pi_1', 5000)],
      ['captured 125000', 'refunded 5000'],
    ],
    [
      'a refund that fails, told in all three forms',
      [
        cardSucceeded(),
        cardRefunded('pi_1', 125_000),
        cardRefund('re_1', 125_000, 'failed', 'charge.refund.updated'),
        cardRefund('re_1', 125_000, 'failed', 'refund.updated'),
        cardRefund('re_1', 125_000, 'failed', 'refund.failed'),
      ],
      ['captured 125000', 'refunded 125000', 'refund.failed 125000'],
    ],
    [
      'a refund that is cancelled, and another one',
      [
        cardSucceeded(),
        cardRefunded('pi_1', 30_000),
        cardRefund('re_1', 20_000, 'canceled', 'charge.refund.updated'),
        cardRefunded('pi_1', 15_000),
      ],
      ['captured 125000', 'refunded 30000', 'refund.failed 20000', 'refunded 5000'],
    ],
    [
      'a refund that needs the payer’s action first, which is none yet',
      [cardSucceeded(), cardRefund('re_1', 5000, 'requires_action', 'refund.created')],
      ['captured 125000'],
    ],
    [
      'a cancelled reservation at Stripe',
      [cardReserved(125_000), cancelled()],
      ['reserved 125000', 'reservation.released 125000'],
    ],
    [
      'an expired reservation, which Stripe then cancels',
      [
        cardReserved(125_000),
        cardOf('charge.expired', { id: 'ch_1', payment_intent: 'pi_1', amount: 125_000 }),
        cancelled({ cancellation_reason: 'expired' }),
      ],
      ['reserved 125000', 'reservation.released 125000'],
    ],
    [
      'a payment that is cancelled before anybody paid',
      [cancelled({ latest_charge: null })],
      ['failed cancelled'],
    ],
    [
      'a declined payment that is cancelled',
      [cardFailed(), cancelled({ latest_charge: 'ch_declined' })],
      ['failed expired_card'],
    ],
    [
      'a second attempt that succeeds',
      [cardFailed(), cardReserved(125_000), cardSucceeded()],
      ['failed expired_card', 'reserved 125000', 'captured 125000'],
    ],
    [
      'a decline that arrives after the reservation',
      [cardReserved(125_000), cardFailed()],
      ['reserved 125000'],
    ],
    [
      'a dispute that is won, whose webhooks come in any order',
      [cardDispute('warning_closed'), cardDispute('needs_response'), cardDispute('won', 9)],
      ['dispute.opened 125000', 'dispute.closed 125000', 'dispute.closed 125000'],
    ],
    [
      'a dispute whose money is withdrawn, and that is lost',
      [
        cardDispute('needs_response'),
        cardDispute('needs_response', 2, 'charge.dispute.funds_withdrawn'),
        cardDispute('under_review', 3, 'charge.dispute.updated'),
        cardDispute('lost', 4, 'charge.dispute.closed'),
      ],
      ['dispute.opened 125000', 'dispute.closed 125000'],
    ],
    [
      'a reservation at Vipps MobilePay, captured in parts, the rest released',
      [
        wallet('AUTHORIZED', 125_000),
        wallet('CAPTURED', 30_000, 'psp-1'),
        wallet('CAPTURED', 40_000, 'psp-2'),
        wallet('CANCELLED', 55_000),
      ],
      ['reserved 125000', 'captured 30000', 'captured 40000'],
    ],
    [
      'a reservation at Vipps MobilePay that is cancelled in full',
      [
        wallet('CREATED', 125_000),
        wallet('AUTHORIZED', 125_000),
        wallet('CANCELLED', 125_000),
        wallet('CANCELLED', 125_000, 'psp-9'),
      ],
      ['reserved 125000', 'reservation.released 125000'],
    ],
    [
      'its news in the other order',
      [wallet('CANCELLED', 125_000), wallet('AUTHORIZED', 125_000)],
      ['reservation.released 125000'],
    ],
    [
      'a smaller reservation that is cancelled in full, its news in the other order',
      [wallet('CANCELLED', 50_000), wallet('AUTHORIZED', 50_000)],
      ['reserved 50000', 'reservation.released 50000'],
    ],
    [
      'a reservation that expires',
      [wallet('AUTHORIZED', 125_000), wallet('EXPIRED', 125_000)],
      ['reserved 125000', 'reservation.released 125000'],
    ],
    [
      'a payment that expires before a reservation, once',
      [wallet('EXPIRED', 125_000), wallet('TERMINATED', 125_000), wallet('AUTHORIZED', 125_000)],
      ['failed expired'],
    ],
    ['a payment that the payer aborts', [wallet('ABORTED', 125_000)], ['failed aborted']],
    [
      'an operation that did not succeed',
      [
        { ...wallet('CAPTURED', 125_000), success: false },
        { ...wallet('CANCELLED', 125_000), success: false },
      ],
      [],
    ],
  ])('%s', ([, bodies, expected]) => {
    const { facts, refused, waiting, intent } = take(bodies);
    expect(words(facts)).toEqual(expected);
    expect([refused, waiting]).toEqual([[], []]);
    expect(take([...bodies, ...bodies.toReversed()], intent).facts).toEqual([]);
  });

  test.for(['JPY', 'KWD', 'ISK'])('amounts in %s are taken as they are sent', (currency) => {
    const body = cardOf('payment_intent.succeeded', {
      id: 'pi_1',
      amount_received: 12_345,
      currency: currency.toLowerCase(),
    });
    expect(words(take([body], { ...NEW, currency }).facts)).toEqual(['captured 12345']);
  });
});

describe('every fact has the provider’s time', () => {
  test.for<[body: Body, expected: string | null]>([
    [at(1_771_581_600, cardSucceeded()), '2026-02-20T10:00:00.000Z'],
    [{ ...cardSucceeded(), created: '2026-02-20T10:00:00Z' }, '2026-02-20T10:00:00.000Z'],
    [{ ...wallet('CAPTURED', 5), timestamp: '2026-02-21T19:45:02+01:00' }, '2026-02-21T18:45:02.000Z'],
    [{ ...wallet('CAPTURED', 5), timestamp: 'yesterday' }, null],
  ])('of %j', ([body, expected]) => {
    expect(take([body]).facts.map((fact) => fact.at)).toEqual([expected]);
  });
});

describe('what is not plausible is never money', () => {
  test.for<[what: string, bodies: Body[], message: string]>([
    [
      'another currency',
      [cardOf('payment_intent.succeeded', { id: 'pi_1', amount_received: 100, currency: 'eur' })],
      'the amount is in EUR, but the intent is in NOK',
    ],
    [
      'a reservation of more than the intent',
      [wallet('AUTHORIZED', 125_001)],
      'the reservations would add up to 125001, more than the intent’s 125000',
    ],
    [
      'a capture of more than the intent',
      [wallet('CAPTURED', 100_000, 'psp-1'), wallet('CAPTURED', 25_001, 'psp-2')],
      'the captures would add up to 125001, more than the intent’s 125000',
    ],
    [
      'a refund of more than its own charge captured',
      [cardSucceeded('pi_1', 40_000), refundedOf(40_000, 40_001)],
      'the refunds would add up to 40001, more than its own charge’s captured 40000',
    ],
    [
      'a refund of more than the intent',
      [wallet('CAPTURED', 10_000), wallet('REFUNDED', 199_999)],
      'the refunds would add up to 199999, more than the intent’s 125000',
    ],
    [
      'a failure of more than its refund',
      [
        cardSucceeded(),
        cardRefund('re_1', 30_000, 'succeeded', 'refund.created'),
        cardRefund('re_1', 62_500, 'failed', 'refund.failed'),
      ],
      'the refunds would add up to 62500, more than the refund’s 30000',
    ],
    [
      'the failure of a refund in another currency',
      [
        cardSucceeded(),
        cardRefund('re_1', 30_000, 'succeeded', 'refund.created'),
        cardOf('refund.failed', {
          id: 're_1',
          amount: 30_000,
          currency: 'eur',
          status: 'failed',
          charge: 'ch_1',
          payment_intent: 'pi_1',
        }),
      ],
      'the amount is in EUR, but the intent is in NOK',
    ],
    [
      'a release of more than the intent',
      [wallet('AUTHORIZED', 125_000), wallet('CANCELLED', 1_250_000)],
      'the releases would add up to 1250000, more than the intent’s 125000',
    ],
    [
      'a cancellation in another currency',
      [cardReserved(125_000), cancelled({ currency: 'eur' })],
      'the amount is in EUR, but the intent is in NOK',
    ],
  ])('%s is refused for good', ([, bodies, message]) => {
    const { facts, refused, waiting } = take(bodies);
    expect(refused).toEqual([message]);
    expect(waiting).toEqual([]);
    expect(words(facts)).toEqual(words(take(bodies.slice(0, -1)).facts));
  });

  test.for<[what: string, first: Body, then: Body, expected: string[]]>([
    [
      'a refund waits for its capture',
      wallet('REFUNDED', 10_000),
      wallet('CAPTURED', 10_000),
      ['captured 10000', 'refunded 10000'],
    ],
    [
      'a refund at Stripe waits for its capture',
      cardRefunded('pi_1', 10_000),
      cardSucceeded(),
      ['captured 125000', 'refunded 10000'],
    ],
  ])('%s, and is taken with it', ([, first, then, expected]) => {
    expect(take([first])).toMatchObject({ facts: [], waiting: [first] });
    expect(words(take([first, then]).facts)).toEqual(expected);
  });

  test('a capture of more than is reserved waits for the reservation to grow', () => {
    const captured = cardSucceeded('pi_1', 110_000);
    const waits = take([cardReserved(100_000), captured]);
    expect(waits.waiting).toEqual([captured]);
    expect(words(take([cardReserved(100_000), captured, cardReserved(125_000)]).facts)).toEqual([
      'reserved 100000',
      'reserved 25000',
      'captured 110000',
    ]);
  });

  test('what an operator has accepted is taken as it is', () => {
    const body = cardOf('payment_intent.succeeded', { id: 'pi_1', amount_received: 100, currency: 'eur' });
    const { statements } = providerStatements('cardpayments', body)!;
    expect(fold(NEW, statements, true).facts).toMatchObject([
      { topic: 'payment.captured', amountMinor: 100, currency: 'EUR' },
    ]);
  });
});

describe('whatever the order of arrival, and however often each comes, the facts add up to the same', () => {
  const STORIES: Readonly<Record<string, readonly Body[]>> = {
    'a refund that fails, and a smaller one': [
      at(1, cardReserved(125_000)),
      at(2, cardSucceeded()),
      at(3, cardRefunded('pi_1', 30_000)),
      at(4, cardRefund('re_1', 20_000, 'failed', 'charge.refund.updated')),
      at(4, cardRefund('re_1', 20_000, 'failed', 'refund.failed')),
      at(5, cardRefunded('pi_1', 15_000)),
    ],
    'all is refunded, fails, and is refunded again': [
      at(1, cardSucceeded()),
      at(2, cardRefund('re_1', 125_000, 'pending', 'refund.created')),
      at(2, cardRefunded('pi_1', 125_000)),
      at(3, cardRefund('re_1', 125_000, 'failed')),
      at(4, cardRefund('re_2', 125_000, 'succeeded', 'refund.created')),
      at(4, cardRefunded('pi_1', 125_000)),
    ],
    'captures and refunds in parts at Vipps MobilePay': [
      wallet('CAPTURED', 30_000, 'psp-1'),
      wallet('CAPTURED', 30_000, 'psp-2'),
      wallet('REFUNDED', 10_000, 'psp-3'),
      wallet('REFUNDED', 50_000, 'psp-4'),
      wallet('CANCELLED', 65_000),
    ],
    'several captures and refunds at Stripe': [
      at(1, cardReserved(75_000, 50_000)),
      at(2, cardRefunded('pi_1', 25_000)),
      at(3, cardSucceeded()),
      at(4, cardRefunded('pi_1', 60_000)),
      at(5, cardDispute('needs_response', 5)),
      at(6, cardDispute('lost', 6)),
    ],
    'a reservation before basil, captured in part, and refunded in part': [
      at(1, cardSucceeded('pi_1', 80_000)),
      at(1, { ...refundedOf(80_000, 45_000), ...BEFORE_BASIL }),
      at(2, { ...refundedOf(80_000, 50_000), ...BEFORE_BASIL }),
      at(3, { ...refundedOf(80_000, 125_000), ...BEFORE_BASIL }),
    ],
  };

  test.for(Object.entries(STORIES))('%s', ([, story]) => {
    const told = take(story);
    expect([told.refused, told.waiting]).toEqual([[], []]);
    const arrivals = fc
      .shuffledSubarray([...story, ...story], { minLength: story.length })
      .map((some) => [...some, ...story.filter((body) => !some.includes(body))]);
    fc.assert(
      fc.property(arrivals, (bodies) => {
        const { facts, waiting } = take(bodies);
        const { 'payment.reserved': _, ...expected } = sums(told.facts);
        const { 'payment.reserved': __, ...found } = sums(facts);
        expect([found, waiting]).toEqual([expected, []]);
      }),
      { numRuns: 300 },
    );
  });
});
