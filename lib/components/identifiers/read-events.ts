import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { Described, Keys } from './identifier.ts';

/** An event with its identifiers. */
export interface PlacedEvent extends Keys, Described {
  readonly position: number;
  readonly id: string;
}

/** Reads the events from one position on and below another, in the order of their positions. */
export async function readEvents(tx: Transaction, from: number, to: number): Promise<PlacedEvent[]> {
  return await run<PlacedEvent>(tx, { text: EVENTS, values: [from, to] });
}

// An event has the same position in the lanes of all its subscribers. Lanes of keys in trouble have no deliveries of
// their own. The offset keeps the planner from reading the deliveries of all lanes at once.
const EVENTS = `
  with placed as materialized (
    select distinct on (position) position, event_id
    from lanes, lateral (
      select position, event_id from deliveries
      where lane_id = lanes.id and position >= $1::float8::bigint and position < $2::float8::bigint
      order by position offset 0
    ) as delivery
    where tail >= $1::float8::bigint and home_id is null
    order by position
  )
  select position::float8 as position, id::text as id, correlation_id as "correlationId",
    causation_id as "causationId", ordering_key as "orderingKey", dedupe_key as "dedupeKey", topic,
    version, payload
  from placed join events on id = event_id
  order by position`;
