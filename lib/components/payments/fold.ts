import type { FailedRefund, PaymentPart, PaymentStatement, RefundTotal } from '../../../drizzle/schema.ts';
import { partOf, put, requireAtMost, requireCurrency, sumOf } from './recorded-intent.ts';
import type { RecordedIntent } from './recorded-intent.ts';

/** What is new in a statement: an event of the catalog, without the fields that all of them have. */
export type Fact = { readonly at: string | null } & (
  | ({ readonly topic: 'payment.reserved'; readonly captureUntil?: string } & Money)
  | ({ readonly topic: 'payment.captured' | 'payment.refunded' } & Money)
  | { readonly topic: 'payment.failed'; readonly reason: string }
  | ({ readonly topic: 'payment.reservation.released'; readonly reason: string } & Money)
  | ({ readonly topic: 'payment.refund.failed'; readonly refundId: string; readonly reason: string } & Money)
  | ({
      readonly topic: 'payment.dispute.opened';
      readonly disputeId: string;
      readonly reason: string;
      readonly evidenceUntil?: string;
    } & Money)
  | ({
      readonly topic: 'payment.dispute.closed';
      readonly disputeId: string;
      readonly outcome: 'won' | 'lost' | 'withdrawn';
    } & Money)
);

interface Money {
  readonly amountMinor: number;
  readonly currency: string;
}

export interface Folded {
  readonly intent: RecordedIntent;
  readonly facts: readonly Fact[];
}

/**
 * Says what is new in what a provider states, and records it.
 *
 * It is pure, and looks at nothing but amounts and ids: whatever the order, and however often a statement is repeated, the
 * amounts of the facts add up to the same.
 *
 * @param isAccepted whether an operator has accepted what is not plausible.
 * @throws NotPlausible
 */
export function fold(
  intent: RecordedIntent,
  statements: readonly PaymentStatement[],
  isAccepted = false,
  event?: string,
): Folded {
  let folded: Folded = { intent, facts: [] };
  for (const statement of statements) {
    const next = step(folded.intent, statement, isAccepted, event);
    const ended = releaseIn(next.intent, statement.at);
    folded = { intent: ended.intent, facts: [...folded.facts, ...next.facts, ...ended.facts] };
  }
  return folded;
}

function step(
  intent: RecordedIntent,
  statement: PaymentStatement,
  isAccepted: boolean,
  event: string | undefined,
): Folded {
  switch (statement.kind) {
    case 'reserved':
      return reserve(intent, statement, isAccepted);
    case 'captured':
      return capture(intent, statement, isAccepted);
    case 'refunded':
      return refundTotal(intent, statement, isAccepted, event);
    case 'refund':
      return refundOne(intent, statement, isAccepted);
    case 'failed':
      return fail(intent, statement);
    case 'ended':
      return end(intent, statement, isAccepted);
    case 'dispute':
      return dispute(intent, statement, isAccepted);
  }
}

type Of<Kind extends PaymentStatement['kind']> = Extract<PaymentStatement, { kind: Kind }>;

function reserve(intent: RecordedIntent, statement: Of<'reserved'>, isAccepted: boolean): Folded {
  const { at, amountMinor, currency, captureUntil } = statement;
  const known = partOf(intent, 'reserved');
  const added = amountMinor - (known?.amountMinor ?? 0);
  // What arrives after the end of a reservation, or after its capture, is old.
  if (added <= 0 || partOf(intent, 'over')) return nothing(intent);
  if (!isAccepted) {
    requireCurrency(intent, currency);
    requireAtMost(amountMinor, intent.amountMinor, 'reservations', 'the intent’s');
  }
  const recorded = put(intent, { state: 'reserved', part: '', amountMinor });
  if (sumOf(intent, 'captured') > 0) return nothing(recorded);
  return {
    // The attempt that failed before it no longer counts.
    intent: { ...recorded, state: intent.state === 'failed' ? 'created' : intent.state },
    facts: [
      { topic: 'payment.reserved', at, amountMinor: added, currency, ...(captureUntil && { captureUntil }) },
    ],
  };
}

function capture(intent: RecordedIntent, statement: Of<'captured'>, isAccepted: boolean): Folded {
  const { at, part, amountMinor, currency, isTotal } = statement;
  const known = partOf(intent, 'captured', part);
  const added = addedBy(amountMinor, isTotal, known);
  if (added <= 0) return nothing(intent);
  if (!isAccepted) {
    requireCurrency(intent, currency);
    const total = sumOf(intent, 'captured') + added;
    requireAtMost(total, intent.amountMinor, 'captures', 'the intent’s');
    const reserved = partOf(intent, 'reserved')?.amountMinor ?? total;
    requireAtMost(total, reserved, 'captures', 'the reserved', { mayBecomePlausible: true });
  }
  const recorded = put(intent, { state: 'captured', part, amountMinor });
  return {
    // A late message about a capture does not undo a refund.
    intent: { ...recorded, state: intent.state === 'refunded' ? 'refunded' : 'captured' },
    facts: [{ topic: 'payment.captured', at, amountMinor: added, currency }],
  };
}

function addedBy(amountMinor: number, isTotal: boolean, known: PaymentPart | undefined): number {
  if (!known) return amountMinor;
  return isTotal ? amountMinor - known.amountMinor : 0;
}

function refundTotal(
  intent: RecordedIntent,
  statement: Of<'refunded'>,
  isAccepted: boolean,
  event: string | undefined,
): Folded {
  const { at, part, amountMinor, currency, isTotal, mostMinor = Infinity } = statement;
  const known = partOf(intent, 'refunded', part);
  const totals = totalsOf(known);
  const isSame = (one: RefundTotal, index: number) =>
    one.amountMinor === amountMinor &&
    one.at === at &&
    (one.event === undefined || one.event === event || !hasFailedSince(intent, part, index, at));
  const isKnown = isTotal ? totals.some(isSame) : known;
  if (isKnown || amountMinor === 0) return nothing(intent);
  const all = [...totals, { amountMinor, at, ...(event !== undefined && { event }) }];
  const refunded = isTotal
    ? ({ state: 'refunded', part, amountMinor: everRefunded(intent, part, all), totals: all } as const)
    : ({ state: 'refunded', part, amountMinor } as const);
  const told = tellRefunded(intent, statement, refunded);
  if (!isAccepted && told.facts.length > 0) {
    requireCurrency(intent, currency);
    requireAtMost(amountMinor, mostMinor, 'refunds', 'its own charge’s captured');
    requireAtMost(standingIn(told.intent), intent.amountMinor, 'refunds', 'the intent’s');
    requireCaptured(told.intent);
  }
  return told;
}

/** Whether a refund failed after a total had arrived, at a time that does not say more: then the same total is another refund. */
function hasFailedSince(intent: RecordedIntent, charge: string, index: number, at: string | null): boolean {
  return intent.parts.some(
    (one) =>
      one.state === 'refund' &&
      one.charge === charge &&
      one.failed !== undefined &&
      one.failed.totalsBefore > index &&
      (at === null || one.failed.at === null || one.failed.at === at),
  );
}

/**
 * Records a single refund at Stripe, which is part of its charge's total. Where it has failed, that total is without it from
 * then on.
 */
function refundOne(intent: RecordedIntent, statement: Of<'refund'>, isAccepted: boolean): Folded {
  const { at, part, charge, amountMinor, currency, failure } = statement;
  const known = partOf(intent, 'refund', part);
  const totals = totalsOf(partOf(intent, 'refunded', charge));
  const failed = failure === undefined ? known?.failed : earlier(known?.failed, at, totals.length);
  if (known && failed === known.failed) return nothing(intent);
  const recorded = put(intent, { state: 'refund', part, charge, amountMinor, ...(failed && { failed }) });
  const ever = everRefunded(recorded, charge, totals);
  const told = tellRefunded(recorded, statement, {
    state: 'refunded',
    part: charge,
    amountMinor: ever,
    totals,
  });
  if (!isAccepted && (!known || (failed && !known.failed))) {
    requireCurrency(intent, currency);
    requireAtMost(
      amountMinor,
      known?.amountMinor ?? intent.amountMinor,
      'refunds',
      known ? 'the refund’s' : 'the intent’s',
    );
    requireCaptured(told.intent);
  }
  if (failure === undefined || known?.failed) return told;
  const reason = failure;
  return {
    intent: told.intent,
    facts: [
      ...told.facts,
      { topic: 'payment.refund.failed', at, refundId: part, amountMinor, currency, reason },
    ],
  };
}

/** Several webhooks tell of one failure; the first of them says when it was. */
function earlier(known: Refund['failed'], at: string | null, totalsBefore: number): FailedRefund {
  if (!known) return { at, totalsBefore };
  return at !== null && known.at !== null && at < known.at ? { ...known, at } : known;
}

type Refund = Extract<PaymentPart, { state: 'refund' }>;
type Refunded = Extract<PaymentPart, { state: 'refunded' }>;

/** Records what was ever refunded of a part, and tells what that adds. */
function tellRefunded(
  intent: RecordedIntent,
  { at, currency }: Of<'refunded' | 'refund'>,
  refunded: Refunded,
): Folded {
  const before = partOf(intent, 'refunded', refunded.part)?.amountMinor ?? 0;
  const recorded = put(intent, { ...refunded, amountMinor: Math.max(before, refunded.amountMinor) });
  const added = refunded.amountMinor - before;
  if (added <= 0) return nothing(recorded);
  return {
    intent: { ...recorded, state: 'refunded' },
    facts: [{ topic: 'payment.refunded', at, amountMinor: added, currency }],
  };
}

/** What is refunded, without what failed. */
function standingIn(intent: RecordedIntent): number {
  const failed = intent.parts.filter((part) => part.state === 'refund' && part.failed);
  return sumOf(intent, 'refunded') - failed.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
}

/** @throws NotPlausible until the capture, or the failure of another refund, has arrived. */
function requireCaptured(intent: RecordedIntent): void {
  requireAtMost(standingIn(intent), sumOf(intent, 'captured'), 'refunds', 'the captured', {
    mayBecomePlausible: true,
  });
}

/** The totals that were reported of a charge. Release 1.1 keeps the largest only. */
function totalsOf(known: Refunded | undefined): readonly RefundTotal[] {
  return known?.totals ?? (known ? [{ amountMinor: known.amountMinor, at: null }] : []);
}

/**
 * Says how much was ever refunded of a charge, including what failed later: Stripe's totals are without that, so the largest
 * total to which it is added. The single refunds may be more, where their totals have not come.
 */
function everRefunded(intent: RecordedIntent, charge: string, totals: readonly RefundTotal[]): number {
  const refunds = intent.parts
    .filter((part) => part.state === 'refund')
    .filter((one) => one.charge === charge);
  const byTotals = totals.map((total, index) =>
    refunds
      .filter((refund) => refund.failed && isWithout(totals, index, refund))
      .reduce((sum, refund) => sum + refund.amountMinor, total.amountMinor),
  );
  const byRefunds = refunds.reduce((sum, refund) => sum + refund.amountMinor, 0);
  return Math.max(0, byRefunds, ...byTotals);
}

/**
 * Whether a total was reported after a refund had failed, and so is without it. Where the times do not say, the order of
 * arrival does, unless the refund was in no total before: then this is the one that reported it.
 */
function isWithout(totals: readonly RefundTotal[], index: number, { amountMinor, failed }: Refund): boolean {
  const { at: totalAt } = totals[index]!;
  const { at = null, totalsBefore = 0 } = failed ?? {};
  if (totalAt !== null && at !== null && totalAt !== at) return totalAt > at;
  return (
    index >= totalsBefore && totals.slice(0, totalsBefore).some((total) => total.amountMinor >= amountMinor)
  );
}

/** Tells of a failed attempt once, and not after money was reserved: providers promise no order. */
function fail(intent: RecordedIntent, { at, reason }: Of<'failed'>): Folded {
  if (intent.state !== 'created' || partOf(intent, 'reserved') || partOf(intent, 'over'))
    return nothing(intent);
  return { intent: { ...intent, state: 'failed' }, facts: [{ topic: 'payment.failed', at, reason }] };
}

/** Records what was released; `releaseIn` tells of it. Before a reservation, the end is a failed payment. */
function end(
  intent: RecordedIntent,
  { at, reason, wasReserved, amountMinor, currency }: Of<'ended'>,
  isAccepted: boolean,
): Folded {
  if (partOf(intent, 'over') || sumOf(intent, 'captured') > 0) return nothing(intent);
  if (!isAccepted) {
    requireCurrency(intent, currency ?? intent.currency.toUpperCase());
    requireAtMost(amountMinor ?? 0, intent.amountMinor, 'releases', 'the intent’s');
    requireAtMost(amountMinor ?? 0, reservedOf(intent), 'releases', 'the reserved', {
      mayBecomePlausible: true,
    });
  }
  const hasReserved = partOf(intent, 'reserved') !== undefined;
  if (!hasReserved && (wasReserved === false || (wasReserved === null && intent.state === 'failed'))) {
    const failed = fail(intent, { kind: 'failed', at, reason });
    return { ...failed, intent: put(failed.intent, OVER) };
  }
  const released = Math.max(amountMinor ?? reservedOf(intent), partOf(intent, 'released')?.amountMinor ?? 0);
  return nothing(put(intent, { state: 'released', part: '', amountMinor: released, reason }));
}

const OVER = { state: 'over', part: '', amountMinor: 0 } as const;

/** Tells once that a reservation is gone: all of it was released, and nothing was captured. */
function releaseIn(intent: RecordedIntent, at: string | null): Folded {
  const released = partOf(intent, 'released');
  const isGone = released && released.amountMinor >= reservedOf(intent) && sumOf(intent, 'captured') === 0;
  if (!isGone || partOf(intent, 'over')) return nothing(intent);
  const { amountMinor, reason } = released;
  return {
    intent: { ...put(intent, OVER), state: 'failed' },
    facts: [{ topic: 'payment.reservation.released', at, amountMinor, currency: intent.currency, reason }],
  };
}

/** What is reserved; where that has not been reported, what was asked for. */
function reservedOf(intent: RecordedIntent): number {
  return partOf(intent, 'reserved')?.amountMinor ?? intent.amountMinor;
}

/** Tells that a dispute was opened, whichever webhook of it comes first, and how it was decided, again if that changes. */
function dispute(intent: RecordedIntent, statement: Of<'dispute'>, isAccepted: boolean): Folded {
  const { at, part, amountMinor, currency, reason, evidenceUntil, outcome } = statement;
  const known = partOf(intent, 'dispute', part);
  const common = { at, disputeId: part, amountMinor, currency };
  const facts: Fact[] = [];
  if (!known)
    facts.push({
      topic: 'payment.dispute.opened',
      ...common,
      reason,
      ...(evidenceUntil && { evidenceUntil }),
    });
  const isNews =
    outcome !== undefined &&
    outcome !== known?.outcome &&
    (known?.outcome === undefined || (at ?? '') > (known.decidedAt ?? ''));
  if (isNews) facts.push({ topic: 'payment.dispute.closed', ...common, outcome });
  if (facts.length === 0) return nothing(intent);
  if (!isAccepted) requireCurrency(intent, currency);
  const decision = isNews ? { outcome, decidedAt: at } : {};
  return { intent: put(intent, { ...known, state: 'dispute', part, amountMinor, ...decision }), facts };
}

function nothing(intent: RecordedIntent): Folded {
  return { intent, facts: [] };
}
