import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import { SMOKE_TEST } from '../../catalog/smoke-test.ts';
import { clock } from '../parts.ts';
import { KEEP_MS } from '../prune.ts';
import { beginDismissal, CHUNK, dismissalValues, dismissingOf } from './dismiss.ts';

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
    const [open] = await run<{ is_any: boolean; at: string }>(tx, { text: OPEN, values });
    if (!open!.is_any) return;
    await run(tx, { text: LOCK, values: [] });
    for (const text of [FREE, PARK]) await run(tx, { text, values: [open!.at] });
    const how = {
      action: 'dismiss',
      by: 'postbud',
      reason: 'the smoke test is over',
      until: Infinity,
    } as const;
    // No operator has done it, so none is recorded.
    const dismissing = { ...beginDismissal(how), at: open!.at, isRecorded: true };
    const of = { topic: SMOKE_TEST.topic, subscriber: '' };
    await run(tx, { text: DISMISS, values: dismissalValues(of, ENDS_AFTER_MS, dismissing) });
    await run(tx, { text: END, values });
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
  select now::text as at, exists (select from smoke_tests where ${isOver('$2')}) as is_any from clock`;

// Nothing else is delivered in the lanes of smoke tests.
const OF_SMOKE_TESTS = `topic = '${SMOKE_TEST.topic}'`;

const LOCK = `select postbud_lock_lanes_2(array(select id from lanes where ${OF_SMOKE_TESTS}))`;

// Of relays that died. A lane that a relay holds is left to the next minute.
const FREE = `
  insert into journal (lane, number, head, at, careful_to)
  select id, number + 1, head, $1::text::timestamptz, careful_to from lane_heads
  where ${OF_SMOKE_TESTS} and leased_until <= $1::text::timestamptz`;

// What waits in the log gets a row, so that it can be dismissed.
const PARK = `
  select postbud_park_1(array(
    select id from lane_heads where ${OF_SMOKE_TESTS} and leased_until is null and tail > head
  ), ${CHUNK}, $1::text::timestamptz)`;

const DISMISS = dismissingOf(`${clock('$4')},
  chosen as materialized (
    select lane, position from clock, lane_heads join exceptions on lane = id
    where ${OF_SMOKE_TESTS} and leased_until is null and is_open
      and event_id in (select smoke_tests.id from smoke_tests where ${isOver('$3')})
  )`);

// An event that awaits its place is left to the next minute, too.
const END = `
  with ${clock('$1')}
  update smoke_tests set ended_at = now from clock
  where ${isOver('$2')} and not exists (select from deliveries where event_id = smoke_tests.id and is_open)
    and not exists (select from awaiting where topic = '${SMOKE_TEST.topic}' and event_id = smoke_tests.id)`;
