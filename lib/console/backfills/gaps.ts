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
 * Only the first event of each stream and the first delivery of each lane are read, so that this is cheap: a gap between
 * deliveries is not seen.
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

const GAPS = `
  with listed as materialized (
    select topic, subscriber from jsonb_to_recordset($1::text::jsonb) as listed(topic text, subscriber text)
  ),
  stream as materialized (
    select streams.id, streams.topic, first.position, first.event_id, last.position as tail
    from streams, lateral (
        select position, event_id from log where log.stream = streams.id and event_id is not null order by position limit 1
      ) as first, lateral (
        select position from log where log.stream = streams.id order by position desc limit 1
      ) as last
    where streams.topic in (select topic from listed)
  ),
  first_of_topic as (
    select distinct on (stream.topic) stream.topic, events.id as event_id, created_at, seq
    from stream join events on events.id = event_id order by stream.topic, created_at, seq
  ),
  first_of_subscription as (
    select distinct on (lanes.topic, lanes.subscriber) lanes.topic, lanes.subscriber, events.id as event_id, created_at, seq
    from listed join lanes using (topic, subscriber) join stream on stream.id = lanes.stream cross join lateral (
        -- What a backfill has written is before what the subscriber is listed for.
        select least(postbud_find_next_1(stream.id, lanes.subscriber, stream.position - 1, stream.tail), (
          select position from exceptions where exceptions.lane = lanes.id order by position limit 1
        )) as position
      ) as own
      join log on log.stream = stream.id and log.position = own.position join events on events.id = log.event_id
    order by lanes.topic, lanes.subscriber, created_at, seq
  ),
  gap as (
    select listed.topic, listed.subscriber, oldest.event_id as oldest_id, own.event_id as own_id,
      backfills.id as backfill_id, matched, written
    from listed left join first_of_topic as oldest on oldest.topic = listed.topic
      left join first_of_subscription as own on own.topic = listed.topic and own.subscriber = listed.subscriber
      left join backfills on backfills.topic = listed.topic and backfills.subscriber = listed.subscriber
        and ended_at is null
    where backfills.id is not null or oldest.event_id is not null
      and (own.event_id is null or (own.created_at, own.seq) > (oldest.created_at, oldest.seq))
  )
  select coalesce(json_agg(${jsonOf(gapFields)} order by gap.topic, gap.subscriber), '[]') as found
  from gap left join events as oldest on oldest.id = oldest_id left join events as own on own.id = own_id`;
