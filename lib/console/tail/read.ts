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
import { relayState } from '../overview/read.ts';

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
    relay: z.enum(['running', 'stalled', 'never_run']),
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
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: NEWEST,
    values: [topic, subscriber, only, limit],
  });
  const { at, items, ...relay } = row!.found;
  return {
    generatedAt: at,
    filters: { topic, subscriber, outcome: only, limit },
    relay: relayState(relay).state,
    items: items.map((one) => ({
      ...listedOf(one.topic, one),
      maxAttempts: maxAttemptsOf(one.topic, one.subscriber, attached),
    })),
  };
}

type Found = Parameters<typeof relayState>[0] & {
  readonly at: string;
  readonly items: readonly (Row<typeof itemFields> & BesideListed)[];
};

/** Longer payloads are not read, so nothing is said of what is in them. */
const READ_PAYLOAD_BYTES = 16 * 1024;

const IS_MATCHING = `($1::text is null or lanes.topic = $1::text) and ($2::text is null or lanes.subscriber = $2::text)`;

// Each settlement has a delivery at least, unless it has failures alone. So the newest deliveries are among the newest
// settlements, which are those of the lanes that were settled last.
const NEWEST = `
  with settled as materialized (
    select lanes.id, lanes.stream from lanes, lateral (
      select at from journal where lane = lanes.id and first is not null order by head desc, number desc limit 1
    ) as newest
    where ${IS_MATCHING} and coalesce($3::text = 'delivered', true)
    order by newest.at desc limit $4::int
  ),
  settlement as materialized (
    select settled.id as lane, settled.stream, newest.* from settled, lateral (
      select at, first, took_ms, ago_ms from journal
      where lane = settled.id and first is not null order by head desc, number desc limit $4::int
    ) as newest
    order by newest.at desc limit $4::int
  ),
  outcome as (
    select * from (
      select lane, first + nth - 1 as position, 'delivered'::delivery_state as state, 1::smallint as attempts,
        took as duration_ms, null::jsonb as attempt_log, at - ago * interval '1 millisecond' as at
      from settlement, unnest(took_ms, ago_ms) with ordinality as handled(took, ago, nth)
      where took is not null order by at desc, position desc limit $4::int
    ) as at_first
    -- What is delivered again has a row of its own.
    where not exists (
      select from exceptions where exceptions.lane = at_first.lane and exceptions.position = at_first.position
    )
    union all
    (
      select lane, position, state, attempts, duration_ms, attempt_log, delivered_at
      from exceptions join lanes on lanes.id = lane
      where delivered_at is not null and ${IS_MATCHING} and coalesce($3::text = 'delivered', true)
      order by delivered_at desc limit $4::int
    )
    union all
    (
      select lane, position, state, attempts, duration_ms, attempt_log, attempted_at
      from exceptions join lanes on lanes.id = lane
      where is_open and state = 'failing' and ${IS_MATCHING} and coalesce($3::text = 'failing', true)
      order by attempted_at desc limit $4::int
    )
    union all
    (
      select lane, position, state, attempts, duration_ms, attempt_log, dead_lettered_at
      from exceptions join lanes on lanes.id = lane
      where dead_lettered_at is not null and ${IS_MATCHING} and coalesce($3::text = 'dead_lettered', true)
      order by dead_lettered_at desc limit $4::int
    )
  ),
  newest as materialized (
    select * from outcome order by at desc, position desc, lane limit $4::int
  ),
  shown as (
    select newest.*, lanes.topic, lanes.subscriber, log.event_id, (attempt_log -> -1) - 'answer' as last, events.version,
      case when bytes <= ${READ_PAYLOAD_BYTES} then payload end as payload
    from newest join lanes on lanes.id = lane
      join log on log.stream = lanes.stream and log.position = newest.position join events on events.id = log.event_id
  )
  select json_build_object(
    'at', ${instantSql('clock_timestamp()')},
    'now', extract(epoch from clock_timestamp()) * 1000,
    'last_pass', (select extract(epoch from at) * 1000 from last_pass limit 1),
    'items', (
      select coalesce(json_agg(${jsonOf(itemFields, BESIDE_LISTED)} order by at desc, position desc, lane), '[]') from shown
    )
  ) as found`;
