import { topics } from '../../bus/catalog/catalog.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** An event, or a timer, whose own id, delivery or key was searched. */
export interface NamedEvent {
  readonly eventId: string;
  /** Null before fan-out, or if the event is not known by a delivery and no subscriber's is asked for. */
  readonly position: number | null;
  readonly by: 'event id' | 'delivery id' | 'deduplication key' | 'timer key';
}

/** Finds the events that primary keys and unique keys lead to, newest first. */
export async function findNamed(
  db: Database,
  q: string,
  { needsPosition, limit }: { readonly needsPosition: boolean; readonly limit: number },
): Promise<NamedEvent[]> {
  const [from, to] = rangeOf(q) ?? [null, null];
  const [lane, position] = deliveryOf(q) ?? [null, null];
  return await run<NamedEvent>(driverOf(db), {
    text: NAMED,
    values: [from, to, lane, position, q, TOPICS, needsPosition, limit],
  });
}

/** Fewer digits would be those of events of weeks: an id begins with its time. */
const FEWEST_DIGITS = 8;

/** @returns the first and the last id that begin like this; null for what is not the beginning of an id. */
function rangeOf(q: string): readonly [from: string, to: string] | null {
  const digits = q.toLowerCase().replaceAll('-', '');
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < FEWEST_DIGITS || digits.length > 32) return null;
  // A delivery id has one dash, and an event id's first is behind the eighth digit.
  if (q.includes('-') && q.indexOf('-') !== 8) return null;
  return [digits.padEnd(32, '0'), digits.padEnd(32, 'f')];
}

function deliveryOf(q: string): readonly [lane: string, position: string] | null {
  const [, lane, position] = /^(\d{1,18})-(\d{1,18})$/.exec(q) ?? [];
  return lane === undefined || position === undefined ? null : [lane, position];
}

const TOPICS = `{${topics()
  .map(([topic]) => topic)
  .join(',')}}`;

// The webhooks of a provider carry its event id in the payload, so the index leads to them.
const NAMED = `
  with named as materialized (
    (
      select id, 'event id' as by, null::bigint as position from events
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $8::int
    )
    union all
    (
      select id, 'event id', null from timers
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $8::int
    )
    union all
    select id, 'timer key', null from timers where timer_key = $5::text
    union all
    select event_id, 'delivery id', position from deliveries
    where lane_id = $3::text::bigint and position = $4::text::bigint
    union all
    select events.id, 'deduplication key', null
    from unnest($6::text::text[]) as known(topic) join events on events.topic = known.topic and dedupe_key = $5::text
  )
  select id::text as "eventId", by, coalesce(position, case when $7::boolean then (
    select position from deliveries where event_id = named.id limit 1
  ) end)::float8 as position
  from named order by id desc`;
