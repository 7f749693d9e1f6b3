import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import type { Executor } from '../../../platform/db/statement.ts';
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

/** The first unfinished delivery of a lane, which holds the lane, with the lane locked. */
interface FirstOfLane extends FoundDelivery {
  /** The parameters of `acting`. */
  readonly values: readonly unknown[];
}

/**
 * Runs an operator's action on the delivery that holds its lane, in a transaction.
 *
 * @param act runs a statement that `acting` has made.
 * @throws NotActedOn when there is no such delivery, when it does not hold its lane, when a dead letter in front of it halts
 *   the lane, or when a relay holds the lane.
 */
export async function onFirstOfLane(
  db: Database,
  { deliveryId, by, reason = null, incidentId = null, now }: Asked,
  act: (tx: Transaction, first: FirstOfLane) => Promise<void>,
): Promise<ActedOn> {
  return await db.transaction(async (tx) => {
    const [home = '', position = ''] = deliveryId.split('-');
    // Once more, because whoever had the first one's lane may have given its key a lane of its own.
    for (let locks = 0; locks < 2; locks += 1) await run(tx, { text: LOCK, values: [home, position] });
    const found = await requireFirstOfLane(tx, deliveryId);
    const { topic, subscriber, lane_id: laneId } = found;
    const at = now?.toISOString() ?? null;
    const values = [home, position, laneId, topic, subscriber, by, reason, at, uuidv7(), incidentId];
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
export async function requireFirstOfLane(on: Executor, deliveryId: string): Promise<FoundDelivery> {
  const [found] = await run<FoundDelivery>(on, { text: FIRST_OF_LANE, values: deliveryId.split('-') });
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

interface FoundDelivery extends SubscriptionName {
  readonly lane_id: string;
  readonly event_id: string;
  readonly is_free: boolean;
  readonly is_first: boolean;
  /** The id of the dead letter in front of it that halts the lane. */
  readonly halted_by: string | null;
  readonly is_unfinished: boolean;
  readonly attempts: number;
}

// A claim locks the row too.
const LOCK = `
  select id from lanes where id = $1::text::bigint or home_id = $1::text::bigint and held_key = (
    select lane_key from deliveries where lane_id = $1::text::bigint and position = $2::text::bigint
  )
  order by id for update`;

const FIRST_OF_LANE = `
  select home.topic, home.subscriber, lane.id::text as lane_id, event_id::text, lane.lease_token is null as is_free,
    state in ('pending', 'failing') as is_unfinished,
    -- A wait that the handler asked for does not count as an attempt.
    attempts,
    not exists (
      select from deliveries as earlier
      where earlier.lane_id = home.id and earlier.position > lane.head and earlier.position < target.position
        and (target.lane_key is null or earlier.lane_key = target.lane_key) and earlier.state in ('pending', 'failing')
    ) as is_first, (
      select dead.lane_id || '-' || dead.position from halts join deliveries as dead using (lane_id, position)
      where dead.lane_id = home.id and halts.lane_key is not distinct from target.lane_key
        and dead.position < target.position and dead.state = 'dead_lettered' and dead.dismissed_at is null
      order by dead.position limit 1
    ) as halted_by
  from deliveries as target join lanes as home on home.id = target.lane_id
    left join lanes as of_key on of_key.home_id = home.id and of_key.held_key = target.lane_key
    join lanes as lane on lane.id = coalesce(of_key.id, home.id)
  where target.lane_id = $1::text::bigint and target.position = $2::text::bigint`;

/**
 * Makes the statement of an action, which also records it. Its parameters are the delivery's home and position, the lane
 * that delivers it (its home, or the lane of its key), its topic and subscriber, the operator, the reason, the override of
 * the clock, the record's id and the incident.
 *
 * @param ctes read `clock` (now). One of them is `acted`, without a row where there is nothing to record.
 */
export const acting = (action: 'retry' | 'probe' | 'skip', ctes: string) => `
  with ${clock('$8')},${ctes}
  insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason, incident_id)
  select $9::uuid, clock.now, $6::text, '${action}', $4::text, $5::text, $1::text || '-' || $2::text, $7::text,
    $10::text::uuid
  from clock, acted
  returning id`;

/** The delivery's log with the action at its end. @param more keys and values. */
export const withAction = (outcome: string, more?: string) =>
  logged(outcome, { by: '$6::text', reason: '$7::text', ...(more && { more }) });
