import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Places } from './place.ts';
import type { EventsQuery } from './query.ts';

/** The events that wait for fan-out. */
export function awaitingEvents(db: Database, { topic, subscriber }: EventsQuery): Places {
  return async (after, size) => {
    const cursor = after?.in === 'awaiting' ? after : null;
    const found = await run<{ id: string; at: string; seq: string }>(driverOf(db), {
      text: AWAITING,
      values: [topic ?? null, subscriber ?? null, cursor?.at ?? 'infinity', cursor?.seq ?? '0', size],
    });
    return found.map(({ id, at, seq }) => ({
      eventId: id,
      position: null,
      cursor: { in: 'awaiting', at, seq },
    }));
  };
}

// From each topic to the next: the index has them in the order of their topics.
const AWAITING = `
  with recursive known as (
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (select next.topic from awaiting_fan_out as next where next.topic > known.topic order by next.topic limit 1)
    from known where known.topic is not null
  )
  select event_id::text as id, to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
    seq::text as seq
  from known, lateral (
    select event_id, created_at, seq from awaiting_fan_out as awaiting
    where awaiting.topic = known.topic and (created_at, seq) < ($3::text::timestamptz, $4::text::bigint)
      and ($2::text is null or subscribers is null or $2::text = any (subscribers))
    order by created_at desc, seq desc limit $5::int
  ) as newest
  where $1::text is null or known.topic = $1::text
  order by newest.created_at desc, newest.seq desc limit $5::int`;
