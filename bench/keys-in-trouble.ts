import { errorGroupOf } from '../lib/bus/deliveries/error-group.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { rows, storeBacklog } from '../tests/support/bus.ts';
import { untilAutovacuumHasRun } from './autovacuum.ts';

/** Why each key does not go on: it waits for a retry, its retry is due, or a dead letter halts it. */
export type Trouble = 'waiting' | 'due' | 'halted';

const TOPIC = 'user.profile.updated';
const SUBSCRIBER = 'notifications';

/**
 * Writes what relays leave when many keys of one subscription fail, by SQL: for each key a first delivery that failed, and
 * one that waits behind it.
 */
export async function fillKeysInTrouble(db: Database, keys: number, trouble: Trouble): Promise<void> {
  const { key, kind, message } = errorGroupOf(TOPIC, SUBSCRIBER, 'http_503', 'the subscriber answered 503');
  await storeBacklog(db, TOPIC, 2 * keys, keys);
  await rows(db, `select postbud_place_3($1, '-infinity', $2::int, false)`, [TOPIC, 2 * keys]);
  await rows(db, EXCEPTIONS, [TOPIC, SUBSCRIBER, trouble, key]);
  await rows(
    db,
    `insert into journal (lane, number, head, at)
     select id, number + 1, tail, clock_timestamp() from lane_heads where topic = $1`,
    [TOPIC],
  );
  if (trouble === 'halted')
    await rows(
      db,
      'insert into error_groups (key, topic, subscriber, kind, message) values ($1, $2, $3, $4, $5)',
      [key, TOPIC, SUBSCRIBER, kind, message],
    );
  await untilAutovacuumHasRun((text) => rows(db, text));
}

const EXCEPTIONS = `
  with place as (
    select lanes.id as lane, log.*, clock_timestamp() as now_at,
      row_number() over (partition by ordering_key order by position) = 1 as is_first
    from lanes join log using (stream) where topic = $1 and subscriber = $2
  ),
  tried as (
    select *, case when not is_first then 'pending' when $3 = 'halted' then 'dead_lettered' else 'failing' end as state,
      case when is_first then now_at end as attempted_at,
      case when is_first and $3 <> 'halted' then now_at
        + case $3 when 'due' then interval '-10 minutes' else interval '10 minutes' end
        + position * interval '1 millisecond' end as due_at
    from place
  )
  insert into exceptions (lane, position, event_id, ordering_key, state, is_open, due_at, attempts, attempted_at,
    duration_ms, next_attempt_at, dead_lettered_at, error_group, attempt_log)
  select lane, position, event_id, ordering_key, state::delivery_state, true, due_at, is_first::int, attempted_at,
    case when is_first then 20 end, due_at, case when state = 'dead_lettered' then attempted_at end,
    case when state = 'dead_lettered' then $4 end,
    case when is_first then jsonb_build_array(jsonb_build_object('attempt', 1, 'at', attempted_at, 'durationMs', 20,
      'outcome', 'failed', 'kind', 'http_503', 'message', 'the subscriber answered 503')) end
  from tried order by position`;
