import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { logged } from '../parts.ts';
import { recounted } from '../recount.ts';
import { NotActedOn } from '../refusals.ts';
import { releaseLanes } from '../release.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Timing, Word } from './asked.ts';
import type { ActedOn } from './first-of-lane.ts';
import { containing } from './replay-matching.ts';

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

/**
 * Dismisses one dead letter, and records the operator and the reason. If it halts its lane, the lane goes on. Doing it
 * again changes nothing.
 *
 * @returns the delivery; when it was dismissed, in epoch milliseconds: earlier, if it was before; and whether its lane goes on
 *   because of that.
 * @throws NotActedOn for a delivery that there is none of, or that is no dead letter.
 */
export async function dismissOne(
  db: Database,
  { deliveryId, ...how }: Word & { readonly deliveryId: string },
): Promise<ActedOn & { readonly dismissedAt: number; readonly released: boolean }> {
  const { topic, subscriber, halts, at } = await findOne(db, deliveryId);
  const of = { deliveryId, topic, subscriber };
  if (at !== null) return { ...of, dismissedAt: at, released: false };
  const dismissing = beginDismissal({ action: 'dismiss', ...how, deliveryId, until: Infinity });
  const dismissed = await dismissDeadLetters(db, { ...of, deliveryIds: [deliveryId] }, dismissing);
  if (dismissed > 0) return { ...of, dismissedAt: Date.parse(dismissing.at!), released: halts };
  // Somebody was here meanwhile.
  return { ...of, dismissedAt: (await findOne(db, deliveryId)).at!, released: false };
}

interface FoundOne extends SubscriptionName {
  readonly halts: boolean;
  readonly is_dead: boolean;
  /** When it was dismissed. */
  readonly at: number | null;
}

/** @throws NotActedOn where it is neither a dead letter nor dismissed. */
async function findOne(db: Database, deliveryId: string): Promise<FoundOne> {
  const [found] = await run<FoundOne>(driverOf(db), { text: FIND_ONE, values: [deliveryId] });
  if (!found) throw new NotActedOn('not_found');
  if (!found.is_dead && found.at === null) throw new NotActedOn('not_dead');
  return found;
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
      // Without lanes there are no dead letters.
      if ((dismissing.at ??= lock?.now ?? null) === null) return 0;
      const chosen = deliveryIds ? JSON.stringify(deliveryIds) : kind;
      const values = dismissalValues({ topic, subscriber }, chosen, dismissing);
      const { group = null, words = null, since = null, until = null } = which;
      const [done] = await run<{ count: number }>(
        tx,
        deliveryIds
          ? { text: DISMISS_CHOSEN, values: [...values, until] }
          : { text: DISMISS, values: [...values, group, words, since, until] },
      );
      await releaseLanes(tx, { topic, subscriber }, dismissing.now);
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
  select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now from lanes
  where home_id is null and topic = $1::text and subscriber = $2::text order by id for update`;

/**
 * Makes a statement that dismisses deliveries, whether they wait or died, and records that.
 *
 * @param ctes one is `chosen`: lane_id, position, event_id, key (the error group of a dead letter), waited and failing (1
 *   or 0). The parameter `$3` is theirs.
 */
export const dismissingOf = (ctes: string) => `
  with ${ctes},
  dismissed as (
    update deliveries set state = 'dead_lettered', dismissed_at = $4::text::timestamptz, dead_lettered_at = null,
      error_group = null, next_attempt_at = null,
      attempt_log = ${logged('dismissed', { by: '$5::text', reason: '$6::text', at: '$4::text::timestamptz' })}
    from chosen where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position
    returning deliveries.lane_id, deliveries.position, deliveries.event_id, key, waited, failing
  ),
  halt as (
    delete from halts using dismissed where halts.lane_id = dismissed.lane_id and halts.position = dismissed.position
  ),
  changed as materialized (
    select event_id, $1::text as topic, $2::text as subscriber, key as error_group, -waited as open,
      -failing as failing, waited - 1 as dead
    from dismissed
  ),${recounted('$4::text::timestamptz')},
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, incident_id, delivery_id)
    select $7::uuid, $4::text::timestamptz, $5::text, $8::text, $1::text, $2::text, $6::text, $9::uuid, $10::text
    where $7::uuid is not null and exists (select from dismissed)
  )
  select (select count(*)::int from dismissed) as count, (select count(done) from counted) as counted`;

const DISMISS = dismissingOf(`
  chosen as materialized (
    select lane_id, position, event_id, key, 0 as waited, 0 as failing
    from error_groups join deliveries on error_group = key
    where topic = $1::text and subscriber = $2::text and ($3::text is null or kind = $3::text)
      and ($11::text is null or key = any (string_to_array($11::text, ','))) and ${containing('$12::text')}
      and dead_lettered_at >= coalesce($13::text::timestamptz, '-infinity')
      and dead_lettered_at <= least($4::text::timestamptz, $14::text::timestamptz)
    limit ${CHUNK}
  )`);

// A single one is dismissed whenever it died.
const DISMISS_CHOSEN = dismissingOf(`
  chosen as materialized (
    select lane_id, position, event_id, error_group as key, 0 as waited, 0 as failing
    from (select distinct id from jsonb_array_elements_text($3::text::jsonb) as id) as asked
      join deliveries on lane_id = split_part(id, '-', 1)::bigint and position = split_part(id, '-', 2)::bigint
      join lanes on lanes.id = lane_id
    where topic = $1::text and subscriber = $2::text
      and (dead_lettered_at <= least($4::text::timestamptz, $11::text::timestamptz)
        or dead_lettered_at is not null and $10::text is not null)
    limit ${CHUNK}
  )`);

const FIND_ONE = `
  select topic, subscriber, dead_lettered_at is not null as is_dead,
    (extract(epoch from dismissed_at) * 1000)::float8 as at, exists (
      select from halts where halts.lane_id = deliveries.lane_id and halts.position = deliveries.position
    ) as halts
  from deliveries join lanes on lanes.id = lane_id
  where lane_id = split_part($1::text, '-', 1)::bigint and position = split_part($1::text, '-', 2)::bigint`;

/** Counts those of an error that died until then. */
export async function countDead(
  db: Database,
  { topic, subscriber, kind = null, group, until }: Omit<DeadLetters, 'deliveryIds' | 'words' | 'since'>,
): Promise<number> {
  const [row] = await run<{ count: number }>(driverOf(db), {
    text: COUNT,
    values: [topic, subscriber, kind, until ?? null, group ?? null],
  });
  return row!.count;
}

// One by one only in a group that goes on after it.
const COUNT = `
  select coalesce(sum(case
    when exists (
      select from deliveries where error_group = key and dead_lettered_at > $4::text::timestamptz
    ) then (
      select count(*) from deliveries where error_group = key and dead_lettered_at <= $4::text::timestamptz
    ) else dead_lettered end), 0)::float8 as count
  from error_groups
  where topic = $1::text and subscriber = $2::text and ($3::text is null or kind = $3::text)
    and ($5::text is null or key = any (string_to_array($5::text, ','))) and dead_lettered > 0`;
