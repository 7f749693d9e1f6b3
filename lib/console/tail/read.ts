import * as z from 'zod';

import { topicText } from '../kit/replay-request.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { computed, field, instant, instantSql, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { allowedAttempts, maxAttemptsOf } from '../kit/handling.ts';
import { BESIDE_LISTED, listedFields, listedOf } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import * as shape from '../kit/shapes.ts';

const outcome = z
  .enum(['delivered', 'failing', 'dead_lettered'])
  .meta({ description: 'How the last attempt ended: `failing` waits for the next one.' });

export const tailQuery = z.object({
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional().meta({ description: 'Only deliveries to this subscriber.' }),
  outcome: outcome.optional(),
  limit: shape.pageLimit,
});
export type TailQuery = z.output<typeof tailQuery>;

const itemFields = {
  at: instant('at', 'When the attempt ended, or the dead letter was written.'),
  outcome: field(outcome, 'state'),
  topic: field(shape.topic, 'topic'),
  subscriber: field(z.string(), 'subscriber'),
  ...listedFields,
  attempts: field(shape.count, 'attempts'),
  maxAttempts: computed(allowedAttempts),
  durationMs: field(z.number().nullable(), 'duration_ms', 'The time that the handler took.'),
};
const item = z.object(shapesOf(itemFields)).meta({ id: 'TailItem' });
export type TailItem = z.output<typeof item>;

export const tail = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({
      topic: z.string().nullable(),
      subscriber: z.string().nullable(),
      outcome: outcome.nullable(),
      limit: shape.count,
    }),
    items: z.array(item).meta({ description: 'The newest outcomes, newest first.' }),
  })
  .meta({ id: 'Tail', description: 'The newest outcomes of deliveries.' });
export type Tail = z.output<typeof tail>;

/** Reads the newest outcomes of deliveries. @param attached tells how many attempts a delivery has. */
export async function readTail(
  db: Database,
  query: TailQuery,
  attached: readonly AttachedSubscriber[] = [],
): Promise<Tail> {
  const { topic = null, subscriber = null, outcome: only = null, limit } = query;
  const [row] = await run<{ found: { at: string; items: (Row<typeof itemFields> & BesideListed)[] } }>(
    driverOf(db),
    { text: NEWEST, values: [topic, subscriber, only, limit] },
  );
  const { at, items } = row!.found;
  return {
    generatedAt: at,
    filters: { topic, subscriber, outcome: only, limit },
    items: items.map((one) => ({
      ...listedOf(one.topic, one),
      maxAttempts: maxAttemptsOf(one.topic, one.subscriber, attached),
    })),
  };
}

/** The lanes with the newest deliveries: positions are drawn over all lanes, in the order of fan-out. */
const NEWEST_LANES = 100;

/** The newest dead letters, and the lanes whose retry is last, among which those of a topic or a subscriber are sought. */
const NEWEST_IN_TROUBLE = 200;

/** Longer payloads are not read, so nothing is said of what is in them. */
const READ_PAYLOAD_BYTES = 16 * 1024;

const IS_MATCHING = `($1::text is null or lanes.topic = $1::text) and ($2::text is null or lanes.subscriber = $2::text)`;

// Nothing is indexed by the time of its delivery, which would cost each delivery. The newest are the last settled ones of
// the lanes that are furthest.
const NEWEST = `
  with lane as materialized (
    select lanes.id, lanes.topic, lanes.subscriber, lanes.head
    from home_lanes join lanes on lanes.id = home_lanes.lane_id
    where lanes.head > 0 and ${IS_MATCHING} and coalesce($3::text = 'delivered', true)
    order by lanes.head desc limit ${NEWEST_LANES}
  ),
  waiting as materialized (
    select coalesce(home_id, id) as id, nullif(held_key, '') as key, topic, subscriber, head
    from (
      select * from lanes
      where due_at > clock_timestamp() and due_at < 'infinity' and lease_token is null
      order by due_at desc limit ${NEWEST_IN_TROUBLE}
    ) as lanes
    where ${IS_MATCHING} and coalesce($3::text = 'failing', true)
  ),
  outcome as (
    select * from (
      select lane.topic, lane.subscriber, delivery.*, delivered_at as at
      from lane, lateral (
        select * from deliveries where lane_id = lane.id and position <= lane.head and state = 'delivered'
        order by position desc limit $4::int
      ) as delivery
      order by delivered_at desc limit $4::int
    ) as delivered
    union all
    select waiting.topic, waiting.subscriber, first.*, attempted_at as at
    from waiting, lateral (
      (
        select * from deliveries
        where waiting.key is null and lane_id = waiting.id and position > waiting.head
          and coalesce(state in ('pending', 'failing'), false)
        order by position limit 1
      )
      union all
      (
        select * from deliveries
        where lane_id = waiting.id and lane_key = waiting.key and position > waiting.head
          and coalesce(state in ('pending', 'failing'), false)
        order by lane_key, position limit 1
      )
    ) as first
    where first.state = 'failing'
    union all
    select lanes.topic, lanes.subscriber, dead.*, dead_lettered_at as at
    from (
      select * from deliveries where dead_lettered_at is not null
      order by dead_lettered_at desc, lane_id desc, position desc limit ${NEWEST_IN_TROUBLE}
    ) as dead
    join lanes on lanes.id = dead.lane_id
    where ${IS_MATCHING} and coalesce($3::text = 'dead_lettered', true)
  ),
  newest as materialized (
    select * from outcome order by at desc, position desc, lane_id limit $4::int
  ),
  shown as (
    select newest.*, (attempt_log -> -1) - 'answer' as last, version,
      case when payload_bytes <= ${READ_PAYLOAD_BYTES} then payload end as payload
    from newest join events on events.id = newest.event_id
  )
  select json_build_object(
    'at', ${instantSql('clock_timestamp()')},
    'items', (
      select coalesce(json_agg(${jsonOf(itemFields, BESIDE_LISTED)} order by at desc, position desc, lane_id), '[]') from shown
    )
  ) as found`;
