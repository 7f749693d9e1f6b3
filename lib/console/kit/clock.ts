import { sql } from 'drizzle-orm';

import { events } from '../../../drizzle/schema.ts';

/** The database's clock, as a column of a row. */
export const now = sql`clock_timestamp()`.mapWith(events.createdAt);
