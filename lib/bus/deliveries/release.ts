import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { SubscriptionName } from './subscription.ts';

/**
 * Makes lanes due again whose front is gone or has moved: a dead letter that halted them was replayed or dismissed, or a
 * backfill of their subscription has written more, or ended. The others stay as they are.
 *
 * The homes of the lanes must be locked, or nothing else of the transaction may lock lanes.
 *
 * @param of one subscription; without it, all.
 */
export async function releaseLanes(tx: Transaction, of?: SubscriptionName, now?: Date): Promise<void> {
  const lanes = await run<{ id: string }>(tx, {
    text: LOCK,
    values: [of?.topic ?? null, of?.subscriber ?? null],
  });
  if (lanes.length === 0) return;
  const ids = `{${lanes.map(({ id }) => id).join(',')}}`;
  await run(tx, { text: RELEASE, values: [ids, now?.toISOString() ?? null] });
}

const LOCK = `
  select id::text as id from lanes
  where due_at = 'infinity' and ($1::text is null or topic = $1::text and subscriber = $2::text)
  order by lanes.id for update`;

const RELEASE = `
  update lanes set due_at = coalesce($2::text::timestamptz, clock_timestamp())
  where id = any ($1::text::bigint[])
    and coalesce(postbud_front_1(topic, subscriber, coalesce(home_id, id), nullif(held_key, '')) > head, true)`;
