import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
import { readDeliveryId } from '../delivery-id.ts';
import { clock, logged } from '../parts.ts';
import { NotActedOn } from '../refusals.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Word } from './asked.ts';

/** A delivery that an operator has acted on, and its subscription. */
export interface ActedOn extends SubscriptionName {
  readonly deliveryId: string;
}

/** What an operator asks for. */
export interface Asked extends Pick<Word, 'by'> {
  readonly deliveryId: string;
  readonly reason?: string | null;
  /** The incident that it is for. */
  readonly incidentId?: string | null;
  /** Overrides the database's clock: all that one act takes has its instant. */
  readonly now?: Date;
}

/** The first unfinished delivery of a lane or of its key, which holds back what comes after it, with the lane locked. */
interface FirstOfLane extends FoundDelivery {
  /** The parameters of `acting`. */
  readonly values: readonly unknown[];
}

/**
 * Runs an operator's action on the delivery that holds its lane, or its key in it, in a transaction.
 *
 * @param act runs a statement that `acting` has made. The delivery has a row of `exceptions` by then.
 * @throws NotActedOn when there is no such delivery, when it does not hold its lane, when a dead letter in front of it halts
 *   the lane, or when a relay has it in hand.
 */
export async function onFirstOfLane(
  db: Database,
  { deliveryId, by, reason = null, incidentId = null, now }: Asked,
  act: (tx: Transaction, first: FirstOfLane) => Promise<void>,
): Promise<ActedOn> {
  const at = now?.toISOString() ?? null;
  return await db.transaction(async (tx) => {
    await run(tx, { text: LOCK, values: namesIn(deliveryId) });
    const found = await requireFirstOfLane(tx, deliveryId, now);
    const { topic, subscriber, lane, position } = found;
    if (!found.is_exception) await run(tx, { text: PARK, values: [lane, position, found.head, at] });
    const values = [lane, position, topic, subscriber, by, reason, at, uuidv7(), incidentId, deliveryId];
    await act(tx, { ...found, values });
    noteDue(tx);
    return { deliveryId, topic, subscriber };
  });
}

/**
 * Reads the delivery that an action would be on, and locks nothing.
 *
 * @throws NotActedOn as the action would.
 */
async function requireFirstOfLane(on: Executor, deliveryId: string, now?: Date): Promise<FoundDelivery> {
  const values = [...namesIn(deliveryId), now?.toISOString() ?? null];
  const [found] = await run<FoundDelivery>(on, { text: FIRST_OF_LANE, values });
  if (!found) throw new NotActedOn('not_found');
  if (!found.is_unfinished) throw new NotActedOn('not_waiting');
  if (!found.is_free) throw new NotActedOn('under_way');
  if (found.halted_by !== null)
    throw new NotActedOn(
      'halted',
      `Dead letter ${found.halted_by} halts this lane. Replay or dismiss that one.`,
    );
  if (!found.is_first) throw new NotActedOn('not_first');
  return found;
}

/** @throws NotActedOn where the text is not the id of a delivery. */
function namesIn(deliveryId: string): readonly [eventId: string, subscriber: string] {
  const names = readDeliveryId(deliveryId);
  if (!names) throw new NotActedOn('not_found');
  return [names.eventId, names.subscriber];
}

interface FoundDelivery extends SubscriptionName {
  readonly lane: number;
  /** As text. */
  readonly position: string;
  readonly head: string;
  readonly is_exception: boolean;
  readonly is_free: boolean;
  readonly is_first: boolean;
  /** The id of the dead letter in front of it that halts the lane. */
  readonly halted_by: string | null;
  readonly is_unfinished: boolean;
  readonly attempts: number;
}

const LOCK = `
  select postbud_lock_lanes_2(array(
    select lanes.id from log join lanes using (stream) where log.event_id = $1::uuid and lanes.subscriber = $2::text
  ))`;

// All up to it become exceptions, so that it has a row.
const PARK = `
  select postbud_park_1(array[$1::int], ($2::bigint - $3::bigint)::int, coalesce($4::text::timestamptz, clock_timestamp()))`;

// A relay that holds the lane may have in hand whatever is due, and the log beyond the head. It can't have begun an exception
// that is due later, unless it holds it.
const FIRST_OF_LANE = `
  with ${clock('$3')}
  select lane.topic, lane.subscriber, lane.id as lane, target.position::text as position, lane.head::text as head,
    target.attempts, exception.lane is not null as is_exception, target.state in ('pending', 'failing') as is_unfinished,
    lane.leased_until is null or coalesce(not is_held and due_at > clock.now, false) as is_free,
    not exists (
      select from exceptions as earlier
      where earlier.lane = lane.id and earlier.ordering_key = target.ordering_key and earlier.is_open
        and earlier.position < target.position and earlier.state in ('pending', 'failing')
    ) and not exists (
      select from log as earlier
      where earlier.stream = lane.stream and earlier.position > lane.head and earlier.position < target.position
        and earlier.ordering_key = target.ordering_key and lane.subscriber = any ((
          select subscribers from audiences
          where audiences.stream = lane.stream and audiences.position <= earlier.position
          order by audiences.position desc limit 1
        )::text[])
    ) as is_first,
    (
      select dead.event_id || '.' || lane.subscriber from exceptions as dead
      where dead.lane = lane.id and dead.ordering_key = target.ordering_key and dead.is_open
        and dead.position < target.position and dead.state = 'dead_lettered'
      order by dead.position limit 1
    ) as halted_by
  from clock, deliveries as target join lane_heads as lane on lane.id = target.lane
    left join exceptions as exception on exception.lane = target.lane and exception.position = target.position
  where target.event_id = $1::uuid and target.subscriber = $2::text`;

/**
 * Makes the statement of an action, which also records it. Its parameters are the delivery's lane and position, its topic and
 * subscriber, the operator, the reason, the override of the clock, the record's id, the incident, and the delivery's id.
 *
 * @param ctes read `clock` (now). One of them is `acted` (lane and ordering_key), without a row where there is nothing to
 *   record.
 */
export const acting = (action: 'retry' | 'probe' | 'skip', ctes: string) => `
  with ${clock('$7')},${ctes},
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason, incident_id)
    select $8::uuid, clock.now, $5::text, '${action}', $3::text, $4::text, $10::text, $6::text, $9::text::uuid
    from clock, acted
  )
  select postbud_make_due_1(array_agg(lane), array_agg(ordering_key), min(clock.now)) from clock, acted having count(*) > 0`;

/** The delivery's log with the action at its end. @param more keys and values. */
export const withAction = (outcome: string, more?: string) =>
  logged(outcome, { by: '$5::text', reason: '$6::text', ...(more && { more }) });
