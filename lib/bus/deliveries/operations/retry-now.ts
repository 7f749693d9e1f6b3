import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { NotActedOn } from '../refusals.ts';
import { acting, onFirstOfLane, withAction } from './first-of-lane.ts';
import type { ActedOn, Asked } from './first-of-lane.ts';

/**
 * Makes the retry that a lane waits for due now, and records the operator. While its subscriber does not answer, also the
 * next probe: the deliveries that follow wait for that, whether they are due or not.
 *
 * @throws NotActedOn
 */
export async function retryNow(db: Database, asked: Asked): Promise<ActedOn> {
  return await onFirstOfLane(db, asked, async (tx, { values }) => {
    const retried = await run(tx, { text: RETRY_NOW, values });
    if (retried.length === 0) throw new NotActedOn('not_waiting');
  });
}

const RETRY_NOW = acting(
  'retry',
  `
  acted as (
    update exceptions set next_attempt_at = case when next_attempt_at > clock.now then clock.now else next_attempt_at end,
      attempt_log = ${withAction('retried_early')}
    from clock
    where lane = $1::int and position = $2::bigint
      and (next_attempt_at > clock.now or exists (select from outages where subscriber = $4::text))
    returning lane, ordering_key
  ),
  probing as (
    update outages set next_probe_at = least(next_probe_at, clock.now) from clock, acted where subscriber = $4::text
  )`,
);
