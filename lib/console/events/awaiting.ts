import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import type { Waiting } from './place.ts';
import type { Cursor, EventsQuery } from './query.ts';

/** The events that wait for fan-out. Older ones than the query's period are left out, since newer ones are in lanes. */
export function awaitingEvents(db: Database, { topic, subscriber, since }: EventsQuery, now?: Date) {
  return async (after: Cursor | null, size: number): Promise<Waiting> => {
    const cursor = after?.in === 'awaiting' ? after : null;
    const found = await run<{ id: string; at: string; seq: string; next: number }>(driverOf(db), {
      text: AWAITING,
      values: [
        topic ?? null,
        subscriber ?? null,
        cursor?.at ?? 'infinity',
        cursor?.seq ?? '0',
        size,
        since === undefined ? null : msOf(since),
        now?.toISOString() ?? null,
      ],
    });
    return {
      places: found.map(({ id, at, seq, next }) => ({
        eventId: id,
        position: null,
        cursor: { in: 'awaiting', at, seq, next: cursor ? cursor.next : next },
      })),
      next: found[0]?.next ?? Number.MAX_SAFE_INTEGER,
    };
  };
}

// From each topic to the next: the index has them in the order of their topics. The next position is not asked of its
// sequence, which knows of those that are not committed.
const AWAITING = `
  with recursive known as (
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (select next.topic from awaiting_fan_out as next where next.topic > known.topic order by next.topic limit 1)
    from known where known.topic is not null
  )
  select event_id::text as id, to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
    seq::text as seq, (select coalesce(max(tail), 0) + 1 from lanes)::float8 as next
  from known, lateral (
    select event_id, created_at, seq from awaiting_fan_out as awaiting
    where awaiting.topic = known.topic and (created_at, seq) < ($3::text::timestamptz, $4::text::bigint)
      and ($6::float8 is null or created_at >= coalesce($7::text::timestamptz, clock_timestamp())
        - $6::float8 * interval '1 millisecond')
      and ($2::text is null or subscribers is null or $2::text = any (subscribers))
    order by created_at desc, seq desc limit $5::int
  ) as newest
  where $1::text is null or known.topic = $1::text
  order by newest.created_at desc, newest.seq desc limit $5::int`;
