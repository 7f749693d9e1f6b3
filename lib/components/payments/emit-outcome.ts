import { eq, sql } from 'drizzle-orm';

import { paymentIntents } from '../../../drizzle/schema.ts';
import type { PaymentOutcome, PaymentPart } from '../../../drizzle/schema.ts';
import { emit } from '../../bus/outbox/emit.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { LockedIntent } from './locked-intent.ts';
import { providerOutcome } from './provider-outcome.ts';
import type { PaymentProvider } from './provider-outcome.ts';

/** The webhook that reports an outcome. */
export interface OutcomeSource {
  /** The id of its event on the bus. */
  readonly eventId: string;
  readonly providerEventId: string;
  readonly correlationId: string;
}

type Part = Extract<PaymentOutcome, { part: string }>;

/** Emits the event that an outcome adds to those of its intent, if any. @returns the changed intent. */
export async function emitOutcome(
  tx: Transaction,
  intent: LockedIntent,
  outcome: PaymentOutcome,
  by: OutcomeSource,
): Promise<LockedIntent> {
  const common = {
    intentId: intent.id,
    bookingId: intent.bookingId,
    provider: intent.provider,
    providerEventId: by.providerEventId,
  };
  const options = { correlationId: by.correlationId, causationId: by.eventId };
  // The first event of each outcome has this key, so that no fault in what follows records it twice.
  const dedupeKey = intent.id;
  if (outcome.state === 'failed') {
    // Emitted once, and not after a capture: providers promise no order, and the failure of an earlier attempt no
    // longer matters then.
    if (intent.state !== 'created') return intent;
    const failed = await change(tx, { ...intent, state: 'failed' });
    await emit(tx, 'payment.failed', { ...common, reason: outcome.reason }, { ...options, dedupeKey });
    return failed;
  }
  const { state, part, currency } = outcome;
  const parts = await knownParts(tx, intent, outcome);
  const known = parts.find((other) => other.state === state && other.part === part);
  const amountMinor = addedBy(outcome, known);
  if (amountMinor <= 0) return intent;
  const changed = await change(tx, {
    ...intent,
    // A late message about a capture does not undo a refund.
    state: intent.state === 'refunded' ? 'refunded' : state,
    parts: [...parts.filter((other) => other !== known), { state, part, amountMinor: outcome.amountMinor }],
  });
  const isFirst = !parts.some((other) => other.state === state);
  await emit(
    tx,
    `payment.${state}`,
    { ...common, amountMinor, currency },
    isFirst ? { ...options, dedupeKey } : options,
  );
  return changed;
}

function addedBy({ amountMinor, isCumulative }: Part, known: PaymentPart | undefined): number {
  if (!known) return amountMinor;
  return isCumulative ? amountMinor - known.amountMinor : 0;
}

async function change(tx: Transaction, intent: LockedIntent): Promise<LockedIntent> {
  const { id, state, parts } = intent;
  await tx
    .update(paymentIntents)
    .set({ state, parts, changedAt: sql`clock_timestamp()` })
    .where(eq(paymentIntents.id, id));
  return intent;
}

/** Names the part that an emitted webhook was about; empty where the webhook names none. */
function partIn(provider: PaymentProvider, body: Record<string, unknown>): string {
  try {
    const outcome = providerOutcome(provider, body);
    return outcome && outcome.state !== 'failed' ? outcome.part : '';
  } catch {
    return '';
  }
}

/**
 * Lists the parts that have been emitted, including those of a release that recorded none: that release emitted each
 * outcome of an intent once, with the intent's id as the dedupe key.
 */
async function knownParts(
  tx: Transaction,
  intent: LockedIntent,
  outcome: Part,
): Promise<readonly PaymentPart[]> {
  const { parts, provider } = intent;
  const { state, part } = outcome;
  if (parts.some((other) => other.state === state)) return parts;
  if (intent.state !== 'refunded' && intent.state !== state) return parts;
  const [event] = await run<{ amountMinor: number; body: Record<string, unknown> | null }>(tx, {
    text: `
      select (payload ->> 'amountMinor')::float8 as "amountMinor",
        (select webhook.payload -> 'body' from events as webhook where webhook.id = event.causation_id::uuid) as body
      from events as event where topic = $1::text and dedupe_key = $2::text`,
    values: [`payment.${state}`, intent.id],
  });
  if (event) {
    const emitted = event.body ? partIn(provider, event.body) : part;
    return [...parts, { state, part: emitted, amountMinor: event.amountMinor }];
  }
  // For an intent that was refunded before its capture arrived, no capture was emitted.
  if (intent.state !== state) return parts;
  // The event is pruned. A part that is reported only now is a new one; with a cumulative amount that is not certain.
  if (!outcome.isCumulative) return parts;
  return [...parts, { state, part, amountMinor: outcome.beforeMinor ?? outcome.amountMinor }];
}
