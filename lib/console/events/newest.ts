import { desc, lt } from 'drizzle-orm';

import { events } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import type { Places } from './place.ts';

/** All events, by their ids: a UUIDv7 begins with its time. */
export function newestEvents(db: Database): Places {
  return async (after, size) => {
    const found = await db
      .select({ id: events.id })
      .from(events)
      .where(lt(events.id, after?.in === 'ids' ? after.id : LAST_ID))
      .orderBy(desc(events.id))
      .limit(size);
    return found.map(({ id }) => ({ eventId: id, position: null, cursor: { in: 'ids', id } }));
  };
}

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
