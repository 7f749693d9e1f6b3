import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Places } from './place.ts';

/** All events, by their ids: a UUIDv7 begins with its time. */
export function newestEvents(db: Database): Places {
  return async (after, size) => {
    const found = await run<{ id: string }>(driverOf(db), {
      text: NEWEST,
      values: [after?.in === 'ids' ? after.id : LAST_ID, size],
    });
    return found.map(({ id }) => ({ eventId: id, position: null, cursor: { in: 'ids', id } }));
  };
}

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const NEWEST =
  'select id::text from events where events.id < $1::text::uuid order by events.id desc limit $2::int';
