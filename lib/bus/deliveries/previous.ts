import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import type { ClaimedLane } from './claim.ts';

/** The delivery just before a claimed one in its order, when its lane was claimed. */
export interface PreviousDelivery {
  readonly position: number;
  readonly eventId: string;
  readonly isDead: boolean;
}

/**
 * Finds the deliveries just before those of a claimed lane, or, where it carries ordering keys, of their keys. A component
 * elsewhere learns of them, and so of what was skipped.
 *
 * @returns by the position of the claimed delivery; none for the first of an order, and where those before it are pruned.
 */
export async function previousOf(
  db: Database,
  { home, id, isShared, deliveries }: ClaimedLane,
): Promise<ReadonlyMap<number, PreviousDelivery>> {
  const hasKeys = isShared || id !== home;
  const asked = deliveries.map(({ position, event }) => ({ position, key: event.orderingKey }));
  const found = await run<PreviousDelivery & { readonly of: number }>(driverOf(db), {
    ...(hasKeys ? { name: 'previous_of_keys', text: OF_KEYS } : { name: 'previous', text: OF_LANE }),
    values: [home, JSON.stringify(asked)],
    limitMs: TURN_LIMIT_MS,
  });
  return new Map(found.map(({ of, ...previous }) => [of, previous]));
}

const previous = (asked: string, ofKey: string, inOrder: string) => `
  select asked.position::float8 as of, previous.position::float8 as position, event_id::text as "eventId",
    state = 'dead_lettered' as "isDead"
  from json_to_recordset($2::text::json) as asked(${asked}), lateral (
    select deliveries.position, event_id, state from deliveries
    where lane_id = $1::text::bigint ${ofKey} and deliveries.position < asked.position
    order by ${inOrder} limit 1
  ) as previous`;

const OF_LANE = previous('position bigint', '', 'lane_id desc, deliveries.position desc');

// Ordered as the index of keys has them: that of the primary key would read those of all other keys.
const OF_KEYS = previous(
  'position bigint, key text',
  'and lane_key = key',
  'lane_id desc, lane_key desc, deliveries.position desc',
);
