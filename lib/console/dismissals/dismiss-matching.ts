import { beginDismissal, dismissDeadLetters } from '../../bus/deliveries/operations/dismiss.ts';
import type { Dismissal, Dismissed } from '../../bus/deliveries/operations/dismiss.ts';
import type { ChosenDeliveries, ReplayRequest } from '../../bus/deliveries/operations/replay-matching.ts';
import { CountChanged } from '../../bus/deliveries/refusals.ts';
import type { Database } from '../../platform/db/database.ts';
import { findChosen } from '../kit/chosen.ts';

/** Finds the dead letters of a request that nobody dismissed, and changes nothing. Its incident is for the log alone. */
export async function findDeadLetters(db: Database, asked: ReplayRequest) {
  const { incident: _, ...chosen } = asked;
  return await findChosen(db, [], chosen, 'found where not is_dismissed');
}

export interface MatchingDismissed extends Dismissed {
  readonly matched: number;
  /** The `dismissed_at` of all, to the microsecond. */
  readonly dismissedAt: string;
}

/**
 * Dismisses the dead letters of a request, one subscription after the other, in chunks as `dismiss` does. Each
 * subscription has its record in the operators' log.
 *
 * @returns how many it dismissed, and how many still match because there was no time for them: the same request with
 *   that number as `expectedCount` continues.
 * @throws CountChanged when another number matches; nothing was dismissed. The driver's error; earlier chunks stay done.
 */
export async function dismissMatching(
  db: Database,
  asked: ChosenDeliveries,
  how: Dismissal,
): Promise<MatchingDismissed> {
  const { matched, span, generatedAt: at, subscriptions } = await findDeadLetters(db, asked);
  const { since, until } = span;
  if (asked.expectedCount !== undefined && asked.expectedCount !== matched)
    throw new CountChanged(asked.expectedCount, matched, 'dismissed');
  const { deliveryIds, group, q } = asked;
  const which = { deliveryIds, group, words: q || undefined, until, ...(since !== null && { since }) };
  // The log names a single one.
  const deliveryId = deliveryIds?.length === 1 ? deliveryIds[0]! : null;
  let dismissed = 0;
  for (const { topic, subscriber } of subscriptions)
    dismissed += await dismissDeadLetters(
      db,
      { topic, subscriber, ...which },
      { ...beginDismissal(how), at, deliveryId },
    );
  const { matched: left } = await findDeadLetters(db, { ...asked, until });
  // Another operator took all of them meanwhile.
  if (dismissed === 0 && left < matched) throw new CountChanged(matched, left, 'dismissed');
  return { matched, dismissed, left, dismissedAt: at };
}
