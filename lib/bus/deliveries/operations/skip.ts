import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { errorGroupOf } from '../error-group.ts';
import { acting, onFirstOfLane, withAction } from './first-of-lane.ts';
import type { ActedOn, Asked } from './first-of-lane.ts';

/** The error of skipped deliveries: an operator's decision, not a failure of the subscriber. */
export const SKIPPED = { kind: 'skipped', message: 'skipped by an operator' } as const;

/**
 * Dead-letters the delivery that holds a lane, so that the lane continues, and records the operator and the reason. The
 * dead letter can be replayed like any other.
 *
 * @throws NotActedOn
 */
export async function skip(db: Database, asked: Asked & { readonly reason: string }): Promise<ActedOn> {
  return await onFirstOfLane(db, asked, async (tx, { topic, subscriber, values }) => {
    // The operator's reason is not part of the error group: each reason would make a group of its own.
    const { key, kind, message } = errorGroupOf(topic, subscriber, SKIPPED.kind, SKIPPED.message);
    await run(tx, { text: SKIP, values: [...values, key, kind, message] });
  });
}

// The lane is locked, and this statement sees it as it is.
const SKIP = acting(
  'skip',
  `
  acted as (
    update exceptions set state = 'dead_lettered', is_open = false, is_held = false, due_at = null, next_attempt_at = null,
      dead_lettered_at = clock.now, error_group = $11::text,
      attempt_log = ${withAction('skipped', `, 'kind', 'skipped', 'message', $6::text`)}
    from clock where lane = $1::int and position = $2::bigint
    returning lane, ordering_key
  ),
  grouped as (
    insert into error_groups (key, topic, subscriber, kind, message)
    select $11::text, $3::text, $4::text, $12::text, $13::text from acted
    on conflict (key) do nothing
  ),
  -- What became of attempts is counted in the journal by relays, and none sees a skip.
  totalled as (
    insert into lane_totals as known (lane, head, number, dead_lettered) select lane, -1, -1, 1 from acted
    on conflict (lane) do update set dead_lettered = known.dead_lettered + 1
  ),
  minute as (
    insert into throughput_minutes as known (minute, topic, delivered, dead_lettered)
    select date_trunc('minute', clock.now), $3::text, 0, 1 from clock, acted
    on conflict (minute, topic) do update set dead_lettered = known.dead_lettered + 1
  )`,
);
