import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
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
 * The CTE `held`: lanes of `subscription` (topic, subscriber, and what waits in it) whose first delivery waits for its next
 * attempt, the soonest first. Their rows are compared as the index has them: the planner would read the lanes of all keys in
 * trouble. The limits keep it from joining whole tables.
 */
export const HELD = `
  soonest as materialized (
    select lane.*, subscription.waiting from clock, subscription, lateral (
      select * from lanes
      where (lanes.topic, lanes.subscriber, due_at) > (subscription.topic, subscription.subscriber, clock.now)
        and (lanes.topic, lanes.subscriber, due_at) < (subscription.topic, subscription.subscriber, 'infinity')
        and due_at is not null and lease_token is null
      order by lanes.topic, lanes.subscriber, due_at limit ${LISTED_LANES}
    ) as lane
    order by due_at limit ${LISTED_LANES}
  ),
  held as (
    select coalesce(lanes.home_id, lanes.id) as lane_id, first.position, lanes.topic, lanes.subscriber, event.ordering_key,
      first.event_id, first.attempts, (first.attempt_log -> -1) - 'answer' as last, payload, version,
      -- In an outage, not before the next probe.
      greatest(due_at, (
        select next_probe_at from outages where outages.subscriber = lanes.subscriber and recovered_at is null
      )) as next_attempt_at,
      case when counted is not null then least(counted, ${COUNTED_BEHIND})
        else greatest(lanes.waiting - 1, 0) + (
          select count(*) from awaiting_fan_out as fresh
          where fresh.topic = lanes.topic and lanes.subscriber = any (fresh.subscribers)
        ) end as behind,
      coalesce(counted > ${COUNTED_BEHIND}, false) as is_more_behind
    from soonest as lanes, lateral postbud_next_2(lanes.id, home_id, slot, held_key, head, 1) as next, lateral (
        select deliveries.position, deliveries.event_id, deliveries.attempts, attempt_log from deliveries
        where lane_id = coalesce(home_id, lanes.id) and deliveries.position = next.position limit 1
      ) as first, lateral (
        select ordering_key, payload, events.version from events where events.id = first.event_id limit 1
      ) as event, lateral (
        -- The counts of a subscription's only lane are known.
        select case when exists (
          select from lanes as other where other.topic = lanes.topic and other.subscriber = lanes.subscriber
            and other.id <> lanes.id
        ) then (
          select count(*) - 1
          from postbud_next_2(lanes.id, home_id, slot, held_key, head, ${COUNTED_BEHIND + 2})
        ) end as counted
      ) as behind
  )`;

/** The rows of `held` as JSON. */
export const HELD_LANES = `(
      select coalesce(json_agg(${jsonOf(heldFields, BESIDE_LISTED)} order by next_attempt_at), '[]') from held
    )`;
