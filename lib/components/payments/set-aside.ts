import { and, eq, isNull, sql } from 'drizzle-orm';

import { paymentIntents, reconciliations, webhooksSetAside } from '../../../drizzle/schema.ts';
import type { PaymentOutcome, PaymentStatement, SetAsideReason } from '../../../drizzle/schema.ts';
import { emit } from '../../bus/outbox/emit.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { logError } from '../../platform/log.ts';
import { HOUR, instantOf, SECOND } from '../../platform/time.ts';
import { NotPlausible } from './recorded-intent.ts';
import { lockIntent } from './locked-intent.ts';
import type { LockedIntent } from './locked-intent.ts';
import type { PaymentProvider } from './provider-statements.ts';
import { tell } from './tell.ts';
import type { StatingWebhook } from './tell.ts';

/** A webhook that waits for its intent, for what makes it plausible, or for the object that it names. */
interface WaitingWebhook extends StatingWebhook {
  readonly provider: PaymentProvider;
  readonly intentId: string;
  readonly createdAt: Date;
  readonly seq: number;
  readonly setAsideAt: Date;
  readonly reason: SetAsideReason;
  readonly detail?: string;
}

/** Sets a webhook aside. The caller holds the intent's row or, without one, its fence. */
export async function setAside(tx: Transaction, webhook: WaitingWebhook): Promise<void> {
  const outcome = outcomeBefore(webhook);
  await tx
    .insert(webhooksSetAside)
    .values({ ...webhook, outcome })
    .onConflictDoNothing();
}

/**
 * Sets a thin event aside until the object that it names, whose path stands for the intent, has been read, and has the
 * reconciliation of its endpoint do so at once, unless Stripe has just failed to answer.
 */
export async function setAsideUnread(
  tx: Transaction,
  webhook: Omit<WaitingWebhook, 'reason'>,
  endpoint: string,
): Promise<void> {
  const detail = `it names ${webhook.intentId}, which Stripe is asked for`;
  await setAside(tx, { ...webhook, reason: 'unread', detail });
  await tx
    .update(reconciliations)
    .set({ nextAt: sql`least(${reconciliations.nextAt}, clock_timestamp())` })
    .where(and(eq(reconciliations.provider, endpoint), eq(reconciliations.failures, 0)));
}

/** Deletes the row of a webhook that was taken, or that an operator accepted. */
export async function forget(tx: Transaction | Database, eventId: string): Promise<void> {
  await tx.delete(webhooksSetAside).where(eq(webhooksSetAside.eventId, eventId));
}

/** What release 1.1 can take up of a webhook: of what it does not know, a capture of nothing. */
function outcomeBefore({ intentId, statements }: WaitingWebhook): PaymentOutcome {
  for (const { kind, ...known } of statements) {
    if (kind === 'failed' && 'reason' in known) return { intentId, state: kind, reason: known.reason };
    if ((kind === 'captured' || kind === 'refunded') && 'isTotal' in known) {
      const { part, amountMinor, currency, isTotal } = known;
      return { intentId, state: kind, part, amountMinor, currency, isCumulative: isTotal };
    }
  }
  return { intentId, state: 'captured', part: '', amountMinor: 0, currency: 'XXX', isCumulative: false };
}

/** What a webhook states that release 1.1 has set aside. */
function statementsBefore(outcome: PaymentOutcome): readonly PaymentStatement[] {
  if (outcome.state === 'failed') return [{ kind: 'failed', at: null, reason: outcome.reason }];
  const { state, part, amountMinor, currency, isCumulative } = outcome;
  return [{ kind: state, at: null, part, amountMinor, currency, isTotal: isCumulative }];
}

/**
 * Tells what the webhooks set aside for an intent state, in their order, as often as one makes another plausible. What is
 * not plausible stays, and is an incident from then on.
 */
export async function takeUp(tx: Transaction, intent: LockedIntent): Promise<void> {
  const { provider, intentId, eventId } = webhooksSetAside;
  const found = await tx
    .select()
    .from(webhooksSetAside)
    .where(and(eq(provider, intent.provider), eq(intentId, intent.id)));
  let waiting = found.toSorted(
    (one, other) => one.createdAt.getTime() - other.createdAt.getTime() || one.seq - other.seq,
  );
  let current = intent;
  for (let isNews = true; isNews;) {
    isNews = false;
    const left: typeof waiting = [];
    for (const webhook of waiting) {
      try {
        const statements = webhook.statements ?? statementsBefore(webhook.outcome);
        current = await tell(tx, current, { ...webhook, statements });
        await tx.delete(webhooksSetAside).where(eq(eventId, webhook.eventId));
        isNews = true;
      } catch (error) {
        if (!(error instanceof NotPlausible)) throw error;
        left.push({ ...webhook, reason: 'not_plausible', detail: error.message });
      }
    }
    waiting = left;
  }
  for (const { eventId: id, reason, detail } of waiting)
    await tx.update(webhooksSetAside).set({ reason, detail }).where(eq(eventId, id));
}

/** How much later than its webhook an intent may be recorded: a weekend, and the providers' own retries. */
const UNCLAIMED_AFTER_MS = 72 * HOUR;

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
    const { provider, intentId, reason, unclaimedAt } = webhooksSetAside;
    return await tx
      .selectDistinct({ provider, intentId })
      .from(webhooksSetAside)
      .innerJoin(paymentIntents, and(eq(paymentIntents.id, intentId), eq(paymentIntents.provider, provider)))
      .where(and(isNull(unclaimedAt), eq(reason, 'no_intent')))
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
    Omit<WaitingWebhook, 'statements'> & {
      readonly statements: readonly PaymentStatement[] | null;
      readonly outcome: PaymentOutcome;
      readonly setAsideMs: number;
    }
  >(tx, { text: MARK_UNCLAIMED, values: [UNCLAIMED_AFTER_MS, now?.toISOString() ?? null] });
  for (const { eventId, providerEventId, correlationId, provider, intentId, ...webhook } of webhooks) {
    const [first] = webhook.statements ?? statementsBefore(webhook.outcome);
    if (!first) continue;
    const amount = 'currency' in first ? { amountMinor: first.amountMinor, currency: first.currency } : {};
    await emit(
      tx,
      'payment.webhook.unclaimed',
      {
        intentId,
        provider,
        providerEventId,
        outcome: first.kind,
        ...amount,
        setAsideAt: instantOf(webhook.setAsideMs),
        ...(first.at !== null && { occurredAt: first.at }),
      },
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
    where unclaimed_at is null and reason <> 'unread' and set_aside_at <= clock.now - $1::float8 * interval '1 millisecond'
      and not exists (
        select from payment_intents as intent
        where intent.id = webhook.intent_id and intent.provider = webhook.provider
      )
    order by set_aside_at limit ${BATCH} for update of webhook skip locked
  )
  update webhooks_set_aside as webhook set unclaimed_at = clock.now
  from clock, late where webhook.event_id = late.event_id
  returning webhook.event_id::text as "eventId", provider_event_id as "providerEventId",
    correlation_id as "correlationId", provider, intent_id as "intentId", outcome, statements,
    (extract(epoch from set_aside_at) * 1000)::float8 as "setAsideMs"`;
