import type { Transaction } from '../db/connect.ts';
import { run } from '../db/statement.ts';
import { PRESENCE_LOCK } from './locks.ts';

/**
 * Ends what the bus keeps about a subscription that has nothing left: its pause, its halts, and the failures that count
 * towards an outage; and the outage of a subscriber for which nothing waits any more. A later release that lists the
 * subscription again must not find it paused, halted or down.
 *
 * Must be the last of its transaction that locks anything.
 *
 * @returns whether there was something to end.
 */
export async function forgetSubscription(
  tx: Transaction,
  of: { readonly topic: string; readonly subscriber: string },
): Promise<boolean> {
  await run(tx, { text: `select pg_advisory_xact_lock(${PRESENCE_LOCK}, 0)`, values: [] });
  const [row] = await run<{ ended: number }>(tx, { text: FORGET, values: [of.topic, of.subscriber] });
  return row!.ended > 0;
}

const FORGET = `
  with pause as (
    delete from pauses where subscriber = $2::text and topic = $1::text returning 1
  ),
  halt as (
    delete from halts where subscriber = $2::text and topic = $1::text returning 1
  ),
  absence as (
    delete from absences using lanes
    where lanes.id = lane_id and absences.subscriber = $2::text and lanes.subscriber = $2::text and topic = $1::text
  ),
  outage as (
    delete from outages where subscriber = $2::text and not exists (
      select from backlog where subscriber = $2::text having sum(pending) <> 0 or sum(failing) <> 0
    )
    returning 1
  )
  select ((select count(*) from pause) + (select count(*) from halt) + (select count(*) from outage))::int as ended`;
