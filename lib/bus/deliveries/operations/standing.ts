import { run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
import { PLACING_LOCK } from '../locks.ts';

/** What stands under a subscriber's name in one topic. */
export interface Standing {
  readonly topic: string;
  /** Deliveries that wait, with events that await their places. */
  readonly waiting: number;
  readonly deadLettered: number;
}

/** Counts what stands under a name, in the topics that have lanes or a pause of it. @param topic null: in any. */
export async function standingUnder(
  on: Executor,
  subscriber: string,
  topic: string | null,
): Promise<readonly Standing[]> {
  return await run(on, { text: STANDING, values: [subscriber, topic] });
}

const STANDING = `
  select topic, sum(waiting)::float8 as waiting, sum(dead)::float8 as "deadLettered" from (
    select topic, pending + failing as waiting, dead_lettered as dead from subscription_counts where subscriber = $1::text
    union all
    select topic, count(*), 0 from awaiting where $1::text = any (subscribers) group by topic
    union all
    select topic, 0, 0 from pauses where subscriber = $1::text and topic <> ''
    union all
    select topic, 0, 0 from backfills where subscriber = $1::text and ended_at is null
  ) as held
  where $2::text is null or topic = $2::text group by topic order by topic`;

/** Whether the name was renamed or retired before, so that a repeated request for it is no mistake. */
export async function hasLeft(
  on: Executor,
  subscriber: string,
  action: 'rename' | 'retire',
): Promise<boolean> {
  const [row] = await run<{ left: boolean }>(on, {
    text: 'select exists (select from operator_actions where subscriber = $1::text and action = $2::text) as left',
    values: [subscriber, action],
  });
  return row!.left;
}

/**
 * Locks what a name has in these topics: no event gets a place there, and nothing of it is claimed or settled, until the
 * transaction ends. In the order of locks.ts.
 */
export async function lockName(tx: Executor, subscriber: string, topics: readonly string[]): Promise<void> {
  const names = JSON.stringify(topics);
  await run(tx, { text: LOCK_TOPICS, values: [names] });
  await run(tx, { text: LOCK_LANES, values: [names, subscriber] });
}

const TOPICS = `(select jsonb_array_elements_text($1::text::jsonb))`;

const LOCK_TOPICS = `
  select pg_advisory_xact_lock(${PLACING_LOCK}, lock)
  from (select distinct hashtext(topic) as lock from jsonb_array_elements_text($1::text::jsonb) as topic order by 1) as topics`;

const LOCK_LANES = `
  select postbud_lock_lanes_2(array(select id from lanes where subscriber = $2::text and topic in ${TOPICS}))`;
