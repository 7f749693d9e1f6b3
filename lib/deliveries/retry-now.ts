import { v7 as uuidv7 } from 'uuid';

import { errorGroupOf } from './error-group.ts';
import { ADD_TO_BACKLOG, ADD_TO_ERROR_GROUPS, ADD_TO_THROUGHPUT, EVENTS_MOVED } from './tally.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';

/** A delivery that an operator has acted on, and where it belongs. */
export interface ActedOn {
  readonly deliveryId: string;
  readonly topic: string;
  readonly subscriber: string;
}

/** What was asked can't be done to the delivery as it stands; `code` says why, the message what to do. */
export class NotActedOn extends Error {
  readonly code: 'not_found' | 'not_first' | 'not_waiting' | 'under_way';

  constructor(code: NotActedOn['code']) {
    super(REASONS[code]);
    this.name = 'NotActedOn';
    this.code = code;
  }
}

const REASONS: Readonly<Record<NotActedOn['code'], string>> = {
  not_found: 'There is no such delivery.',
  not_first: 'It is not the first of its lane that is unfinished: look again at what holds the lane.',
  not_waiting: 'It does not wait: it is due now, or it was delivered or given up.',
  under_way: 'A relay has its lane in hand at this moment. Look again in a few seconds.',
};

interface Asked {
  readonly deliveryId: string;
  readonly by: string;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/**
 * Makes the retry that a lane waits for due now, and records who did.
 *
 * @throws NotActedOn
 */
export async function retryNow(
  db: Database,
  { deliveryId, by, reason = null, now }: Asked & { readonly reason?: string | null },
): Promise<ActedOn> {
  return await act(db, RETRY_NOW, deliveryId, [by, reason, now?.toISOString() ?? null, uuidv7()]);
}

/**
 * Gives up the delivery that holds a lane, as a dead letter, so that the lane goes on; records who did and why. It
 * can be replayed like any other.
 *
 * @throws NotActedOn
 */
export async function skip(
  db: Database,
  { deliveryId, by, reason, now }: Asked & { readonly reason: string },
): Promise<ActedOn> {
  const place = await placeOf(db, deliveryId);
  if (!place) throw new NotActedOn('not_found');
  // The reason is the operator's own words, so that each is no group of its own.
  const group = errorGroupOf(place.topic, place.subscriber, 'skipped', 'skipped by an operator');
  return await act(db, SKIP, deliveryId, [
    by,
    reason,
    now?.toISOString() ?? null,
    uuidv7(),
    group.key,
    group.kind,
    group.message,
  ]);
}

async function placeOf(db: Database, deliveryId: string): Promise<ActedOn | null> {
  const [row] = await run<{ topic: string; subscriber: string }>(driverOf(db), {
    text: `select topic, subscriber from lanes join deliveries on lane_id = lanes.id
      where lane_id = $1::bigint and position = $2::bigint`,
    values: deliveryId.split('-'),
  });
  return row ? { deliveryId, ...row } : null;
}

interface Found {
  readonly topic: string;
  readonly subscriber: string;
  readonly is_free: boolean;
  readonly is_first: boolean;
  readonly is_unfinished: boolean;
  readonly acted: number;
}

async function act(
  db: Database,
  text: string,
  deliveryId: string,
  values: readonly unknown[],
): Promise<ActedOn> {
  const [row] = await run<Found>(driverOf(db), { text, values: [...deliveryId.split('-'), ...values] });
  if (!row) throw new NotActedOn('not_found');
  if (row.acted === 1) return { deliveryId, topic: row.topic, subscriber: row.subscriber };
  if (!row.is_unfinished) throw new NotActedOn('not_waiting');
  if (!row.is_free) throw new NotActedOn('under_way');
  throw new NotActedOn(row.is_first ? 'not_waiting' : 'not_first');
}

// The lane is locked, as a relay does when it claims or settles. What a relay did between this statement's beginning
// and the lock is seen when the delivery itself is changed: its state is checked again there.
const FIRST_OF_LANE = `
  clock as materialized (
    select coalesce($5::text::timestamptz, clock_timestamp()) as now
  ),
  locked_lane as materialized (
    select lanes.id, lanes.topic, lanes.subscriber, lanes.head, lanes.tail, lanes.lease_token is null as is_free,
      lanes.xmin::text as version
    from clock, lanes where lanes.id = $1::bigint for update of lanes
  ),
  target as materialized (
    select lane_id, deliveries.position, topic, subscriber, tail, is_free,
      state in ('pending', 'failing') as is_unfinished,
      -- Where the lane was changed since this statement began, what it sees before the delivery is stale: an operator
      -- may just have put something back there.
      exists (select from lanes where lanes.id = locked_lane.id and lanes.xmin::text = version)
        and not exists (
          select from deliveries as earlier where earlier.lane_id = locked_lane.id and earlier.position > head
            and earlier.position < deliveries.position and earlier.state in ('pending', 'failing')
        ) as is_first
    from locked_lane join deliveries on lane_id = locked_lane.id and position = $2::bigint
  )`;

const RETRY_NOW = `
  with ${FIRST_OF_LANE},
  hurried as (
    update deliveries set next_attempt_at = clock.now,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0,
        'outcome', 'hurried', 'by', $3::text, 'reason', $4::text)
    from clock, target
    where deliveries.lane_id = target.lane_id and deliveries.position = target.position and is_free and is_first
      and state in ('pending', 'failing') and next_attempt_at > clock.now
    returning target.topic, target.subscriber
  ),
  lane as (
    update lanes set due_at = clock.now from clock
    where id = $1::bigint and exists (select from hurried)
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason)
    select $6::uuid, clock.now, $3::text, 'retry', topic, subscriber, $1 || '-' || $2, $4::text from clock, hurried
  )
  select topic, subscriber, is_free, is_first, is_unfinished, (select count(*)::int from hurried) as acted
  from target`;

const SKIP = `
  with ${FIRST_OF_LANE},
  skipped as (
    update deliveries set state = 'dead_lettered', dead_lettered_at = clock.now, next_attempt_at = null,
      error_group = $7::text,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0,
        'outcome', 'skipped', 'kind', 'skipped', 'message', $4::text, 'by', $3::text, 'reason', $4::text)
    from clock, target
    where deliveries.lane_id = target.lane_id and deliveries.position = target.position and is_free and is_first
      and state in ('pending', 'failing')
    returning event_id, target.topic, target.subscriber, deliveries.position, tail,
      -- A failing one has failed before: the attempts that its handler asked to wait for are not counted.
      (attempts > 0)::int as was_failing
  ),
  lane as (
    update lanes set head = skipped.position, needed_version = null,
      due_at = case when skipped.tail > skipped.position then clock.now end
    from clock, skipped where lanes.id = $1::bigint
  ),
  locked_event as materialized (
    select events.id, events.topic, was_failing, state as was, 'dead_lettered'::delivery_state as becomes
    from events join skipped on events.id = event_id for update of events
  ),
  changed_event as (
    update events set open = events.open - 1, failing = events.failing - was_failing,
      dead_lettered = events.dead_lettered + 1
    from locked_event where events.id = locked_event.id
  ),
  backlog_change as materialized (
    select topic, subscriber, was_failing - 1 as pending, -was_failing as failing, 1 as dead_lettered,
      null::timestamptz as last_delivered_at, null::timestamptz as last_failed_at, 0 as delivered_total,
      0 as failed_total, 1 as dead_lettered_total
    from skipped
    union all
    select ${EVENTS_MOVED} from locked_event where was <> becomes group by topic
  ),
  added as (${ADD_TO_BACKLOG}
  ),
  hour_change as materialized (
    select topic, 0 as delivered, 0 as first_attempt, 1 as dead_lettered from skipped
  ),
  counted as (${ADD_TO_THROUGHPUT}
  ),
  dead as materialized (
    select $7::text as key, topic, subscriber, $8::text as kind, $9::text as message, 1 as count from skipped
  ),
  grouped as (${ADD_TO_ERROR_GROUPS}
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, delivery_id, reason)
    select $6::uuid, clock.now, $3::text, 'skip', topic, subscriber, $1 || '-' || $2, $4::text from clock, skipped
  )
  select topic, subscriber, is_free, is_first, is_unfinished, (select count(*)::int from skipped) as acted
  from target`;
