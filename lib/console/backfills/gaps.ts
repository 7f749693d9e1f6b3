import * as z from 'zod';

import { sharedLanes } from '../../bus/deliveries/subscription.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';

export const gap = z
  .object({
    topic: shape.topic,
    subscriber: z.string(),
    since: shape.instant
      .nullable()
      .meta({ description: 'When the oldest retained event that it lacks was recorded.' }),
    until: shape.instant.nullable().meta({
      description: 'When the first event that it has was recorded; null if it has none.',
    }),
    underWay: z
      .object({ backfillId: z.uuid(), matched: shape.count, written: shape.count })
      .nullable()
      .meta({ description: 'The backfill that writes them now.' }),
  })
  .meta({
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
  const [row] = await run<{ found: readonly FoundGap[] }>(driverOf(db), {
    text: GAPS,
    values: [JSON.stringify(listed)],
  });
  return row!.found.map(({ topic, subscriber, since, until, backfill_id: backfillId, matched, written }) => ({
    topic,
    subscriber,
    since: instantOrNull(since),
    until: instantOrNull(until),
    underWay: backfillId === null ? null : { backfillId, matched: matched ?? 0, written: written ?? 0 },
  }));
}

/** Times are epoch milliseconds. */
interface FoundGap {
  readonly topic: string;
  readonly subscriber: string;
  readonly since: number | null;
  readonly until: number | null;
  readonly backfill_id: string | null;
  readonly matched: number | null;
  readonly written: number | null;
}

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
  select coalesce(json_agg(json_build_object('topic', gap.topic, 'subscriber', gap.subscriber,
    'since', case when own_id is distinct from oldest_id then extract(epoch from oldest.created_at) * 1000 end,
    'until', extract(epoch from own.created_at) * 1000, 'backfill_id', backfill_id, 'matched', matched,
    'written', written) order by gap.topic, gap.subscriber), '[]') as found
  from gap left join events as oldest on oldest.id = oldest_id left join events as own on own.id = own_id`;
