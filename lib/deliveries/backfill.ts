// A thin version to build the routes on. The real one replaces it.
import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../db/commits.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';

export interface Backfill {
  readonly topic: string;
  readonly subscriber: string;
  readonly since: Date;
  readonly by: string;
  readonly reason?: string | undefined;
  readonly perMinute?: number | undefined;
  readonly id?: string | undefined;
  readonly expectedCount?: number | undefined;
}

export interface Backfilled {
  readonly id: string;
  readonly matched: number;
  readonly written: number;
}

export class CountOfMissingChanged extends Error {
  readonly code = 'count_changed';
  readonly expected: number;
  readonly matched: number;
  constructor(expected: number, matched: number) {
    super(`${matched}, not ${expected}`);
    this.expected = expected;
    this.matched = matched;
  }
}

export class BackfillUnderWay extends Error {
  readonly code = 'backfill_under_way';
  readonly id: string;
  constructor(id: string) {
    super(`under way: ${id}`);
    this.id = id;
  }
}

export interface BackfillPreview {
  readonly matched: number;
  readonly oldestAt: string | null;
  readonly newestAt: string | null;
  readonly alreadyDelivered: number;
}

const MISSING = `
  missing as materialized (
    select distinct on (position) position, events.id as event_id, payload_bytes, ordering_key, created_at
    from events join deliveries on event_id = events.id
    where topic = $1::text and created_at >= $3::timestamptz and not (subscribers @> array[$2::text])
    order by position
  )`;

export async function previewBackfill(
  db: Database,
  { topic, subscriber, since }: Pick<Backfill, 'topic' | 'subscriber' | 'since'>,
): Promise<BackfillPreview> {
  const [row] = await run<{ found: BackfillPreview }>(driverOf(db), {
    text: `with ${MISSING}
      select json_build_object('matched', count(*), 'oldestAt', to_char(min(created_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'newestAt', to_char(max(created_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'alreadyDelivered', (select count(*) from deliveries join lanes on lanes.id = lane_id where topic = $1::text and subscriber = $2::text
          and state = 'delivered' and position > (select min(position) from missing))) as found
      from missing`,
    values: [topic, subscriber, since.toISOString()],
  });
  return row!.found;
}

export async function backfill(db: Database, request: Backfill): Promise<Backfilled> {
  const { topic, subscriber, since, by, reason, perMinute, expectedCount } = request;
  const id = request.id ?? uuidv7();
  const [earlier] = await run<Backfilled>(driverOf(db), {
    text: 'select id::text, matched::int, written::int from backfills where id = $1::uuid',
    values: [id],
  });
  if (earlier) return earlier;
  const [open] = await run<{ id: string }>(driverOf(db), {
    text: 'select id::text from backfills where topic = $1::text and subscriber = $2::text and ended_at is null',
    values: [topic, subscriber],
  });
  if (open) throw new BackfillUnderWay(open.id);
  const { matched } = await previewBackfill(db, request);
  if (expectedCount !== undefined && expectedCount !== matched)
    throw new CountOfMissingChanged(expectedCount, matched);
  await run(driverOf(db), {
    text: `with action as (
        insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
        values ($1::uuid, clock_timestamp(), $5::text, 'backfill', $2::text, $3::text, $6::text) returning at
      )
      insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, per_minute, matched, front, until, next_at)
      select $1::uuid, $2::text, $3::text, $4::timestamptz, at, $5::text, $6::text, $7::int, $8::bigint, 0,
        (select last_value from delivery_positions), at from action`,
    values: [id, topic, subscriber, since.toISOString(), by, reason ?? null, perMinute ?? null, matched],
  });
  return { id, matched, written: await write(db, id) };
}

export async function advanceBackfills(db: Database): Promise<void> {
  const open = await run<{ id: string }>(driverOf(db), {
    text: 'select id::text from backfills where ended_at is null and next_at <= clock_timestamp()',
    values: [],
  });
  for (const { id } of open) await write(db, id);
}

export async function stopBackfill(db: Database, id: string, by: string, reason: string): Promise<boolean> {
  const stopped = await run(driverOf(db), {
    text: `with stopped as (
        update backfills set ended_at = clock_timestamp() where id = $1::uuid and ended_at is null returning *
      )
      insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
      select $4::uuid, ended_at, $2::text, 'stop_backfill', topic, subscriber, $3::text from stopped returning id`,
    values: [id, by, reason, uuidv7()],
  });
  return stopped.length > 0;
}

async function write(db: Database, id: string): Promise<number> {
  return await db.transaction(async (tx) => {
    const [row] = await run<{ written: number }>(tx, {
      text: `with b as (select * from backfills where id = $1::uuid for update),
        missing as materialized (
          select distinct on (position) position, events.id as event_id, payload_bytes, created_at, events.state, open as was_open
          from b, events join deliveries on event_id = events.id
          where events.topic = b.topic and created_at >= b.since and not (subscribers @> array[b.subscriber])
          order by position limit (select coalesce(per_minute, 1000000) from b)
        ),
        lane as (
          insert into lanes (topic, subscriber, ordering_key, tail, due_at)
          select topic, subscriber, '', (select max(position) from missing), clock_timestamp() from b where exists (select from missing)
          on conflict (topic, subscriber, ordering_key) do update set head = least(lanes.head, (select min(position) - 1 from missing)), due_at = excluded.due_at,
            tail = greatest(lanes.tail, excluded.tail)
          returning lanes.id
        ),
        d as (
          insert into deliveries (lane_id, position, event_id, payload_bytes, backfilled, attempt_log)
          select lane.id, position, event_id, payload_bytes, true, jsonb_build_array(jsonb_build_object('attempt', 0, 'at', clock_timestamp(),
            'durationMs', 0, 'outcome', 'backfilled', 'by', requested_by, 'reason', reason)) from lane, missing, b returning 1
        ),
        e as (
          update events set subscribers = subscribers || b.subscriber, open = open + 1 from b, missing where events.id = missing.event_id
          returning postbud_event_moved(events.topic, missing.state, postbud_event_state(missing.was_open + 1, events.failing, events.dead_lettered)) as moved
        ),
        c as materialized (
          select postbud_count_1(array(
            select row(topic, subscriber, (select count(*) from d), 0, 0, 0, 0, 0, null, null)::postbud_change_1 from b
            union all select moved from e
          ), clock_timestamp())::text as done where exists (select from missing)
        ),
        u as (
          update backfills set written = backfills.written + (select count(*) from missing), next_at = clock_timestamp() + interval '1 minute',
            ended_at = case when backfills.written + (select count(*) from missing) >= backfills.matched then clock_timestamp() end
          from b where backfills.id = b.id returning backfills.written
        )
        select written::int, (select count(done) from c) from u`,
      values: [id],
    });
    noteDue(tx);
    return row!.written;
  });
}
