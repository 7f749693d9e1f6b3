import { and, desc, getTableColumns, inArray, isNull, sql } from 'drizzle-orm';

import { webhooksSetAside } from '../../../drizzle/schema.ts';
import type { Provider } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { cursorOf } from './query.ts';
import type { WebhookQuery } from './query.ts';

/** A webhook that waits for its payment intent. */
export interface FoundSetAside extends Omit<typeof webhooksSetAside.$inferSelect, 'seq'> {
  /** When it was set aside, in Postgres's notation, to the microsecond. */
  readonly at: string;
}

/** Finds the webhooks that were set aside and still wait, newest first, with one more than requested if there is one. */
export async function findSetAside(
  db: Database,
  from: readonly Provider[],
  query: WebhookQuery,
): Promise<readonly FoundSetAside[]> {
  const { at, eventId: lastId } = cursorOf('setAside', query);
  const { provider, eventId, setAsideAt, unclaimedAt } = webhooksSetAside;
  const isOlder = sql`(${setAsideAt}, ${eventId}) < (${at}::text::timestamptz, ${lastId}::uuid)`;
  return await db
    .select({
      ...getTableColumns(webhooksSetAside),
      at: sql<string>`to_char(${setAsideAt} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    })
    .from(webhooksSetAside)
    .where(and(isNull(unclaimedAt), inArray(sql`${provider}`, from), at === undefined ? undefined : isOlder))
    .orderBy(desc(setAsideAt), desc(eventId))
    .limit(query.limit + 1);
}
