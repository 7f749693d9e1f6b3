import { and, eq } from 'drizzle-orm';

import { pauses } from '../../../../drizzle/schema.ts';
import type { Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
import { topicsOf } from '../../subscribers/subscriber.ts';
import { PRESENCE_LOCK } from '../locks.ts';
import type { SubscriptionName } from '../subscription.ts';
import { standingUnder } from './standing.ts';

/**
 * Ends what the bus keeps about a subscription that has nothing left: its pause, its halts, and the failures that count
 * towards an outage; and the outage of a subscriber for which nothing waits any more. With its last subscription, a name that
 * the catalog does not list loses the pause of all its topics too. A later release that lists the subscription again must not
 * find it paused, halted or down.
 *
 * Must be the last of its transaction that locks anything.
 *
 * @returns whether there was something to end.
 */
export async function forgetSubscription(tx: Transaction, of: SubscriptionName): Promise<boolean> {
  const values = [of.topic, of.subscriber];
  const halts = await run(tx, { text: FORGET_HALTS, values });
  await run(tx, { text: `select pg_advisory_xact_lock(${PRESENCE_LOCK}, 0)`, values: [] });
  const [row] = await run<{ ended: number }>(tx, { text: FORGET, values });
  const isLast =
    topicsOf(of.subscriber).length === 0 && (await standingUnder(tx, of.subscriber, null)).length === 0;
  const isOfAll = and(eq(pauses.subscriber, of.subscriber), eq(pauses.topic, ''));
  const resumed = isLast ? await tx.delete(pauses).where(isOfAll).returning() : [];
  return halts.length + row!.ended + resumed.length > 0;
}

/**
 * Takes a subscription out of the paced replays that are under way: what they have not put back stays as it is.
 *
 * Must be the first of its transaction that locks anything.
 */
export async function forgetReplays(on: Executor, of: SubscriptionName): Promise<void> {
  await run(on, { text: FORGET_REPLAYS, values: [of.topic, of.subscriber] });
}

const FORGET_REPLAYS = `
  with replay as materialized (
    select replay_id from paced_replays where replay_id in (
      select replay_id from planned_replays join lanes on lanes.id = lane_id
      where topic = $1::text and subscriber = $2::text
    )
    order by replay_id for update
  ),
  forgotten as (
    delete from planned_replays using replay, lanes
    where planned_replays.replay_id = replay.replay_id and lanes.id = lane_id
      and topic = $1::text and subscriber = $2::text
    returning replay.replay_id
  )
  update paced_replays set passed_over = passed_over + count
  from (select replay_id, count(*) as count from forgotten group by replay_id) as passed_over_by
  where paced_replays.replay_id = passed_over_by.replay_id`;

const FORGET_HALTS = `
  delete from halts where subscriber = $2::text and topic = $1::text returning position`;

const FORGET = `
  with pause as (
    delete from pauses where subscriber = $2::text and topic = $1::text returning 1
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
  select ((select count(*) from pause) + (select count(*) from outage))::int as ended`;
