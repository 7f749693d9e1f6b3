import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { RecordedIntent } from './recorded-intent.ts';
import type { PaymentProvider } from './provider-statements.ts';

/** An intent whose row this transaction has locked, so that no other transaction tells of it meanwhile. */
export interface LockedIntent extends RecordedIntent {
  readonly id: string;
  readonly bookingId: string;
  readonly provider: PaymentProvider;
  readonly hasSetAside: boolean;
}

/** Locks an intent's row. @returns null when it is not recorded, or has another provider. */
export async function lockIntent(
  tx: Transaction,
  provider: PaymentProvider,
  id: string,
): Promise<LockedIntent | null> {
  const [intent] = await run<LockedIntent>(tx, {
    text: `
      select id, booking_id as "bookingId", provider, amount_minor::float8 as "amountMinor", currency, state, parts, exists (
        select from webhooks_set_aside as webhook
        where webhook.provider = payment_intents.provider and webhook.intent_id = payment_intents.id
      ) as "hasSetAside"
      from payment_intents where id = $1::text and provider = $2::text for update`,
    values: [id, provider],
  });
  return intent ?? null;
}

/** First half of the key of the advisory locks held while an intent is recorded, or a webhook of it is set aside. */
const INTENT_LOCKS = 0x905a;

/**
 * Waits until no other transaction records this intent or sets aside a webhook of it, and keeps others waiting until this
 * one ends.
 *
 * Each side looks for the other's row after this call, in a statement of its own whose snapshot is no older than the
 * lock. So the second one sees the rows that the first has committed, and they cannot miss each other.
 */
export async function fenceIntent(tx: Transaction, provider: PaymentProvider, id: string): Promise<void> {
  await run(tx, {
    text: `select pg_advisory_xact_lock(${INTENT_LOCKS}, hashtext($1::text || ' ' || $2::text))`,
    values: [provider, id],
  });
}
