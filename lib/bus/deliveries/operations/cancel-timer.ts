import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import type { Word } from './asked.ts';

/** What an operator cancelled. */
export interface CancelledTimer {
  readonly topic: string;
  readonly timerKey: string | null;
}

/**
 * Cancels a timer at an operator's word, and records who and why. Where it was set aside, that is settled too.
 *
 * @param id of the timer, which is that of the event that never happens.
 * @returns null where there is none: it was released or cancelled before.
 */
export async function cancelTimerById(
  db: Database,
  asked: Word & { readonly id: string },
): Promise<CancelledTimer | null> {
  const { id, by, reason } = asked;
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [cancelled] = await run<CancelledTimer>(tx, { text: CANCEL, values: [id, by, reason, uuidv7()] });
    return cancelled ?? null;
  });
}

const CANCEL = `
  with cancelled as (
    delete from timers where id = $1::text::uuid returning id, topic, timer_key
  ),
  settled as (
    update set_aside set repaired_at = clock_timestamp(), repaired_by = $2::text, reason = $3::text
    from cancelled where kind = 'unfit_timer' and event_id = cancelled.id and repaired_at is null
  ),
  logged as (
    insert into operator_actions (id, at, operator, action, topic, reason, event_id)
    select $4::text::uuid, clock_timestamp(), $2::text, 'cancel_timer', topic, $3::text, id from cancelled
  )
  select topic, timer_key as "timerKey" from cancelled`;
