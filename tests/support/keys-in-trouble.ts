import { SLOTS } from '../../drizzle/schema.ts';
import { topics } from '../../lib/bus/catalog/catalog.ts';
import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';

/** Why each key has a lane of its own: it waits for a retry, its retry is due, or a dead letter halts it. */
export type Trouble = 'waiting' | 'due' | 'halted';

const TOPIC = 'user.profile.updated';
const SUBSCRIBER = 'notifications';

/**
 * Writes what relays leave when many keys of one subscription fail, by SQL: for each key a lane of its own, a first
 * delivery that failed, and one that waits behind it.
 */
export async function fillKeysInTrouble(db: Database, keys: number, trouble: Trouble): Promise<void> {
  const group = errorGroupOf(TOPIC, SUBSCRIBER, 'http_503', 'the subscriber answered 503');
  const [, { example, version }] = topics().find(([topic]) => topic === TOPIC)!;
  for (const text of FILL)
    await run(driverOf(db), {
      text,
      values: [
        JSON.stringify({ keys, trouble, topic: TOPIC, subscriber: SUBSCRIBER, example, version, group }),
      ],
    });
  for (const table of ['lanes', 'deliveries', 'events', 'backlog', 'halts', 'error_groups'])
    await run(driverOf(db), { text: `vacuum analyze ${table}`, values: [] });
}

const FILLED = `
  filled as materialized (
    select * from jsonb_to_record($1::text::jsonb) as filled(keys int, trouble text, topic text, subscriber text,
      example jsonb, version int, "group" jsonb)
  )`;

const FILL = [
  `with ${FILLED}
  select postbud_lanes_2(topic, array[subscriber], slot::smallint, 0) from filled, generate_series(1, ${SLOTS}) as slot`,
  `with ${FILLED} update lanes set head = 2 * keys, tail = 2 * keys from filled`,
  // The first events of all keys, then the second ones.
  `with ${FILLED},
  event as (
    insert into events (id, topic, payload, version, created_at, ordering_key, producer, correlation_id, subscribers,
      open, failing, dead_lettered)
    select ('00000000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, topic, example, version,
      clock_timestamp() - interval '1 hour' + number * interval '1 millisecond', 'key ' || number % keys, 'identity', '',
      array[subscriber], (number > keys or trouble <> 'halted')::int, (number <= keys and trouble <> 'halted')::int,
      (number <= keys and trouble = 'halted')::int
    from filled, generate_series(1, 2 * keys) as number
    returning id, ordering_key, ('x' || right(id::text, 12))::bit(48)::bigint as number, created_at
  ),
  delivery as (
    insert into deliveries (lane_id, position, event_id, lane_key, payload_bytes, state, attempts, attempted_at,
      duration_ms, next_attempt_at, dead_lettered_at, error_group, attempt_log)
    select lanes.id, number, event.id, event.ordering_key, 200,
      case when number > keys then 'pending' when trouble = 'halted' then 'dead_lettered' else 'failing' end::delivery_state,
      (number <= keys)::int, case when number <= keys then event.created_at end, case when number <= keys then 20 end,
      case when number <= keys and trouble <> 'halted' then at.due end,
      case when number <= keys and trouble = 'halted' then event.created_at end,
      case when number <= keys and trouble = 'halted' then "group" ->> 'key' end,
      case when number <= keys then jsonb_build_array(jsonb_build_object('attempt', 1, 'at', event.created_at,
        'durationMs', 20, 'outcome', 'failed', 'kind', 'http_503', 'message', 'the subscriber answered 503')) end
    from filled, event, lanes, lateral (
      select clock_timestamp() + case trouble when 'due' then interval '-10 minutes' else interval '10 minutes' end
        + number * interval '1 millisecond' as due
    ) as at
    where lanes.slot = number % keys % ${SLOTS} + 1 and home_id is null
    order by number
    returning lane_id, position, lane_key, next_attempt_at, dead_lettered_at
  ),
  halt as (
    insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
    select lane_id, position, lane_key, topic, subscriber, dead_lettered_at from filled, delivery
    where dead_lettered_at is not null
  )
  insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, due_at)
  select filled.topic, filled.subscriber, slot, lane_key, lane_id,
    case when trouble = 'halted' then position else position - 1 end, position + keys,
    coalesce(next_attempt_at, 'infinity')
  from filled, delivery join lanes on lanes.id = lane_id where position <= keys`,
  `with ${FILLED}
  insert into backlog (topic, subscriber, shard, pending, failing, dead_lettered)
  select topic, of, 0, keys, case when trouble = 'halted' then 0 else keys end,
    case when trouble = 'halted' then keys else 0 end
  from filled, unnest(array[subscriber, '']) as of`,
  `with ${FILLED}
  insert into error_groups (key, topic, subscriber, kind, message, dead_lettered)
  select "group" ->> 'key', topic, subscriber, "group" ->> 'kind', "group" ->> 'message', keys
  from filled where trouble = 'halted'`,
  `with ${FILLED} select setval('delivery_positions', 2 * keys) from filled`,
];
