import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { giveBack } from './give-back.ts';
import { ABSENT_KINDS } from './outage.ts';
import type { Subscription } from './subscription.ts';

/**
 * Ends the outages of subscribers that answer again: the attempts that they used up are given back, and what waits for a
 * retry because nobody was there is due now. Any number of relays may do so at once.
 *
 * Those of other subscribers are left to a process that they are attached to. One that is over only since the attempts were
 * given back is left to the next call.
 *
 * @param subscriptions those of the subscribers whose outages it ends.
 * @param now overrides the database's clock in tests; ISO 8601.
 * @returns how many deliveries it made due; null where none is over of a subscriber that is attached.
 */
export async function endOutages(
  db: Database,
  subscriptions: ReadonlyMap<string, Subscription>,
  now: string | null = null,
): Promise<number | null> {
  const { over } = await giveBack(db, subscriptions, now);
  if (over.length === 0) return null;
  const values = [now, JSON.stringify(over)];
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: LOCK, values });
    const [row] = await run<{ freed: number }>(tx, {
      text: END,
      values: [...values, JSON.stringify(ABSENT_KINDS)],
    });
    // Else the cron's look would set a relay going each minute.
    if (row!.freed > 0) noteDue(tx);
    return row!.freed;
  });
}

const OVER = `jsonb_to_recordset($2::text::jsonb) as known(subscriber text, opened_at bigint)`;

// Read from the row itself, so that it is read again where it was locked: a settlement may open the next one meanwhile.
const IS_OVER = `
  outages.subscriber = known.subscriber and recovered_at is not null
    and extract(epoch from outages.opened_at) * 1000000 = known.opened_at`;

const IS_WAITING = `
  due_at > coalesce($1::text::timestamptz, clock_timestamp()) and due_at < 'infinity' and lease_token is null
    and subscriber in (select outages.subscriber from outages, ${OVER} where ${IS_OVER})`;

const LOCK = `select id from lanes where ${IS_WAITING} order by id for update`;

const END = `
  with waiting as materialized (
    select id, coalesce(home_id, id) as home, next.position from lanes, lateral (
      select position from postbud_next_2(lanes.id, home_id, slot, held_key, head, 1) limit 1
    ) as next
    where ${IS_WAITING}
  ),
  freed as (
    update deliveries set next_attempt_at = coalesce($1::text::timestamptz, clock_timestamp())
    from waiting
    where deliveries.lane_id = waiting.home and deliveries.position = waiting.position and next_attempt_at is not null
      and $3::text::jsonb ? (attempt_log -> -1 ->> 'kind')
    returning waiting.id
  ),
  due as (
    update lanes set due_at = coalesce($1::text::timestamptz, clock_timestamp()) from freed where lanes.id = freed.id
  ),
  ended as (
    delete from outages using ${OVER} where ${IS_OVER}
  )
  select count(*)::int as freed from freed`;
