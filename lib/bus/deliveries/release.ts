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
  // In statements of their own, so that the snapshot of the last one is no older than the locks.
  const [lanes] = await run<Lock>(tx, { text: LOCK_LANES, values: [topic, subscriber] });
  const [over] = await run<Lock>(tx, { text: LOCK_OVER, values: [] });
  if (lanes!.ids !== NONE || over!.ids !== NONE)
    await run(tx, { text: RELEASE, values: [lanes!.ids, over!.ids, now?.toISOString() ?? null] });
}

interface Lock {
  /** As JSON. */
  readonly ids: string;
}

const NONE = '[]';

const LOCK_LANES = `
  with held as materialized (
    select id from lanes
    where due_at = 'infinity' and ($1::text is null or topic = $1::text and subscriber = $2::text)
    order by id for update
  )
  select coalesce(json_agg(id::text), '${NONE}')::text as ids from held`;

// Also the halt of a lane that a relay held when its dead letter was dealt with, and that has nothing more to deliver. One
// that is locked is not over: a settlement makes it anew, or another release deletes it.
const LOCK_OVER = `
  with over as materialized (
    select halts.lane_id, halts.position from halts join deliveries using (lane_id, position)
    where deliveries.state <> 'dead_lettered' or dismissed_at is not null
    for update of halts skip locked
  )
  select coalesce(json_agg(over), '${NONE}')::text as ids from over`;

const RELEASE = `
  with over as (
    delete from halts using deliveries, jsonb_to_recordset($2::text::jsonb) as locked(lane_id bigint, position bigint)
    where halts.lane_id = locked.lane_id and halts.position = locked.position
      and deliveries.lane_id = locked.lane_id and deliveries.position = locked.position
      and (deliveries.state <> 'dead_lettered' or dismissed_at is not null)
  )
  update lanes set due_at = coalesce($3::text::timestamptz, clock_timestamp())
  where id = any (array(select jsonb_array_elements_text($1::text::jsonb)::bigint)) and coalesce(postbud_front_1(
    topic, subscriber, coalesce(home_id, id), nullif(held_key, '')) > head, true)`;
