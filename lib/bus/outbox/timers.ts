import { inTransactionOf, MAYBE_FIRST_WRITE } from '../../platform/db/callers-transaction.ts';
import type { Transaction } from '../../platform/db/callers-transaction.ts';
import { run } from '../../platform/db/statement.ts';
import { isTopicName } from '../catalog/catalog.ts';
import type { TopicName } from '../catalog/catalog.ts';
import { UnknownTopic } from './errors.ts';
import { callErrorOf } from './refusal.ts';

/**
 * Cancels the timer that `emit` has set for a topic with this key, in the caller's transaction.
 *
 * Once the transaction has committed after `true`, the event never happens. `false` says that there is none: it was released
 * or cancelled before, or never set. If the release of the timer is under way at this moment, this waits for it.
 *
 * @throws UnknownTopic; NotYourTopic in a component that was not granted the topic's producer; NotInTransaction, and then it
 *   is not cancelled.
 */
export async function cancelTimer(tx: Transaction, topic: TopicName, timerKey: string): Promise<boolean> {
  if (!isTopicName(topic)) throw new UnknownTopic(topic);
  try {
    return await inTransactionOf(tx, 'cancelTimer', async () => {
      const [row] = await run<{ cancelled: boolean }>(tx, { text: CANCEL, values: [topic, timerKey] });
      return row!.cancelled;
    });
  } catch (error) {
    throw callErrorOf(topic, error);
  }
}

const CANCEL = `
  with first_write as materialized (select ${MAYBE_FIRST_WRITE})
  select public.postbud_cancel_timer($1::pg_catalog.text, $2::pg_catalog.text) as cancelled from first_write`;
