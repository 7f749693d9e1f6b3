import { eq } from 'drizzle-orm';

import { lanes } from '../../../../drizzle/schema.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
import { topicsOf } from '../../subscribers/subscriber.ts';
import { NotActedOn } from '../refusals.ts';
import { FORMER_LANES } from './rename-open.ts';

// What stands under a name that the catalog no longer lists: it is renamed or retired.

/** What stands under a name in one topic. */
export interface Standing {
  readonly topic: string;
  /** Deliveries that wait, with events that are not fanned out yet. */
  readonly waiting: number;
  readonly deadLettered: number;
}

/** @throws NotActedOn `still_listed` where the catalog lists the name for the topic, so its deliveries are wanted; null: for any. */
export function requireUnlisted(subscriber: string, topic: string | null, action: 'retire' | 'rename'): void {
  const listing = topicsOf(subscriber).find((name) => topic === null || name === topic);
  if (listing === undefined) return;
  const advice =
    topic === null
      ? `Name a topic to ${action}: only topics that no longer list ${subscriber} can be ${action}d.`
      : `${action === 'retire' ? 'Retire' : 'Rename'} it from a release whose catalog does not.`;
  const text = `This release’s catalog lists ${subscriber} for ${listing}. ${advice}`;
  throw new NotActedOn('still_listed', text);
}

/** Whether the subscriber ever had a delivery. */
export async function isKnown(db: Database, subscriber: string): Promise<boolean> {
  const isIts = eq(lanes.subscriber, subscriber);
  return (await db.select({ id: lanes.id }).from(lanes).where(isIts).limit(1)).length > 0;
}

/** Counts what stands under a name, in the topics that have something of it. @param topic null: in any. */
export async function standingUnder(
  on: Executor,
  subscriber: string,
  topic: string | null,
): Promise<readonly Standing[]> {
  return await run(on, { text: STANDING, values: [subscriber, topic] });
}

/** Selects the topics that have something of the subscriber `$1`: topic, waiting, dead. */
export const HELD = `
    select topic, sum(pending) + sum(failing) as waiting, sum(dead_lettered) as dead from backlog
    where subscriber = $1::text
    group by topic having sum(pending) <> 0 or sum(failing) <> 0 or sum(dead_lettered) <> 0
    union all
    select topic, count(*), 0 from awaiting_fan_out where $1::text = any (subscribers) group by topic
    union all
    select topic, 0, 0 from pauses where subscriber = $1::text and topic <> ''
    union all
    -- A rename that is open has something left, if only to end it.
    select topic, 0, 0 from backfills where renamed_from = $1::text and ended_at is null`;

const STANDING = `
  select topic, sum(waiting)::float8 as waiting, sum(dead)::float8 as "deadLettered" from (${HELD}
  ) as held
  where $2::text is null or topic = $2::text group by topic order by topic`;

/** Counts the deliveries under a former name whose events the new name has a delivery of too. What is not fanned out has none. */
export async function countDuplicates(
  db: Database,
  { from, to, topic }: { readonly from: string; readonly to: string; readonly topic: string },
): Promise<number> {
  const [found] = await run<{ count: number }>(driverOf(db), { text: DUPLICATES, values: [topic, from, to] });
  return found!.count;
}

const DUPLICATES = `
  with ${FORMER_LANES.trim()},
  held as (
    select event_id from former_lane join deliveries on lane_id = former_lane.id and position > settled_to
    where coalesce(state in ('pending', 'failing'), false)
    union all
    select event_id from error_groups join deliveries on error_group = key
    where error_groups.topic = $1::text and subscriber = $2::text and error_groups.dead_lettered > 0
  )
  select count(*)::float8 as count from held join events on id = event_id where $3::text = any (events.subscribers)`;
