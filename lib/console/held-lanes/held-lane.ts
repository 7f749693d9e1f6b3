import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { waitingBehind } from '../../components/incidents/halts.ts';
import { computed, field, instant, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { allowedAttempts, maxAttemptsOf } from '../kit/handling.ts';
import { BESIDE_LISTED, listedFields, listedOf } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import * as shape from '../kit/shapes.ts';

const { lastError, ...deliveryFields } = listedFields;

const heldFields = {
  topic: field(shape.topic, 'topic'),
  subscriber: field(z.string(), 'subscriber'),
  orderingKey: field(z.string(), 'ordering_key'),
  ...deliveryFields,
  deliveryId: field(
    z.string().meta({ description: 'The delivery that holds the lane.' }),
    listedFields.deliveryId.sql,
  ),
  attempts: field(shape.count.meta({ description: 'Failed attempts so far.' }), 'attempts'),
  maxAttempts: computed(allowedAttempts),
  nextAttemptAt: instant('next_attempt_at'),
  lastError,
  behind: field(shape.count.meta({ description: 'Deliveries that wait behind it.' }), 'behind'),
  isMoreBehind: field(
    z.boolean().meta({ description: 'Whether more deliveries wait than `behind` counts.' }),
    'is_more_behind',
  ),
};
export const heldLane = z
  .object(shapesOf(heldFields))
  .meta({ id: 'HeldLane', description: 'A lane whose first delivery waits for a retry.' });
export type HeldLane = z.output<typeof heldLane>;

/** What the statement reads of one. */
export interface FoundHeldLane extends Row<typeof heldFields>, BesideListed {}

/** @param attached tells how many attempts a delivery has. */
export function heldLaneOf(found: FoundHeldLane, attached: readonly AttachedSubscriber[]): HeldLane {
  const { topic, subscriber } = found;
  return { ...listedOf(topic, found), maxAttempts: maxAttemptsOf(topic, subscriber, attached) };
}

/** Lanes that a page lists. */
export const LISTED_LANES = 50;

const COUNTED_BEHIND = 10_000;

/**
 * The CTE `held`: lanes of `subscription` (topic, subscriber), or keys in them, whose first delivery waits for its next attempt,
 * the soonest first.
 */
export const HELD = `
  soonest as materialized (
    select lanes.stream, lanes.slot, lanes.topic, lanes.subscriber, first.*
    from clock, subscription join lanes using (topic, subscriber), lateral (
      select * from exceptions as held
      where held.lane = lanes.id and due_at > clock.now
        -- One that was the first before a replay put an earlier one back still has its time.
        and not exists (
          select from exceptions as earlier
          where earlier.lane = held.lane and earlier.ordering_key = held.ordering_key and earlier.is_open
            and earlier.position < held.position
        )
      order by due_at limit ${LISTED_LANES}
    ) as first
    order by due_at limit ${LISTED_LANES}
  ),
  held as (
    select first.topic, first.subscriber, first.ordering_key, first.event_id, first.attempts,
      (first.attempt_log -> -1) - 'answer' as last, payload, events.version,
      -- In an outage, not before the next probe.
      greatest(first.due_at, (
        select next_probe_at from outages where outages.subscriber = first.subscriber
      )) as next_attempt_at,
      case when slot > 0 then least(number, ${COUNTED_BEHIND}) else number + (
        select count(*) from awaiting where awaiting.topic = first.topic and first.subscriber = any (awaiting.subscribers)
      ) end as behind,
      slot > 0 and number > ${COUNTED_BEHIND} as is_more_behind
    from soonest as first join events on events.id = first.event_id, lateral (
      select ${waitingBehind('first', `case when first.slot > 0 then ${COUNTED_BEHIND + 2} end`)} - 1 as number
    ) as behind
  )`;

/** The rows of `held` as JSON. */
export const HELD_LANES = `(
      select coalesce(json_agg(${jsonOf(heldFields, BESIDE_LISTED)} order by next_attempt_at), '[]') from held
    )`;
