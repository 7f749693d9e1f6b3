import { instantOf, MINUTE, rateText } from '../../platform/time.ts';

/** A limit that allows nothing at this moment. */
export interface FoundLimit {
  /** The time in which the rate allows so many; null where the concurrency is used up. */
  readonly rate: { readonly count: number; readonly ms: number; readonly waiting: number } | null;
  readonly concurrency: number | null;
}

/**
 * A query of the limits that subscribers are at: `subscriber`, and `reached`, which is a `FoundLimit`.
 *
 * @param now the instant, in SQL.
 */
export const reachedLimits = (now: string) => `
  select subscriber, json_build_object('concurrency', case when is_full then concurrency end,
    'rate', case when is_used_up then json_build_object('count', rate_count, 'ms', rate_ms, 'waiting', (
      select coalesce(sum(pending + failing), 0) from subscription_counts
      where subscription_counts.subscriber = limited.subscriber
    )) end) as reached
  from (
    select *, taken_until - (greatest(1, rate_count / 20) - 1) * rate_ms * interval '1 millisecond' / rate_count
        > ${now} as is_used_up,
      concurrency <= (
        select coalesce(sum(handlers), 0) from lane_heads
        where lane_heads.subscriber = subscriber_limits.subscriber and leased_until > ${now}
      ) as is_full
    from subscriber_limits
  ) as limited
  where is_used_up or is_full`;

/** Names the limit: `600/m`, `4 at once`. @returns with it when, at this rate, all that waits is handed over. */
export function limitOf({ rate, concurrency }: FoundLimit, now: number) {
  if (rate === null) return { limit: `${concurrency} at once`, until: null };
  const until = instantOf(now + (rate.waiting * rate.ms) / rate.count);
  return { limit: rateText(rate), until };
}

/** How long ago a relay last looked, where it is said to have stopped: the cron calls once a minute, so two calls were missed. */
export const STALLED_AFTER_MS = 2 * MINUTE;
