import { and, eq, isNull } from 'drizzle-orm';

import { paymentIntents, webhooksSetAside } from '../../../drizzle/schema.ts';
import type { PaymentOutcome } from '../../../drizzle/schema.ts';
import { emit } from '../../bus/outbox/emit.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { logError } from '../../platform/log.ts';
import { HOUR, instantOf, SECOND } from '../../platform/time.ts';
import { emitOutcome } from './emit-outcome.ts';
import type { OutcomeSource } from './emit-outcome.ts';
import { lockIntent } from './locked-intent.ts';
import type { LockedIntent } from './locked-intent.ts';
import type { PaymentProvider } from './provider-outcome.ts';

/** A webhook whose intent is not recorded. */
interface UnmatchedWebhook extends OutcomeSource {
  readonly provider: PaymentProvider;
  readonly outcome: PaymentOutcome;
  readonly createdAt: Date;
  readonly seq: number;
  readonly setAsideAt: Date;
}

/** Sets a webhook aside until its intent is recorded. The caller holds the intent's fence. */
export async function setAside(tx: Transaction, webhook: UnmatchedWebhook): Promise<void> {
  const { intentId } = webhook.outcome;
  await tx
    .insert(webhooksSetAside)
    .values({ ...webhook, intentId })
    .onConflictDoNothing();
}

/** Emits the outcomes of the webhooks set aside for an intent, in their order. @returns the changed intent. */
export async function takeUp(tx: Transaction, intent: LockedIntent): Promise<LockedIntent> {
  const { provider, intentId } = webhooksSetAside;
  const taken = await tx
    .delete(webhooksSetAside)
    .where(and(eq(provider, intent.provider), eq(intentId, intent.id)))
    .returning();
  const inOrder = taken.toSorted(
    (one, other) => one.createdAt.getTime() - other.createdAt.getTime() || one.seq - other.seq,
  );
  let after = intent;
  for (const webhook of inOrder) after = await emitOutcome(tx, after, webhook.outcome, webhook);
  return after;
}

/** How much later than its webhook an intent may be recorded: a weekend, and the providers' own retries. */
export const UNCLAIMED_AFTER_MS = 72 * HOUR;

/** Most intents that a call handles, and most webhooks of one transaction; the next call continues from there. */
const BATCH = 500;
const BUDGET_MS = 5 * SECOND;

/**
 * Takes up webhooks whose intent has been recorded without `createPaymentIntent`, and emits
 * `payment.webhook.unclaimed`, once, for each whose intent is not recorded within 72 hours. Those stay in the table,
 * and are still taken up when `createPaymentIntent` records their intent, or another webhook of it is handled.
 *
 * Any number may run at once. A webhook of an invalid intent is logged and stays.
 *
 * @param now overrides the database's clock in tests.
 */
export async function settleSetAside(
  db: Database,
  now?: Date,
): Promise<{ takenUp: number; unclaimed: number }> {
  const until = performance.now() + BUDGET_MS;
  const recorded = await db.transaction(async (tx) => {
    await limitStatements(tx);
    const { provider, intentId, unclaimedAt } = webhooksSetAside;
    return await tx
      .selectDistinct({ provider, intentId })
      .from(webhooksSetAside)
      .innerJoin(paymentIntents, and(eq(paymentIntents.id, intentId), eq(paymentIntents.provider, provider)))
      .where(isNull(unclaimedAt))
      .limit(BATCH);
  });
  let takenUp = 0;
  for (const { provider, intentId } of recorded) {
    if (performance.now() > until) break;
    try {
      await db.transaction(async (tx) => {
        await limitStatements(tx);
        const intent = await lockIntent(tx, provider, intentId);
        if (intent) await takeUp(tx, intent);
      });
      takenUp += 1;
    } catch (error) {
      logError('webhooks of an intent could not be taken up', error, { provider, intentId });
    }
  }
  let unclaimed = 0;
  let found = BATCH;
  while (found === BATCH && performance.now() < until) {
    found = await db.transaction(async (tx) => {
      await limitStatements(tx);
      return await emitUnclaimed(tx, now);
    });
    unclaimed += found;
  }
  return { takenUp, unclaimed };
}

/** @returns how many were emitted. */
async function emitUnclaimed(tx: Transaction, now: Date | undefined): Promise<number> {
  const webhooks = await run<
    OutcomeSource & { provider: PaymentProvider; outcome: PaymentOutcome; setAsideMs: number }
  >(tx, { text: MARK_UNCLAIMED, values: [UNCLAIMED_AFTER_MS, now?.toISOString() ?? null] });
  for (const { eventId, providerEventId, correlationId, provider, outcome, setAsideMs } of webhooks) {
    const { intentId, state } = outcome;
    const amount =
      outcome.state === 'failed' ? {} : { amountMinor: outcome.amountMinor, currency: outcome.currency };
    await emit(
      tx,
      'payment.webhook.unclaimed',
      { intentId, provider, providerEventId, outcome: state, ...amount, setAsideAt: instantOf(setAsideMs) },
      { dedupeKey: eventId, correlationId, causationId: eventId },
    );
  }
  return webhooks.length;
}

const MARK_UNCLAIMED = `
  with clock as materialized (
    select coalesce($2::timestamptz, clock_timestamp()) as now
  ),
  late as materialized (
    select event_id from clock, webhooks_set_aside as webhook
    where unclaimed_at is null and set_aside_at <= clock.now - $1::float8 * interval '1 millisecond'
      and not exists (
        select from payment_intents as intent
        where intent.id = webhook.intent_id and intent.provider = webhook.provider
      )
    order by set_aside_at limit ${BATCH} for update of webhook skip locked
  )
  update webhooks_set_aside as webhook set unclaimed_at = clock.now
  from clock, late where webhook.event_id = late.event_id
  returning webhook.event_id::text as "eventId", provider_event_id as "providerEventId",
    correlation_id as "correlationId", provider, outcome,
    (extract(epoch from set_aside_at) * 1000)::float8 as "setAsideMs"`;
