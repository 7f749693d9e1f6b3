import { OLDEST, prune, pruneOlder } from '../bus/deliveries/prune.ts';
import type { Pruned, PruneOptions } from '../bus/deliveries/prune.ts';
import { DAY } from '../platform/time.ts';

/**
 * A session lasts an hour, so whoever acts is seen again soon: who was not for a year has left. Until then an entry of the
 * log that somebody asks about, such as last year's, still says who it was.
 */
const NAMES_KEPT_MS = 365 * DAY;

/**
 * Prunes the bus, and then what components keep: incidents are deleted as long after they were closed, and webhooks that
 * have been unclaimed for as long. Of equally old notifications the e-mail addresses are deleted; their rows stay, so that
 * nobody is notified twice. The names of operators are deleted a year after their last sign-in.
 *
 * @returns what `prune` deleted.
 * @throws the driver's error.
 */
export async function pruneAll(options: PruneOptions): Promise<Pruned> {
  try {
    return await prune(options);
  } finally {
    // Also where events are more than a statement gets through in its time.
    await pruneOlder(options, FORGET_ADDRESSES);
    // Their alerts go with the next ones (`claimAlerts`).
    await pruneOlder(options, `delete from incidents where closed_at < ${OLDEST}`);
    // The event `payment.webhook.unclaimed` has said so.
    await pruneOlder(options, `delete from webhooks_set_aside where unclaimed_at < ${OLDEST}`);
    await pruneOlder({ ...options, keepMs: NAMES_KEPT_MS }, FORGET_NAMES);
  }
}

const FORGET_ADDRESSES = `
  update notifications set email = null where email is not null and recorded_at < ${OLDEST}`;

const FORGET_NAMES = `delete from operator_names where seen_at < ${OLDEST}`;
