import { OLDEST, prune, pruneOlder } from '../bus/deliveries/prune.ts';
import type { Pruned, PruneOptions } from '../bus/deliveries/prune.ts';

/**
 * Prunes the bus, and then what components keep: incidents are deleted as long after they were closed, and webhooks that
 * have been unclaimed for as long. Of equally old notifications the e-mail addresses are deleted; their rows stay, so that
 * nobody is notified twice.
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
  }
}

const FORGET_ADDRESSES = `
  update notifications set email = null where email is not null and recorded_at < ${OLDEST}`;
