import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import { SMOKE_TEST } from '../../catalog/smoke-test.ts';
import { clock } from '../parts.ts';
import { KEEP_MS } from '../prune.ts';
import { beginDismissal, dismissalValues, dismissingOf } from './dismiss.ts';

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
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    const values = [now?.toISOString() ?? null, ENDS_AFTER_MS];
    const [open] = await run<{ any: boolean; at: string }>(tx, { text: OPEN, values });
    if (!open!.any) return;
    await run(tx, { text: LOCK, values: [] });
    const how = {
      action: 'dismiss',
      by: 'postbud',
      reason: 'the smoke test is over',
      until: Infinity,
    } as const;
    // No operator has done it, so none is recorded.
    const dismissing = { ...beginDismissal(how), at: open!.at, isRecorded: true };
    const of = { topic: SMOKE_TEST.topic, subscriber: '' };
    await run(tx, { text: END, values: dismissalValues(of, ENDS_AFTER_MS, dismissing) });
  });
}

// Only a clock that was ahead explains a start in the future.
const isOver = (afterMs: string) =>
  `ended_at is null and started_at not between now - ${afterMs}::float8 * interval '1 millisecond' and now + interval '10 seconds'`;

const OPEN = `
  with ${clock('$1')},
  forgotten as (
    delete from smoke_tests using clock where ended_at < now - interval '${KEEP_MS} milliseconds'
  )
  select now::text as at, exists (select from smoke_tests where ${isOver('$2')}) as any from clock`;

// In the order of their ids (locks.ts). Nothing else is delivered in the lanes of smoke tests.
const LOCK = `select id from lanes where topic = '${SMOKE_TEST.topic}' order by id for update`;

// A lane that a relay holds is left to the next minute, and so is an event that waits for its fan-out.
const END = dismissingOf(`${clock('$4')},
  test as materialized (
    select id from clock, smoke_tests where ${isOver('$3')}
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
  chosen as materialized (
    select id as lane_id, position, event_id, null::text as key, 1 as waited, failing from waiting
    where is_over and not is_leased
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
  ),
  ended_test as (
    update smoke_tests set ended_at = now from clock, test
    where smoke_tests.id = test.id
      and not exists (select from waiting where event_id = test.id and is_leased)
      and not exists (
        select from awaiting_fan_out where topic = '${SMOKE_TEST.topic}' and awaiting_fan_out.event_id = test.id
      )
  )`);
