import { emit } from '../../bus/outbox/emit.ts';
import { providers } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { log } from '../../platform/log.ts';

/**
 * Emits `webhook.rejections.surged` when the refusals of an endpoint's webhooks for one reason surge: on one UTC day
 * they reach 20, 200, 2,000 and so on, and three times the daily mean of the seven days before.
 *
 * Refusals are counted by the day, and 20 of them indicate a wrong secret even if a provider sends only ten webhooks an
 * hour. The comparison with the week keeps the scanners that every address attracts from causing an event every day.
 * Each tenfold step emits again, so that a few refusals in the morning do not hide many at noon.
 *
 * Each step emits exactly once, no matter how often and from where this is called: provider, reason, day and step are
 * the event's dedupe key. A missed call is made up for by the next one, until the end of the next day.
 *
 * Callers can cause refusals but choose neither endpoints nor reasons, of which there are some fifty pairs, and each
 * further event of a pair takes ten times the requests. Requests to an address of no endpoint are not among them.
 *
 * @param now overrides the database's clock in tests.
 * @returns the dedupe keys of the surges found, in order; another caller may have emitted them just before.
 */
export async function emitSurges(db: Database, now?: Date): Promise<string[]> {
  const surges = await db.transaction(async (tx) => {
    await limitStatements(tx);
    const found = await run<Surge>(tx, {
      text: FIND_SURGES,
      values: [now?.toISOString() ?? null, JSON.stringify(providers)],
    });
    for (const { dedupeKey, provider, reason, rejected, fromMs, untilMs } of found) {
      const fromAt = new Date(fromMs).toISOString();
      const untilAt = new Date(untilMs).toISOString();
      const payload = { provider, reason, rejected, fromAt, untilAt };
      await emit(tx, 'webhook.rejections.surged', payload, { dedupeKey });
    }
    return found;
  });
  for (const { provider, reason, rejected } of surges) {
    log('warn', 'refusals of webhooks have surged', { provider, reason, rejected });
  }
  return surges.map(({ dedupeKey }) => dedupeKey);
}

interface Surge {
  readonly dedupeKey: string;
  readonly provider: string;
  readonly reason: string;
  readonly rejected: number;
  /** Midnight UTC, when the day began. */
  readonly fromMs: number;
  /** When the last refusal was counted. */
  readonly untilMs: number;
}

/** The number that docs/operate.md recommends for an alert, there within ten minutes. */
const FIRST_STEP = 20;

/** Smaller differences from day to day are normal. */
const TIMES_THE_MEAN = 3;

/**
 * Includes yesterday, for refusals counted after its last call. Ordered by dedupe key, so that two callers that emit at
 * once cannot deadlock. The step is computed from the number of digits, because logarithms round.
 */
const FIND_SURGES = `
  with clock as (
    select (coalesce($1::timestamptz, clock_timestamp()) at time zone 'utc')::date as today
  ),
  counted as (
    select provider, reason, day, count, last_at, coalesce(sum(count) over week_before, 0) as week_before
    from clock, webhook_rejections
    where day between today - 8 and today
      and regexp_replace(provider, '_\\d+$', '') in (select jsonb_array_elements_text($2::text::jsonb))
    window week_before as (
      partition by provider, reason order by day range between '7 days' preceding and '1 day' preceding
    )
  ),
  surge as (
    select counted.*,
      concat_ws(' ', provider, reason, to_char(day, 'YYYY-MM-DD'),
        ${FIRST_STEP} * power(10::numeric, length((count / ${FIRST_STEP})::text) - 1)::bigint) as dedupe_key
    from clock, counted
    where day >= today - 1 and count >= ${FIRST_STEP} and 7 * count >= ${TIMES_THE_MEAN} * week_before
  )
  select dedupe_key as "dedupeKey", provider, reason, count::float8 as rejected,
    (extract(epoch from day::timestamp at time zone 'utc') * 1000)::float8 as "fromMs",
    (extract(epoch from last_at) * 1000)::float8 as "untilMs"
  from surge
  where not exists (
    select from events where topic = 'webhook.rejections.surged' and events.dedupe_key = surge.dedupe_key
  )
  order by dedupe_key`;
