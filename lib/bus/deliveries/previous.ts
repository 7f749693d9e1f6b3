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
  { lane, isKeyed, deliveries }: ClaimedLane,
): Promise<ReadonlyMap<number, PreviousDelivery>> {
  const asked = deliveries.map(({ position, event }) => ({ position, key: event?.orderingKey }));
  const found = await run<PreviousDelivery & { readonly of: number }>(driverOf(db), {
    ...(isKeyed ? { name: 'previous_of_keys', text: OF_KEYS } : { name: 'previous', text: OF_LANE }),
    values: [lane, JSON.stringify(asked)],
    limitMs: TURN_LIMIT_MS,
  });
  return new Map(found.map(({ of, ...previous }) => [of, previous]));
}

/**
 * The limits keep the planner from reading whole tables.
 *
 * @param previous SQL that finds `position` and `event_id`.
 */
const statement = (previous: string) => `
  select asked.position::float8 as of, previous.position::float8 as position, event_id::text as "eventId", coalesce((
      select state = 'dead_lettered' from exceptions where lane = lanes.id and exceptions.position = previous.position limit 1
    ), false) as "isDead"
  from json_to_recordset($2::text::json) as asked(position bigint, key text) join lanes on lanes.id = $1::int, lateral (
    ${previous}
  ) as previous
  -- The newest place of a stream stays when its event is pruned.
  where event_id is not null`;

// The newest before it that was for the subscriber: in the last range of places which were, or one that has a row.
const OF_LANE = statement(`
    select log.position, event_id from log
    where log.stream = lanes.stream and log.position = greatest((
      select least(asked.position, (
          select position from audiences as next
          where next.stream = audience.stream and next.position > audience.position order by position limit 1
        )) - 1
      from audiences as audience
      where audience.stream = lanes.stream and audience.position < asked.position and lanes.subscriber = any (subscribers)
      order by audience.stream desc, audience.position desc limit 1
    ), (
      select position from exceptions where lane = lanes.id and exceptions.position < asked.position
      order by lane desc, position desc limit 1
    )) limit 1`);

// Ordered as the index of keys has them: that of the primary key would read those of all other keys.
const OF_KEYS = statement(`
    select log.position, event_id from log
    where log.stream = lanes.stream and log.ordering_key = key and log.ordering_key <> '' and log.position < asked.position
      and (
        lanes.subscriber = any ((
          select subscribers from audiences
          where audiences.stream = log.stream and audiences.position <= log.position order by audiences.position desc limit 1
        )::text[])
        or exists (select from exceptions where lane = lanes.id and exceptions.position = log.position)
      )
    order by log.stream desc, log.ordering_key desc, log.position desc limit 1`);
