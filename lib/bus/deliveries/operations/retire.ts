import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import { topicsOf } from '../../subscribers/subscriber.ts';
import { NotActedOn } from '../refusals.ts';
import type { Word } from './asked.ts';
import { hasLeft, lockName, standingUnder } from './standing.ts';

export interface Retired {
  /** The topics that the subscriber was retired from. */
  readonly topics: readonly string[];
  /** Deliveries that waited or had died. */
  readonly dismissed: number;
}

/** @throws NotActedOn `still_listed` where the catalog lists the name for the topic, so its deliveries are wanted; null: for any. */
export function requireUnlisted(subscriber: string, topic: string | null): void {
  const listing = topicsOf(subscriber).find((name) => topic === null || name === topic);
  if (listing === undefined) return;
  const advice =
    topic === null
      ? `Name a topic to retire: only topics that no longer list ${subscriber} can be retired.`
      : 'Retire it from a release whose catalog does not.';
  throw new NotActedOn(
    'still_listed',
    `This release’s catalog lists ${subscriber} for ${listing}. ${advice}`,
  );
}

/**
 * Retires a subscriber that the catalog no longer lists: deletes its lanes with all that is recorded of its deliveries, and ends
 * its pauses, backfills and outage. Events that await their places are no longer for it. The log of operators keeps that.
 *
 * @param topic null: all topics that the subscriber has lanes of.
 * @returns null when there is nothing of the subscriber, and never was.
 * @throws NotActedOn `still_listed`; `under_way` while a relay of another release delivers to it.
 */
export async function retire(
  db: Database,
  { subscriber, topic }: { readonly subscriber: string; readonly topic: string | null },
  { by, reason, now }: Word & { readonly now?: Date },
): Promise<Retired | null> {
  requireUnlisted(subscriber, topic);
  const found = await standingUnder(driverOf(db), subscriber, topic);
  if (found.length === 0 && !(await hasLeft(driverOf(db), subscriber, 'retire'))) return null;
  const topics = found.map((one) => one.topic);
  const values = [JSON.stringify(topics), subscriber];
  return await db.transaction(async (tx) => {
    await limitStatements(tx, 1 * MINUTE);
    await lockName(tx, subscriber, topics);
    const at = now?.toISOString() ?? null;
    const [held] = await run<{ is_any: boolean }>(tx, { text: HELD, values: [...values, at] });
    if (held!.is_any) throw new NotActedOn('under_way');
    const standing = await standingUnder(tx, subscriber, topic);
    const ids = JSON.stringify(topics.map((name) => ({ topic: name, id: uuidv7() })));
    await run(tx, { text: RETIRE, values: [...values, by, reason, ids, at] });
    await run(tx, { text: FORGET, values: [subscriber, topicsOf(subscriber).length === 0] });
    const dismissed = standing.reduce((sum, one) => sum + one.waiting + one.deadLettered, 0);
    return { topics, dismissed };
  });
}

const TOPICS = `(select jsonb_array_elements_text($1::text::jsonb))`;

const HELD = `
  select exists (
    select from lane_heads where subscriber = $2::text and topic in ${TOPICS}
      and leased_until > coalesce($3::text::timestamptz, clock_timestamp())
  ) as is_any`;

const RETIRE = `
  with lane as materialized (
    delete from lanes where subscriber = $2::text and topic in ${TOPICS} returning id
  ),
  journal_row as (delete from journal where lane in (select id from lane)),
  exception as (delete from exceptions where lane in (select id from lane)),
  total as (delete from lane_totals where lane in (select id from lane)),
  marker as (
    update awaiting set subscribers = array_remove(subscribers, $2::text)
    where topic in ${TOPICS} and $2::text = any (subscribers)
  ),
  pause as (delete from pauses where subscriber = $2::text and topic in ${TOPICS}),
  backfill as (
    update backfills set ended_at = coalesce($6::text::timestamptz, clock_timestamp())
    where subscriber = $2::text and topic in ${TOPICS} and ended_at is null
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select id, coalesce($6::text::timestamptz, clock_timestamp()), $3::text, 'retire', topic, $2::text, $4::text
  from json_to_recordset($5::text::json) as retired(id uuid, topic text)`;

// A later release that lists the name again must not find it paused or down.
const FORGET = `
  with pause as (
    delete from pauses where subscriber = $1::text and topic = '' and $2::boolean
      and not exists (select from lanes where subscriber = $1::text)
  )
  delete from outages where subscriber = $1::text and not exists (select from lanes where subscriber = $1::text)`;
