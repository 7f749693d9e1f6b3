import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { FAN_OUT_LOCK } from '../locks.ts';
import { clock } from '../parts.ts';
import { NotActedOn } from '../refusals.ts';
import type { Timing, Word } from './asked.ts';

/** A rename of one topic that is under way: a row of `backfills` with a former name. */
export interface OpenRename extends Word {
  readonly id: string;
  readonly topic: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Opens the rename of a topic, or gives the one that is open. From then on relays claim nothing of the former name, which
 * is paused, and of the new one nothing behind what waits under the former.
 *
 * @throws NotActedOn `under_way` while one of the names is backfilled, or another rename concerns one.
 */
export async function openRename(
  db: Database,
  { from, to, topic }: { readonly from: string; readonly to: string; readonly topic: string },
  how: Word & Pick<Timing, 'now'> & { readonly matched: number },
): Promise<OpenRename> {
  return await db.transaction(async (tx) => {
    const now = how.now?.toISOString() ?? null;
    // Positions stay as they are until this transaction ends.
    await run(tx, { text: `select pg_advisory_xact_lock(${FAN_OUT_LOCK}, 0)`, values: [] });
    const names = [topic, from, to];
    await run(tx, { text: OPEN, values: [...names, uuidv7(), how.by, how.reason, how.matched, now] });
    const [open] = await run<FoundOpen>(tx, { text: READ, values: names });
    const refuse = (what: string) =>
      new NotActedOn('under_way', `${what}. Nothing was renamed. Try again once that has ended.`);
    if (!open) throw refuse(`${from} on ${topic} has just been renamed`);
    const { id, by, reason, subscriber, renamed_from: former, is_other: isOther } = open;
    if (isOther && former === null) throw refuse(`${subscriber} is being backfilled with ${topic}`);
    if (isOther) throw refuse(`${former} is being renamed to ${subscriber} on ${topic}`);
    return { id, topic, from, to, by, reason };
  });
}

interface FoundOpen extends Word {
  readonly id: string;
  readonly subscriber: string;
  readonly renamed_from: string | null;
  readonly is_other: boolean;
}

/** Lists the renames that are under way. */
export async function openRenames(db: Database): Promise<readonly OpenRename[]> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    return await run<OpenRename>(tx, {
      text: `select id::text, topic, renamed_from as from, subscriber as to, requested_by as by, reason from backfills
        where renamed_from is not null and ended_at is null order by requested_at, id`,
      values: [],
    });
  });
}

/** The former name's lanes, each with the place from which on something of it, or of one of its keys, may wait. */
export const FORMER_LANES = `
  former_lane as materialized (
    select id, slot, ordering_key, careful_to,
      least(head, (select min(own.head) from lanes as own where own.home_id = lanes.id)) as settled_to
    from lanes where topic = $1::text and subscriber = $2::text and home_id is null
  )`;

// The pause keeps relays of every release from the former name's lanes, and has those that hold one let go of it. Where
// nothing waits, the front is the newest position: what is not fanned out yet comes behind it.
const OPEN = `
  with ${clock('$8')},
  ${FORMER_LANES},
  first as materialized (
    select min(position) as position, min(created_at) as created_at
    from former_lane, lateral (
      select position, event_id from deliveries
      where lane_id = former_lane.id and position > settled_to and coalesce(state in ('pending', 'failing'), false)
      order by position limit 1
    ) as waiting join events on id = event_id
  ),
  marker as materialized (
    select min(created_at) as created_at from awaiting_fan_out where topic = $1::text and $2::text = any (subscribers)
  ),
  opened as (
    insert into backfills (id, topic, subscriber, since, renamed_from, requested_at, requested_by, reason, matched, front,
      until, next_at)
    select $4::text::uuid, $1::text, $3::text, coalesce(least(first.created_at, marker.created_at), clock.now), $2::text,
      clock.now, $5::text, $6::text, $7::float8::bigint, coalesce(first.position - 1, last_value), last_value, clock.now
    from clock, first, marker, delivery_positions
    where not exists (
      select from backfills where topic = $1::text and $2::text in (subscriber, renamed_from) and ended_at is null
    )
    on conflict (topic, subscriber) where ended_at is null do nothing
    returning requested_at
  ),
  paused as (
    insert into pauses (subscriber, topic, paused_at, paused_by, reason)
    select $3::text, $1::text, paused_at, paused_by, reason from (
      select paused_at, paused_by, reason from opened, pauses
      where subscriber = $2::text and topic in ($1::text, '') order by topic desc limit 1
    ) as former
    union all
    select $2::text, $1::text, requested_at, $5::text, 'renamed to ' || $3::text from opened
    on conflict (subscriber, topic) do nothing
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $4::text::uuid, requested_at, $5::text, 'rename', $1::text, $2::text, $6::text from opened`;

const READ = `
  select id::text, requested_by as by, reason, subscriber, renamed_from,
    subscriber <> $3::text or renamed_from is distinct from $2::text as is_other
  from backfills
  where topic = $1::text and (subscriber in ($2::text, $3::text) or renamed_from = $2::text) and ended_at is null
  order by is_other desc limit 1`;
