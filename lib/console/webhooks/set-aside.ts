import { and, desc, getTableColumns, inArray, isNull, sql } from 'drizzle-orm';

import { webhooksSetAside } from '../../../drizzle/schema.ts';
import { UNCLAIMED_AFTER_MS } from '../../components/payments/set-aside.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf } from '../../platform/time.ts';
import type { WebhookSetAside } from './fields.ts';
import { placeIn } from './query.ts';
import type { Placed, WebhookQuery } from './query.ts';

/** Finds the webhooks that were set aside and still wait, newest first, with one more than requested if there is one. */
export async function findSetAside(
  db: Database,
  from: readonly string[],
  query: WebhookQuery,
): Promise<readonly Placed<WebhookSetAside>[]> {
  const { at: lastAt, eventId: lastId } = placeIn('setAside', query);
  const {
    unclaimedAt,
    correlationId: _,
    createdAt: __,
    seq: ___,
    ...columns
  } = getTableColumns(webhooksSetAside);
  const { provider, eventId, setAsideAt } = columns;
  const isOlder = sql`(${setAsideAt}, ${eventId}) < (${lastAt}::text::timestamptz, ${lastId}::uuid)`;
  const found = await db
    .select({
      item: columns,
      // In Postgres's notation, to the microsecond.
      at: sql<string>`to_char(${setAsideAt} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    })
    .from(webhooksSetAside)
    .where(
      and(isNull(unclaimedAt), inArray(sql`${provider}`, from), lastAt === undefined ? undefined : isOlder),
    )
    .orderBy(desc(setAsideAt), desc(eventId))
    .limit(query.limit + 1);
  return found.map(({ item: { statements, ...item }, at }) => ({
    item: {
      ...item,
      outcome: item.reason === 'unread' ? item.reason : (statements?.[0]?.kind ?? item.outcome.state),
      setAsideAt: instantOf(item.setAsideAt),
      unclaimedAt:
        item.reason === 'no_intent' ? instantOf(item.setAsideAt.getTime() + UNCLAIMED_AFTER_MS) : null,
    },
    place: { at, eventId: item.eventId },
  }));
}
