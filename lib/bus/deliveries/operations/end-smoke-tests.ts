import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import { SMOKE_TEST } from '../../catalog/smoke-test.ts';
import { KEEP_MS } from '../prune.ts';

/** Longer than anybody waits for a smoke test. */
const ENDS_AFTER_MS = 10 * MINUTE;

/**
 * Dismisses what is left of smoke tests that are over: deliveries to subscribers that refused, were paused or are no longer
 * attached. So a test leaves nothing behind that waits or is retried, whoever started it and however that ended. Forgets
 * tests after a month, like events.
 *
 * The cron calls it. Doing it again changes nothing.
 *
 * @param now overrides the database's clock in tests.
 */
export async function endSmokeTests(db: Database, now?: Date): Promise<void> {
  const values = [now?.toISOString() ?? null];
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [open] = await run<{ any: boolean }>(tx, { text: ANY, values });
    if (!open!.any) return;
    await run(tx, { text: LOCK, values: [] });
    await run(tx, { text: END, values });
  });
}

const CLOCK = `
  clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  )`;

const OVER = `ended_at is null and started_at < now - interval '${ENDS_AFTER_MS} milliseconds'`;

const ANY = `
  with ${CLOCK},
  forgotten as (
    delete from smoke_tests using clock where started_at < now - interval '${KEEP_MS} milliseconds' and ended_at is not null
  )
  select exists (select from clock, smoke_tests where ${OVER}) as any`;

// In a statement of its own, so that the snapshot of the next one is no older than the locks: the lanes of smoke tests, in
// the order of their ids (locks.ts). Nothing else is delivered in them.
const LOCK = `select id from lanes where topic = '${SMOKE_TEST.topic}' order by id for update`;

// A lane that a relay holds is left to the next minute, and so is an event that waits for its fan-out.
const END = `
  with ${CLOCK},
  test as materialized (
    select id from clock, smoke_tests where ${OVER}
  ),
  lane as materialized (
    select id, coalesce(home_id, id) as home, head, lease_token is not null and coalesce(due_at, leased_until) > now as is_leased
    from clock, lanes where topic = '${SMOKE_TEST.topic}'
  ),
  home as materialized (
    select home as id, min(head) as head, bool_or(is_leased) as is_leased from lane group by home
  ),
  waiting as materialized (
    select home.id, position, event_id, lane_key, (state = 'failing')::int as failing, is_leased,
      event_id in (select id from test) as is_over
    from home, lateral (
      select * from deliveries
      where lane_id = home.id and position > home.head and coalesce(state in ('pending', 'failing'), false)
    ) as delivery
  ),
  ended as (
    update deliveries set state = 'dead_lettered', dismissed_at = now, next_attempt_at = null,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', now, 'durationMs', 0,
        'outcome', 'dismissed', 'by', 'postbud', 'reason', 'the smoke test is over')
    from clock, waiting
    where is_over and not is_leased and lane_id = waiting.id and deliveries.position = waiting.position
    returning deliveries.event_id, failing
  ),
  changed_event as (
    update events set open = events.open - change.open, failing = events.failing - change.failing
    from (
      select event_id, count(*)::int as open, sum(failing)::int as failing from ended group by event_id order by event_id
    ) as change
    where events.id = change.event_id
  ),
  -- The lane of a key holds one test.
  ended_key as (
    delete from lanes using waiting
    where is_over and not is_leased and home_id = waiting.id and held_key = lane_key
  ),
  settled_lane as (
    update lanes set head = tail, due_at = null, lease_token = null
    from home
    where lanes.id = home.id and not home.is_leased
      and exists (select from waiting where waiting.id = home.id)
      and not exists (select from waiting where waiting.id = home.id and not is_over)
  )
  update smoke_tests set ended_at = now from clock, test
  where smoke_tests.id = test.id
    and not exists (select from waiting where event_id = test.id and is_leased)
    and not exists (
      select from awaiting_fan_out where topic = '${SMOKE_TEST.topic}' and awaiting_fan_out.event_id = test.id
    )`;
