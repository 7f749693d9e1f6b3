import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantSql, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { byReasonFields, refusalFields } from './fields.ts';
import { placeIn } from './query.ts';
import type { Placed, WebhookQuery } from './query.ts';

/** The newest refusals of the last 30 days, and all of them by reason. */
export interface FoundRefusals {
  readonly generatedAt: string;
  /** Newest first, with one more than requested if there is one. */
  readonly newest: readonly Placed<Row<typeof refusalFields>>[];
  readonly byReason: readonly Row<typeof byReasonFields>[];
}

/** @param now overrides the database's clock in tests. */
export async function findRefused(db: Database, query: WebhookQuery, now?: Date): Promise<FoundRefusals> {
  const { at = null, provider = null, reason = null } = placeIn('refusals', query);
  const [row] = await run<{ found: FoundRefusals }>(driverOf(db), {
    text: REFUSED,
    values: [query.provider ?? null, at, provider, reason, query.limit + 1, now?.toISOString() ?? null],
  });
  return row!.found;
}

// The newest of the times is that of the last refusal: `last_at` of earlier releases is that of the write, some seconds later.
// A day has a row for each pair of provider and reason, of which there are some fifty, with 20 times at most.
const REFUSED = `
  with clock as materialized (
    select now, (now at time zone 'utc')::date as today
    from (select coalesce($6::text::timestamptz, clock_timestamp()) as now) as read
  ),
  refused as materialized (
    select webhook_rejections.* from clock, webhook_rejections
    where day > clock.today - 30 and ($1::text is null or provider = $1::text)
  ),
  newest as (
    select provider, reason, refused_at from refused, unnest(recent_at) as refused_at
    where $2::text is null
      or (refused_at, provider, reason) < ($2::text::timestamptz, $3::text, $4::text)
    order by refused_at desc, provider desc, reason desc limit $5::int
  ),
  by_reason as (
    select provider, reason, coalesce(sum(count) filter (where day = clock.today), 0) as today,
      sum(count) as last_30_days, max(coalesce(recent_at[1], last_at)) as last_at
    from clock, refused group by provider, reason
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'newest', (
      select coalesce(json_agg(json_build_object('item', ${jsonOf(refusalFields)},
        'place', json_build_object('provider', provider, 'reason', reason,
          'at', to_char(refused_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))
        order by refused_at desc, provider desc, reason desc), '[]')
      from newest
    ),
    'byReason', (
      select coalesce(json_agg(${jsonOf(byReasonFields)} order by last_at desc, provider, reason), '[]')
      from by_reason
    )
  ) as found
  from clock`;
