import { eq, sql } from 'drizzle-orm';

import { paymentIntents, webhooksSetAside } from '../../../drizzle/schema.ts';
import type { PaymentStatement } from '../../../drizzle/schema.ts';
import type { PayloadInput } from '../../bus/catalog/catalog.ts';
import { emit } from '../../bus/outbox/emit.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { fold } from './fold.ts';
import type { Fact } from './fold.ts';
import type { LockedIntent } from './locked-intent.ts';

/** A webhook that states something of an intent. */
export interface StatingWebhook {
  /** The id of its event on the bus. */
  readonly eventId: string;
  readonly providerEventId: string;
  readonly correlationId: string;
  readonly statements: readonly PaymentStatement[];
}

/**
 * Records what a webhook states of an intent, and emits what of it is new.
 *
 * @param isAccepted whether an operator has accepted what is not plausible.
 * @returns the changed intent. `hasSetAside` is as of now, also where the intent was locked after a wait.
 * @throws NotPlausible before anything is written.
 */
export async function tell(
  tx: Transaction,
  intent: LockedIntent,
  { eventId, providerEventId, correlationId, statements }: StatingWebhook,
  isAccepted = false,
): Promise<LockedIntent> {
  const folded = fold(intent, statements, isAccepted, providerEventId);
  const { state, parts } = folded.intent;
  if (folded.intent === intent) return intent;
  const { provider, id } = paymentIntents;
  const [changed] = await tx
    .update(paymentIntents)
    .set({ state, parts, changedAt: sql`clock_timestamp()` })
    .where(eq(id, intent.id))
    .returning({
      hasSetAside: sql<boolean>`exists (
        select from ${webhooksSetAside}
        where ${webhooksSetAside.provider} = ${provider} and ${webhooksSetAside.intentId} = ${id}
      )`,
    });
  for (const { topic, at, ...fact } of folded.facts) {
    const payload = {
      intentId: intent.id,
      bookingId: intent.bookingId,
      provider: intent.provider,
      providerEventId,
      ...(at !== null && { occurredAt: at }),
      ...fact,
    };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `emit` checks it against the topic's schema
    await emit(tx, topic, payload as PayloadInput<Fact['topic']>, { correlationId, causationId: eventId });
  }
  return { ...intent, ...changed, state, parts };
}
