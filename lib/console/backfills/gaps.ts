import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { field, instantOrNull, jsonOf, shapesOf, text } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

const gapFields = {
  topic: text('gap.topic'),
  subscriber: text('gap.subscriber'),
  since: instantOrNull(
    'case when own_id is distinct from oldest_id then oldest.created_at end',
    'When the oldest retained event that it lacks was recorded.',
  ),
  until: instantOrNull(
    'own.created_at',
    'When the first event that it has was recorded; null if it has none.',
  ),
  underWay: field(
    z
      .object({ backfillId: z.uuid(), matched: shape.count, written: shape.count })
      .nullable()
      .meta({ description: 'The backfill that writes them now.' }),
    `case when backfill_id is not null then
      json_build_object('backfillId', backfill_id, 'matched', matched, 'written', written)
    end`,
  ),
};
export const gap = z.object(shapesOf(gapFields)).meta({
  id: 'Gap',
  description: 'A subscription without deliveries of the oldest retained events, which a backfill writes.',
});
export type Gap = z.output<typeof gap>;

/**
 * Finds the subscriptions that have no delivery of their topic's oldest retained event, and backfills that are under way.
 *
 * Only the first delivery of each lane is read, so that this is cheap: a gap between deliveries is not seen.
 *
 * @param listed subscriptions of this release's catalog.
 */
export async function readGaps(
  db: Database,
  listed: readonly { readonly topic: string; readonly subscriber: string }[],
): Promise<Gap[]> {
  const [row] = await run<{ found: Gap[] }>(driverOf(db), { text: GAPS, values: [JSON.stringify(listed)] });
  return row!.found;
}

/**
 * Selects columns of the lanes that the keys of a subscription share. By the numbers of their slots, so that the lanes of
 * keys in trouble, which have the same numbers, are not read.
 */
export const sharedLanes = (columns: string, topic: string, subscriber: string) => `
      select ${columns} from lanes
      where lanes.topic = ${topic} and lanes.subscriber = ${subscriber} and held_key = ''
        and slot = any (array(select generate_series(1, (
          select max(slot) from lanes as last
          where last.topic = ${topic} and last.subscriber = ${subscriber} and slot is not null
        ))))`;

// An event has the same position in the lanes of all subscribers. Those of keys in trouble
// have no deliveries of their own, and there may be many thousands.
const GAPS = `
  with listed as materialized (
    select topic, subscriber from jsonb_to_recordset($1::text::jsonb) as listed(topic text, subscriber text)
  ),
  first_of_lane as materialized (
    select known.topic, known.subscriber, first.position, first.event_id
    from (
      select distinct topic, subscriber from backlog where topic in (select topic from listed) and subscriber <> ''
    ) as known, lateral (
      select id from lanes
      where lanes.topic = known.topic and lanes.subscriber = known.subscriber and ordering_key = ''
      union all
      ${sharedLanes('id', 'known.topic', 'known.subscriber')}
    ) as lane, lateral (
      select position, event_id from deliveries where lane_id = lane.id order by position limit 1
    ) as first
  ),
  first_of_topic as (
    select distinct on (topic) topic, position, event_id from first_of_lane order by topic, position
  ),
  first_of_subscription as (
    select distinct on (topic, subscriber) topic, subscriber, position, event_id from first_of_lane
    order by topic, subscriber, position
  ),
  gap as (
    select listed.topic, listed.subscriber, oldest.event_id as oldest_id, own.event_id as own_id,
      backfills.id as backfill_id, matched, written
    from listed left join first_of_topic as oldest on oldest.topic = listed.topic
      left join first_of_subscription as own on own.topic = listed.topic and own.subscriber = listed.subscriber
      left join backfills on backfills.topic = listed.topic and backfills.subscriber = listed.subscriber
        and ended_at is null and renamed_from is null
    where backfills.id is not null or coalesce(own.position, 9223372036854775807) > oldest.position
  )
  select coalesce(json_agg(${jsonOf(gapFields)} order by gap.topic, gap.subscriber), '[]') as found
  from gap left join events as oldest on oldest.id = oldest_id left join events as own on own.id = own_id`;
