import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { logged } from '../parts.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Timing, Word } from './asked.ts';
import { containing, deliveriesOfIds } from './replay-matching.ts';

/** Dead letters of a subscription: all, or those that everything given here fits. */
export interface DeadLetters extends SubscriptionName {
  /** Only these, whatever their error. */
  readonly deliveryIds?: readonly string[] | undefined;
  /** The kind of their error, its groups with commas between them, and words of it. */
  readonly kind?: string | null;
  readonly group?: string | undefined;
  readonly words?: string | undefined;
  /** Instants in Postgres's notation: when they died. */
  readonly since?: string;
  readonly until?: string;
}

/** An operator's word that deliveries will not be made, and how it is recorded. */
export interface Dismissal extends Word, Timing {
  readonly action: 'dismiss' | 'retire';
  readonly incidentId?: string | null;
  /** The dead letter that it is for, where that is a single one. */
  readonly deliveryId?: string | null;
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
  return { dismissed, left: await countDead(db, which) };
}

export function beginDismissal(how: Dismissal): Dismissing {
  return { ...how, at: how.now?.toISOString() ?? null, actionId: uuidv7(), isRecorded: false };
}

/** @returns how many it dismissed. */
export async function dismissDeadLetters(
  db: Database,
  { topic, subscriber, deliveryIds, kind = null, ...which }: DeadLetters,
  dismissing: Dismissing,
): Promise<number> {
  let total = 0;
  for (let count = CHUNK; count === CHUNK && Date.now() < dismissing.until; total += count) {
    count = await db.transaction(async (tx) => {
      const [lock] = await run<{ now: string }>(tx, { text: LOCK, values: [topic, subscriber] });
      dismissing.at ??= lock!.now;
      const chosen = deliveryIds ? JSON.stringify(deliveryIds) : kind;
      const values = dismissalValues({ topic, subscriber }, chosen, dismissing);
      const { group = null, words = null, since = null, until = null } = which;
      const [done] = await run<{ count: number }>(
        tx,
        deliveryIds
          ? { text: DISMISS_CHOSEN, values: [...values, until] }
          : { text: DISMISS, values: [...values, group, words, since, until] },
      );
      noteDue(tx);
      return done!.count;
    });
    dismissing.isRecorded ||= count > 0;
  }
  return total;
}

/** Gives the parameters of a statement that `dismissingOf` makes. @param chosen the third. */
export function dismissalValues(
  { topic, subscriber }: SubscriptionName,
  chosen: string | number | null,
  { at, action, by, reason, actionId, isRecorded, incidentId = null, deliveryId = null }: Dismissing,
): readonly unknown[] {
  const record = isRecorded ? null : actionId;
  return [topic, subscriber, chosen, at, by, reason, record, action, incidentId, deliveryId];
}

// As a replay does.
const LOCK = `
  select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now,
    postbud_lock_lanes_2(array(select id from lanes where topic = $1::text and subscriber = $2::text))`;

/**
 * Makes a statement that dismisses deliveries, whether they wait or died, and records that. What waited behind them goes on.
 *
 * @param ctes one is `chosen` (lane and position). The parameter `$3` is theirs. The lanes are locked.
 */
export const dismissingOf = (ctes: string) => `
  with ${ctes},
  dismissed as (
    update exceptions set state = 'dead_lettered', is_open = false, is_held = false, due_at = null, next_attempt_at = null,
      dismissed_at = $4::text::timestamptz, dead_lettered_at = null, error_group = null,
      attempt_log = ${logged('dismissed', { by: '$5::text', reason: '$6::text', at: '$4::text::timestamptz' })}
    from chosen where exceptions.lane = chosen.lane and exceptions.position = chosen.position
    returning exceptions.lane, ordering_key
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, incident_id, delivery_id)
    select $7::uuid, $4::text::timestamptz, $5::text, $8::text, $1::text, $2::text, $6::text, $9::uuid, $10::text
    where $7::uuid is not null and exists (select from dismissed)
  )
  select coalesce(sum(count), 0)::int as count, postbud_make_due_1(array_agg(lane), array_agg(ordering_key), $4::text::timestamptz)
  from (select lane, ordering_key, count(*) as count from dismissed group by lane, ordering_key) as dismissed`;

const DISMISS = dismissingOf(`
  chosen as materialized (
    select lane, position from error_groups join exceptions on error_group = key
    where topic = $1::text and subscriber = $2::text and ($3::text is null or kind = $3::text)
      and ($11::text is null or key = any (string_to_array($11::text, ','))) and ${containing('$12::text')}
      and dead_lettered_at >= coalesce($13::text::timestamptz, '-infinity')
      and dead_lettered_at <= least($4::text::timestamptz, $14::text::timestamptz)
    limit ${CHUNK}
  )`);

// A single one is dismissed whenever it died.
const DISMISS_CHOSEN = dismissingOf(`
  chosen as materialized (
    select delivery.lane, delivery.position from ${deliveriesOfIds('$3')}
    where lanes.topic = $1::text and lanes.subscriber = $2::text
      and (dead_lettered_at <= least($4::text::timestamptz, $11::text::timestamptz)
        or dead_lettered_at is not null and $10::text is not null)
    limit ${CHUNK}
  )`);

/** Counts those of an error that died until then. */
async function countDead(
  db: Database,
  { topic, subscriber, kind = null, group, until }: Omit<DeadLetters, 'deliveryIds' | 'words' | 'since'>,
): Promise<number> {
  const [row] = await run<{ count: number }>(driverOf(db), {
    text: COUNT,
    values: [topic, subscriber, kind, until ?? null, group ?? null],
  });
  return row!.count;
}

const COUNT = `
  select count(*)::float8 as count from error_groups join exceptions on error_group = key
  where topic = $1::text and subscriber = $2::text and ($3::text is null or kind = $3::text)
    and ($5::text is null or key = any (string_to_array($5::text, ',')))
    and dead_lettered_at <= coalesce($4::text::timestamptz, 'infinity')`;
