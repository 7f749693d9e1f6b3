import { and, eq, sum } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { errorGroups } from '../../../../drizzle/schema.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { releaseLanes } from '../release.ts';
import { NotActedOn } from './first-of-lane.ts';
import type { ActedOn } from './first-of-lane.ts';
import { recounted } from './recount.ts';

/** The dead letters of a subscription, or those with one kind of error. */
export interface DeadLetters {
  readonly topic: string;
  readonly subscriber: string;
  /** Null: every kind. */
  readonly kind: string | null;
  /** Which of those; by default all. */
  readonly only?: Chosen;
}

/** Dead letters by their ids, or by their error and their time. */
type Chosen =
  | { readonly deliveryIds: readonly string[] }
  | {
      readonly group: string | null;
      /** Words of the error. */
      readonly words: string | null;
      /** Instants in Postgres's notation: when they died. */
      readonly since: string;
      readonly until: string;
    };

/** An operator's word that deliveries will not be made, and how it is recorded. */
export interface Dismissal {
  readonly action: 'dismiss' | 'retire';
  readonly by: string;
  readonly reason: string;
  readonly incidentId?: string;
  /** When to begin no further chunk, in milliseconds since the epoch. What is left then takes another call. */
  readonly until: number;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/** A dismissal as far as it has come. */
export interface Dismissing extends Dismissal {
  /** The `dismissed_at` of all its deliveries, in Postgres's notation; null before the first. */
  at: string | null;
  /** The record's id; it is written together with the first deliveries. */
  readonly actionId: string;
  isRecorded: boolean;
}

export interface Dismissed {
  readonly dismissed: number;
  /** Dead letters that there was no time for, or that died meanwhile. */
  readonly left: number;
}

/** Dead letters of one transaction, which takes about 50 ms. */
export const CHUNK = 1000;

/**
 * Dismisses dead letters: they leave all counts, stay on record until their events are pruned, and can still be replayed.
 *
 * Works in chunks, so that a relay or a replay of the same lanes waits for one chunk only. Takes only what was dead when
 * it began. A delivery that is replayed meanwhile is left alone. Calling it again is harmless, and continues.
 *
 * @throws the driver's error; the chunks before it stay done.
 */
export async function dismiss(db: Database, which: DeadLetters, how: Dismissal): Promise<Dismissed> {
  const dismissing = beginDismissal(how);
  const dismissed = await dismissDeadLetters(db, which, dismissing);
  return { dismissed, left: await countLeft(db, which) };
}

/**
 * Dismisses one dead letter, and records the operator and the reason. If it halts its lane, the lane goes on. Doing it
 * again changes nothing.
 *
 * @param now overrides the database's clock in tests.
 * @returns the delivery; when it was dismissed, in epoch milliseconds: earlier, if it was before; and whether its lane goes on
 *   because of that.
 * @throws NotActedOn for a delivery that there is none of, or that is no dead letter.
 */
export async function dismissOne(
  db: Database,
  {
    deliveryId,
    by,
    reason,
    now,
  }: { readonly deliveryId: string; readonly by: string; readonly reason: string; readonly now?: Date },
): Promise<ActedOn & { readonly dismissedAt: number; readonly released: boolean }> {
  return await db.transaction(async (tx) => {
    const [lane] = await run<{ topic: string; subscriber: string; now: string; halts: boolean }>(tx, {
      text: LOCK_ONE,
      values: [deliveryId, now?.toISOString() ?? null],
    });
    if (!lane) throw new NotActedOn('not_found');
    const { topic, subscriber } = lane;
    const [done] = await run<{ count: number }>(tx, {
      text: DISMISS_ONE,
      values: [topic, subscriber, deliveryId, lane.now, by, reason, uuidv7(), 'dismiss', null, deliveryId],
    });
    const [found] = await run<{ at: number | null }>(tx, { text: READ_ONE, values: [deliveryId] });
    if (!found) throw new NotActedOn('not_found');
    if (found.at === null) throw new NotActedOn('not_dead');
    const isDone = done!.count > 0;
    if (isDone) {
      await releaseLanes(tx, { topic, subscriber }, now);
      noteDue(tx);
    }
    return { deliveryId, topic, subscriber, dismissedAt: found.at, released: isDone && lane.halts };
  });
}

export function beginDismissal(how: Dismissal): Dismissing {
  return { ...how, at: how.now?.toISOString() ?? null, actionId: uuidv7(), isRecorded: false };
}

/** @returns how many it dismissed. */
export async function dismissDeadLetters(
  db: Database,
  { topic, subscriber, kind, only }: DeadLetters,
  dismissing: Dismissing,
): Promise<number> {
  const { action, by, reason, incidentId = null, actionId, until } = dismissing;
  let total = 0;
  for (let count = CHUNK; count === CHUNK && Date.now() < until; total += count) {
    count = await db.transaction(async (tx) => {
      const [lock] = await run<{ now: string }>(tx, { text: LOCK, values: [topic, subscriber] });
      const at = (dismissing.at ??= lock?.now ?? null);
      // Without lanes there are no dead letters.
      if (at === null) return 0;
      const record = dismissing.isRecorded ? null : actionId;
      const isChosen = only !== undefined && 'deliveryIds' in only;
      const which = isChosen ? JSON.stringify(only.deliveryIds) : kind;
      const values = [topic, subscriber, which, at, by, reason, record, action, incidentId, null];
      const [done] = await run<{ count: number }>(
        tx,
        isChosen
          ? { text: DISMISS_CHOSEN, values }
          : {
              text: DISMISS,
              values: [
                ...values,
                only?.group ?? null,
                only?.words ?? null,
                only?.since ?? null,
                only?.until ?? null,
              ],
            },
      );
      await releaseLanes(tx, { topic, subscriber }, dismissing.now);
      noteDue(tx);
      return done!.count;
    });
    dismissing.isRecorded ||= count > 0;
  }
  return total;
}

// As a replay does, and in a statement of its own, so that the snapshot of the next one is no older than the locks.
const LOCK = `
  select clock_timestamp()::text as now from lanes
  where home_id is null and topic = $1::text and subscriber = $2::text order by id for update`;

/** @param chosen selects dead letters of the subscription by the third parameter. */
const dismissing = (chosen: string) => `
  with chosen as materialized (${chosen}),
  dismissed as (
    update deliveries set dismissed_at = $4::text::timestamptz, dead_lettered_at = null, error_group = null,
      attempt_log = coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', $4::text::timestamptz,
        'durationMs', 0, 'outcome', 'dismissed', 'by', $5::text, 'reason', $6::text)
    from chosen where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position
    returning deliveries.event_id, chosen.key
  ),
  changed as materialized (
    select event_id, $1::text as topic, $2::text as subscriber, key as error_group, 0 as open, 0 as failing, -1 as dead
    from dismissed
  ),${recounted('$4::text::timestamptz')},
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, incident_id, delivery_id)
    select $7::uuid, $4::text::timestamptz, $5::text, $8::text, $1::text, $2::text, $6::text, $9::uuid, $10::text
    where $7::uuid is not null and exists (select from dismissed)
  )
  select count(*)::int as count from dismissed`;

const DISMISS = dismissing(`
    select lane_id, position, event_id, key from error_groups join deliveries on error_group = key
    where topic = $1::text and subscriber = $2::text and ($3::text is null or kind = $3::text)
      and ($11::text is null or key = $11::text)
      and ($12::text is null or position(lower($12::text) in lower(kind || ' ' || message)) > 0)
      and dead_lettered_at >= coalesce($13::text::timestamptz, '-infinity')
      and dead_lettered_at <= least($4::text::timestamptz, $14::text::timestamptz)
    limit ${CHUNK}
  `);

const DISMISS_CHOSEN = dismissing(`
    select lane_id, position, event_id, error_group as key
    from (select distinct id from jsonb_array_elements_text($3::text::jsonb) as id) as chosen
      join deliveries on lane_id = split_part(id, '-', 1)::bigint and position = split_part(id, '-', 2)::bigint
      join lanes on lanes.id = lane_id
    where topic = $1::text and subscriber = $2::text and dead_lettered_at <= $4::text::timestamptz
    limit ${CHUNK}
  `);

const DISMISS_ONE = dismissing(`
    select lane_id, position, event_id, error_group as key from deliveries
    where lane_id = split_part($3::text, '-', 1)::bigint and position = split_part($3::text, '-', 2)::bigint
      and dead_lettered_at is not null
  `);

// All homes of the subscription, as above: those of its lanes that wait are locked next.
const LOCK_ONE = `
  with home as materialized (
    select topic, subscriber from lanes where id = split_part($1::text, '-', 1)::bigint
  ),
  locked as materialized (
    select id from lanes
    where home_id is null and (topic, subscriber) = (select topic, subscriber from home) order by id for update
  )
  select topic, subscriber, coalesce($2::text::timestamptz, clock_timestamp())::text as now, exists (
      select from halts
      where lane_id = split_part($1::text, '-', 1)::bigint and position = split_part($1::text, '-', 2)::bigint
    ) as halts
  from home where exists (select from locked)`;

const READ_ONE = `
  select (extract(epoch from dismissed_at) * 1000)::float8 as at from deliveries
  where lane_id = split_part($1::text, '-', 1)::bigint and position = split_part($1::text, '-', 2)::bigint`;

async function countLeft(db: Database, { topic, subscriber, kind }: DeadLetters): Promise<number> {
  const { deadLettered, ...of } = errorGroups;
  const [row] = await db
    .select({ left: sum(deadLettered) })
    .from(errorGroups)
    .where(
      and(eq(of.topic, topic), eq(of.subscriber, subscriber), kind === null ? undefined : eq(of.kind, kind)),
    );
  return Number(row!.left);
}
