import { and, eq, gt } from 'drizzle-orm';

import { errorGroups } from '../../../../drizzle/schema.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { sleep } from '../../../platform/time.ts';
import { groupOf } from '../error-group.ts';
import { FAN_OUT_LOCK } from '../locks.ts';
import { logged } from '../parts.ts';
import type { Timing } from './asked.ts';
import { beginInTime, LOOK_EVERY_MS, wakeLanes } from './backfill.ts';
import { CHUNK } from './dismiss.ts';
import { forgetReplays, forgetSubscription } from './forget.ts';
import { FORMER_LANES } from './rename-open.ts';
import type { OpenRename } from './rename-open.ts';

export interface TakenOver {
  readonly moved: number;
  readonly dismissed: number;
}

/**
 * Moves what a former name has to its new one, dead letters first, then what waits, in order; and ends the rename when
 * nothing is left. Any number of processes may do this at once, and any may go on where another has stopped.
 *
 * An event that both names have keeps the new one's delivery; the former's is dismissed.
 */
export async function takeOver(db: Database, open: OpenRename, { until, now }: Timing): Promise<TakenOver> {
  const at = now?.toISOString() ?? null;
  const total = { moved: 0, dismissed: 0 };
  // A relay holds a lane of the new name that it claimed before the rename.
  if (!(await beginInTime(db, open.id, until, now))) return total;
  for (;;) {
    await limited(db, async (tx) => {
      await run(tx, { text: MAKE_LANES, values: [open.topic, open.from, open.to] });
    });
    const done = await limited(db, async (tx) => await moveChunk(tx, open, at));
    total.moved += done.moved;
    total.dismissed += done.dismissed;
    if (done.isHeld) await sleep(LOOK_EVERY_MS);
    const end = done.isLast ? await limited(db, async (tx) => await finish(tx, open, now)) : null;
    total.moved += end?.moved ?? 0;
    if (end?.isOver || Date.now() >= until) return total;
  }
}

/** Runs a transaction whose statements have a time limit. */
async function limited<Result>(db: Database, body: (tx: Transaction) => Promise<Result>): Promise<Result> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    return await body(tx);
  });
}

interface Chunk extends TakenOver {
  /**
   * Whether nothing was moved because a relay holds a lane: of the former name, from before the rename or since somebody
   * resumed it; or of the new name, while the former has halted keys, which then get lanes of their own. The relay may have
   * deliveries of such a key in hand, from the shared lane.
   */
  readonly isHeld: boolean;
  /** Whether nothing was left to move. */
  readonly isLast: boolean;
}

async function moveChunk(tx: Transaction, open: OpenRename, at: string | null): Promise<Chunk> {
  const { id, topic, from, to, by, reason } = open;
  const [lock] = await run<Lock>(tx, { text: LOCK, values: [topic, from, to, at] });
  const isHeld = lock?.is_held || (lock?.is_taking_held && (await movesHaltedKeys(tx, topic, from)));
  if (!lock || isHeld) return { moved: 0, dismissed: 0, isHeld: lock !== undefined, isLast: !lock };
  const former = and(eq(errorGroups.topic, topic), eq(errorGroups.subscriber, from));
  const groups = await tx
    .select()
    .from(errorGroups)
    .where(and(former, gt(errorGroups.deadLettered, 0)));
  const renamed = groups.map(({ key, kind, message }) => ({
    ...groupOf(topic, to, kind, message),
    former: key,
  }));
  const [done] = await run<{ moved: number; dismissed: number; is_last: boolean }>(tx, {
    text: MOVE,
    values: [topic, from, to, id, lock.now, by, reason, JSON.stringify(renamed), lock.ids],
  });
  const { moved, dismissed, is_last: isLast } = done!;
  return { moved, dismissed, isHeld: false, isLast };
}

interface Lock {
  readonly now: string;
  readonly is_held: boolean;
  /** Whether a relay holds a lane of the new name. */
  readonly is_taking_held: boolean;
  /** The lanes of both names. */
  readonly ids: string;
}

/** In a newer snapshot than that of the locks: the former name may have halted a key meanwhile. */
async function movesHaltedKeys(tx: Transaction, topic: string, from: string): Promise<boolean> {
  const [row] = await run<{ any: boolean }>(tx, { text: HALTED_KEYS, values: [topic, from] });
  return row!.any;
}

/**
 * Addresses what is not fanned out yet to the new name, and ends the rename unless something has come meanwhile. Fan-out
 * waits: else it could place an event for the former name, and then one for the new.
 */
async function finish(
  tx: Transaction,
  { id, topic, from, to }: OpenRename,
  now: Date | undefined,
): Promise<{ readonly moved: number; readonly isOver: boolean }> {
  const at = now?.toISOString() ?? null;
  // Of a replay of all, what was delivered stays delivered.
  await forgetReplays(tx, { topic, subscriber: from });
  await run(tx, { text: `select pg_advisory_xact_lock(${FAN_OUT_LOCK}, 0)`, values: [] });
  const [lock] = await run<Lock>(tx, { text: LOCK, values: [topic, from, to, at] });
  const [readdressed] = await run<{ count: number }>(tx, { text: READDRESS, values: [topic, from, to, id] });
  const moved = readdressed!.count;
  if (moved === CHUNK) return { moved, isOver: false };
  const [ended] = await run<{ is_over: boolean }>(tx, {
    text: END,
    values: [topic, from, id, lock?.now ?? at],
  });
  if (!ended!.is_over) return { moved, isOver: false };
  await wakeLanes(tx, { topic, subscriber: to }, now);
  await forgetSubscription(tx, { topic, subscriber: from });
  return { moved, isOver: true };
}

// In a statement of its own, before any lock is taken: fan-out makes lanes too, and then waits for locked ones.
const MAKE_LANES = `
  select postbud_lanes_2($1::text, array[$3::text], slot, 0)
  from lanes where topic = $1::text and subscriber = $2::text and home_id is null`;

// One clock for all lanes: by clocks of their own they would be groups of their own.
const LOCK = `
  with locked as materialized (
    select id, subscriber, lease_token is not null as is_leased, coalesce(due_at, leased_until) as held_until from lanes
    where topic = $1::text and subscriber in ($2::text, $3::text) order by id for update
  ),
  clock as materialized (
    select coalesce($4::text::timestamptz, clock_timestamp()) as now where exists (select from locked)
  )
  select now::text, coalesce(bool_or(subscriber = $2::text and is_leased and held_until > now), false) as is_held,
    coalesce(bool_or(subscriber = $3::text and is_leased and held_until > now), false) as is_taking_held,
    array_agg(id)::text as ids
  from locked, clock group by now`;

const HALTED_KEYS = `
  select exists (
    select from halts where topic = $1::text and subscriber = $2::text and lane_key is not null
  ) as any`;

// Dead letters are moved before anything that waits, so that nothing passes one that halts its lane. Fan-out goes on: a lane
// that it has made for the former name meanwhile is not locked, or the new name has none for it yet. It is left for the next
// chunk.
const MOVE = `
  with clock as materialized (
    select $5::text::timestamptz as now
  ),
  ${FORMER_LANES},
  taken_lane as materialized (
    select former_lane.*, taking.id as to_lane, taking.slot as to_slot
    from former_lane join lanes as taking on taking.topic = $1::text and taking.subscriber = $3::text
      and taking.home_id is null and taking.slot is not distinct from former_lane.slot
    where former_lane.id = any ($9::text::bigint[]) and taking.id = any ($9::text::bigint[])
  ),
  renamed_group as materialized (
    select * from jsonb_to_recordset($8::text::jsonb) as renamed(former text, key text, kind text, message text)
  ),
  dead as materialized (
    select lane_id, position, event_id, lane_key, state, error_group
    from renamed_group join deliveries on error_group = former where lane_id in (select id from taken_lane) limit ${CHUNK}
  ),
  waiting as materialized (
    select next.* from taken_lane, lateral (
      select lane_id, position, event_id, lane_key, state, null::text as error_group from deliveries
      where lane_id = taken_lane.id and position > settled_to and coalesce(state in ('pending', 'failing'), false)
      order by position limit ${CHUNK}
    ) as next
    where not exists (select from dead)
    order by position limit ${CHUNK}
  ),
  chosen as materialized (
    select either.*, careful_to, to_lane, to_slot,
      coalesce((select $3::text = any (subscribers) from events where events.id = event_id), false) as is_twin
    from (select * from dead union all select * from waiting) as either join taken_lane on taken_lane.id = lane_id
  ),
  moved as (
    update deliveries set lane_id = to_lane, error_group = renamed_group.key, backfilled = true,
      attempt_log = ${logged('renamed', { by: '$6::text', reason: '$7::text' })}
    from clock, chosen left join renamed_group on former = error_group
    where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position and not is_twin
    returning 1
  ),
  dismissed as (
    update deliveries set state = 'dead_lettered', dismissed_at = clock.now, dead_lettered_at = null, error_group = null,
      next_attempt_at = null,
      attempt_log = ${logged('dismissed', { by: '$6::text', reason: '$7::text' })}
    from clock, chosen
    where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position and is_twin
    returning 1
  ),
  halt as (
    update halts set lane_id = to_lane, subscriber = $3::text
    from chosen where halts.lane_id = chosen.lane_id and halts.position = chosen.position and not is_twin
    returning to_lane, to_slot, halts.lane_key, halts.position
  ),
  planned as (
    update planned_replays set lane_id = to_lane
    from chosen where planned_replays.lane_id = chosen.lane_id and planned_replays.position = chosen.position and not is_twin
  ),
  -- As the settlement makes them: a shared lane passes over a key that is halted. What the new name has of the key may come
  -- before the dead letter.
  halted_key as (
    insert into lanes (topic, subscriber, slot, held_key, home_id, head, tail, due_at)
    select $1::text, $3::text, to_slot, lane_key, to_lane,
      least(min(position) - 1, (select head from lanes where id = to_lane)), max(position), 'infinity'
    from halt where lane_key is not null group by 3, 4, 5
    on conflict (home_id, held_key) where home_id is not null
      do update set head = least(lanes.head, excluded.head)
  ),
  reach as materialized (
    select id, min(first) as first, max(last) as last, max(careful_to) as careful_to from (
      select coalesce(of_key.id, to_lane) as id, position as first, null::bigint as last, chosen.careful_to
      from chosen left join lanes as of_key on of_key.home_id = to_lane and of_key.held_key = lane_key
      where state <> 'dead_lettered' and not is_twin
      union all
      select to_lane, null, position, 0 from chosen where not is_twin
    ) as reached group by id
  ),
  -- Always to another head while a relay holds the lane, so that its settlement sees that the head moved.
  taking_lane as (
    update lanes set
      head = case when first is null then head else least(head, first - 1) - (lease_token is not null)::int end,
      tail = greatest(tail, last), careful_to = greatest(lanes.careful_to, reach.careful_to),
      waits_for_version = case when first is null then waits_for_version end,
      due_at = case when first is null or lease_token is not null then due_at else coalesce(due_at, 'infinity') end
    from reach where lanes.id = reach.id
  ),
  is_empty as materialized (
    select not exists (select from dead) and (select count(*) from waiting) < ${CHUNK} as so
  ),
  left_lane as (
    update lanes set head = case when so then tail else greatest(settled_to, last) end, lease_token = null,
      due_at = case when not so then coalesce(due_at, clock.now) end, waits_for_version = null
    from clock, is_empty, taken_lane left join (
      select lane_id, max(position) as last from waiting group by lane_id
    ) as taken on taken.lane_id = taken_lane.id
    where lanes.id = taken_lane.id and not exists (select from dead)
  ),
  ended_key as (
    delete from lanes using taken_lane where home_id = taken_lane.id and not exists (select from dead)
  ),
  change as materialized (
    select event_id, is_twin, (state <> 'dead_lettered')::int as open, (state = 'failing')::int as failing,
      (state = 'dead_lettered')::int as dead
    from chosen
  ),
  locked_event as materialized (
    select events.id, change.*, events.state as was from events join change on id = event_id
    order by id for update of events
  ),
  changed_event as (
    update events set
      subscribers = case when is_twin then subscribers else array_replace(subscribers, $2::text, $3::text) end,
      open = events.open - case when is_twin then locked_event.open else 0 end,
      failing = events.failing - case when is_twin then locked_event.failing else 0 end,
      dead_lettered = events.dead_lettered - case when is_twin then dead else 0 end
    from locked_event where events.id = locked_event.id
    returning postbud_event_moved(topic, was, state) as moved
  ),
  grouped as (
    insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
    select key, $1::text, subscriber, kind, message, sum(dead) from (
      select former as key, $2::text as subscriber, kind, message, -1 as dead from chosen join renamed_group on former = error_group
      union all
      select renamed_group.key, $3::text, kind, message, 1 from chosen join renamed_group on former = error_group
      where not is_twin
    ) as changed
    where (select count(*) from changed_event) >= 0 group by key, subscriber, kind, message order by key
    on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
    returning 1
  ),
  -- Not by the function that the settlement calls: for it, a dead letter that is added has died.
  counted as (
    insert into backlog as total (topic, subscriber, shard, pending, failing, dead_lettered)
    select $1::text, subscriber, pg_backend_pid() % 64, sum(pending), sum(failing), sum(dead) from (
      select $2::text as subscriber, failing - open as pending, -failing as failing, -dead as dead from change
      union all
      select $3::text, open - failing, failing, dead from change where not is_twin
      union all
      select '', (moved).pending, (moved).failing, (moved).dead_lettered from changed_event
    ) as changed where (select count(*) from grouped) >= 0 group by subscriber order by subscriber
    on conflict (topic, subscriber, shard) do update set pending = total.pending + excluded.pending,
      failing = total.failing + excluded.failing, dead_lettered = total.dead_lettered + excluded.dead_lettered
  ),
  written as (
    update backfills set written = written + (select count(*) from moved) where id = $4::text::uuid
  )
  select (select count(*)::int from moved) as moved, (select count(*)::int from dismissed) as dismissed,
    so and (select count(*) from former_lane) = (select count(*) from taken_lane) as is_last
  from is_empty`;

const READDRESS = `
  with marker as (
    update awaiting_fan_out as marker set
      subscribers = case when $3::text = any (marker.subscribers) then array_remove(marker.subscribers, $2::text)
        else array_replace(marker.subscribers, $2::text, $3::text) end,
      open = marker.open - ($3::text = any (marker.subscribers))::int
    from (
      select created_at, seq from awaiting_fan_out where topic = $1::text and $2::text = any (subscribers)
      order by created_at, seq limit ${CHUNK}
    ) as former
    where marker.topic = $1::text and marker.created_at = former.created_at and marker.seq = former.seq
    returning marker.event_id, marker.subscribers, marker.open
  ),
  event as (
    update events set subscribers = marker.subscribers, open = marker.open from marker where id = event_id
  ),
  written as (
    update backfills set written = written + (select count(*) from marker) where id = $4::text::uuid
  )
  select count(*)::int as count from marker`;

// Fan-out, which waits, has nothing for the former name any more.
const END = `
  with rest as materialized (
    select not exists (
        select from lanes where topic = $1::text and subscriber = $2::text and (due_at is not null or lease_token is not null)
      ) and not exists (
        select from error_groups where topic = $1::text and subscriber = $2::text and dead_lettered > 0
      ) as is_over
  ),
  ended as (
    update backfills set ended_at = coalesce($4::text::timestamptz, clock_timestamp())
    from rest where id = $3::text::uuid and ended_at is null and is_over
  )
  select is_over from rest`;
