import { providers } from '../config.ts';
import type { Provider } from '../config.ts';
import type { Database } from '../db/connect.ts';
import { limitStatements, run } from '../db/statement.ts';
import { log } from '../log.ts';
import { emit } from '../outbox/emit.ts';

/**
 * Emits `webhook.rejections.surged` where the refusals of a provider's webhooks for one reason have surged: on one day
 * (UTC) they reached 20, 200, 2,000 and so on, and they are three times the daily mean of the seven days before.
 *
 * By the day, since that is how they are counted, and since 20 refusals tell of a wrong secret also where a provider
 * sends ten webhooks an hour. Measured against the week, so that the scanners that every address has do not report
 * every day. Again at ten times as many, so that a few in the morning do not hide what comes at noon.
 *
 * Exactly once however often and from wherever it is called: provider, reason, day and step are the event's dedupe key,
 * and nothing else is remembered. A look that was missed is made up for by the next, until the end of the next day.
 *
 * A stranger can have refusals counted, but chooses neither providers nor reasons, of which there are some fifty pairs;
 * each of their events after the first takes ten times the requests of the one before.
 *
 * @param now overrides the database's clock in tests.
 * @returns the dedupe keys of what had surged, in order; another caller may have emitted them just before.
 */
export async function emitSurges(db: Database, now?: Date): Promise<string[]> {
  const surges = await db.transaction(async (tx) => {
    await limitStatements(tx);
    const found = await run<Surge>(tx, {
      text: FIND_SURGES,
      values: [JSON.stringify(providers), now?.toISOString() ?? null],
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
  readonly provider: Provider;
  readonly reason: string;
  readonly rejected: number;
  /** The day's midnight. */
  readonly fromMs: number;
  /** When the last of them was counted. */
  readonly untilMs: number;
}

/** What docs/operate.md has operators alert at, there within ten minutes. */
const FIRST_STEP = 20;

/** Below it, a number varies from day to day by itself. */
const TIMES_THE_MEAN = 3;

/**
 * Also of yesterday, for what was counted after its last look. In the order of their keys, so that two callers who emit
 * at once do not wait for each other's keys crosswise. The step is found by counting digits: logarithms round.
 */
const FIND_SURGES = `
  with clock as (
    select (coalesce($2::timestamptz, clock_timestamp()) at time zone 'utc')::date as today
  ),
  counted as (
    select provider, reason, day, count, last_at, coalesce(sum(count) over week_before, 0) as week_before
    from clock, webhook_rejections
    where day between today - 8 and today
      and provider in (select jsonb_array_elements_text($1::text::jsonb))
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
