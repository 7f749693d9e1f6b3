import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { cursorOf } from './query.ts';
import type { WebhookQuery } from './query.ts';

/** The newest refusals of the last 30 days, and all of them by reason. Times are epoch milliseconds. */
export interface FoundRefusals {
  readonly now: number;
  /** Newest first, with one more than requested if there is one. */
  readonly newest: readonly {
    readonly provider: string;
    readonly reason: string;
    readonly refused_at: number;
    /** In Postgres's notation, to the microsecond. */
    readonly at: string;
  }[];
  readonly by_reason: readonly {
    readonly provider: string;
    readonly reason: string;
    readonly today: number;
    readonly month: number;
    readonly last_at: number;
  }[];
}

/** @param now overrides the database's clock in tests. */
export async function findRefused(db: Database, query: WebhookQuery, now?: Date): Promise<FoundRefusals> {
  const { at = null, provider = null, reason = null } = cursorOf('refusals', query);
  const [row] = await run<{ found: FoundRefusals }>(driverOf(db), {
    text: REFUSED,
    values: [query.provider ?? null, at, provider, reason, query.limit + 1, now?.toISOString() ?? null],
  });
  return row!.found;
}

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
    select provider, reason, coalesce(sum(count) filter (where day = clock.today), 0) as today, sum(count) as month,
      max(last_at) as last_at
    from clock, refused group by provider, reason
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'newest', (
      select coalesce(json_agg(json_build_object('provider', provider, 'reason', reason,
        'refused_at', extract(epoch from refused_at) * 1000,
        'at', to_char(refused_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        order by refused_at desc, provider desc, reason desc), '[]')
      from newest
    ),
    'by_reason', (
      select coalesce(json_agg(json_build_object('provider', provider, 'reason', reason, 'today', today,
        'month', month, 'last_at', extract(epoch from last_at) * 1000) order by last_at desc, provider, reason), '[]')
      from by_reason
    )
  ) as found
  from clock`;
