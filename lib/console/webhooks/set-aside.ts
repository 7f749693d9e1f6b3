import type { PaymentOutcome } from '../../../drizzle/schema.ts';
import type { Provider } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { cursorOf } from './query.ts';
import type { WebhookQuery } from './query.ts';

/** A webhook that waits for its payment intent. Times are epoch milliseconds. */
export interface FoundSetAside {
  readonly event_id: string;
  readonly provider: Provider;
  readonly provider_event_id: string;
  readonly intent_id: string;
  readonly outcome: PaymentOutcome['state'];
  readonly set_aside_at: number;
  /** In Postgres's notation, to the microsecond. */
  readonly at: string;
}

/** Finds the webhooks that were set aside and still wait, newest first, with one more than requested if there is one. */
export async function findSetAside(
  db: Database,
  from: readonly Provider[],
  query: WebhookQuery,
): Promise<readonly FoundSetAside[]> {
  const { at = null, eventId = null } = cursorOf('setAside', query);
  return await run<FoundSetAside>(driverOf(db), {
    text: SET_ASIDE,
    values: [JSON.stringify(from), at, eventId, query.limit + 1],
  });
}

const SET_ASIDE = `
  select event_id::text, provider, provider_event_id, intent_id, outcome ->> 'state' as outcome,
    (extract(epoch from set_aside_at) * 1000)::float8 as set_aside_at,
    to_char(set_aside_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
  from webhooks_set_aside
  where unclaimed_at is null and provider in (select jsonb_array_elements_text($1::text::jsonb))
    and set_aside_at <= coalesce($2::text::timestamptz, 'infinity')
    and ($2::text is null or (webhooks_set_aside.set_aside_at, event_id) < ($2::text::timestamptz, $3::text::uuid))
  order by webhooks_set_aside.set_aside_at desc, event_id desc limit $4::int`;
