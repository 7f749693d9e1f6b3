import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';

/**
 * Makes lanes due again whose front is gone or has moved: a dead letter that halted them was replayed or dismissed, or a
 * backfill of their subscription has written more, or ended. The others stay as they are.
 *
 * The homes of the lanes must be locked, or nothing else of the transaction may lock lanes.
 *
 * @param of one subscription; without it, all.
 */
export async function releaseLanes(
  tx: Transaction,
  of?: { readonly topic: string; readonly subscriber: string },
  now?: Date,
): Promise<void> {
  const [topic, subscriber] = [of?.topic ?? null, of?.subscriber ?? null];
  // In a statement of its own, so that the snapshot of the next one is no older than the locks.
  const [found] = await run<{ ids: readonly string[]; are_over: boolean }>(tx, {
    text: LOCK,
    values: [topic, subscriber],
  });
  const { ids, are_over: areOver } = found!;
  if (ids.length > 0 || areOver)
    await run(tx, { text: RELEASE, values: [JSON.stringify(ids), now?.toISOString() ?? null] });
}

const LOCK = `
  with held as materialized (
    select id from lanes
    where due_at = 'infinity' and ($1::text is null or topic = $1::text and subscriber = $2::text)
    order by id for update
  )
  select coalesce(json_agg(id::text), '[]') as ids, exists (
      -- Of a lane that a relay held when its dead letter was dealt with, and that has nothing more to deliver.
      select from halts join deliveries using (lane_id, position)
      where deliveries.state <> 'dead_lettered' or dismissed_at is not null
    ) as are_over
  from held`;

const RELEASE = `
  with over as (
    delete from halts using deliveries
    where deliveries.lane_id = halts.lane_id and deliveries.position = halts.position
      and (deliveries.state <> 'dead_lettered' or dismissed_at is not null)
  )
  update lanes set due_at = coalesce($2::text::timestamptz, clock_timestamp())
  where id = any (array(select jsonb_array_elements_text($1::text::jsonb)::bigint)) and coalesce(postbud_front_1(
    topic, subscriber, coalesce(home_id, id), nullif(held_key, '')) > head, true)`;
