import { sql } from 'drizzle-orm';

import { operatorActions } from '../../../../drizzle/schema.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { SMOKE_TEST } from '../../catalog/smoke-test.ts';
import { NotActedOn } from '../refusals.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Word } from './asked.ts';
import { stopBackfill } from './backfill.ts';
import { CHUNK, beginDismissal, dismissDeadLetters, dismissalValues, dismissingOf } from './dismiss.ts';
import type { Dismissal, Dismissed, Dismissing } from './dismiss.ts';
import { forgetReplays, forgetSubscription } from './forget.ts';
import { HELD, isKnown, requireUnlisted, standingUnder } from './standing.ts';

export interface Retired extends Dismissed {
  /** The topics that the subscriber had deliveries of. */
  readonly topics: readonly string[];
}

/**
 * Retires a subscriber that the catalog no longer lists: what waits for it and what died is dismissed with the operator's
 * reason, and its pauses, halts, backfills, paced replays and its outage end. Nothing shows the subscription afterwards, and
 * an event is delivered once its other subscribers have it.
 *
 * Works in chunks and can be called again, like `dismiss`. An event that is not fanned out yet still counts as left: call
 * it again in a few seconds.
 *
 * @param topic null: all topics that the subscriber has deliveries of.
 * @returns null when the subscriber never had any.
 * @throws NotActedOn `still_listed`; `under_way` while a relay of another release delivers to it.
 */
export async function retire(
  db: Database,
  { subscriber, topic }: { readonly subscriber: string; readonly topic: string | null },
  how: Omit<Dismissal, 'action'>,
): Promise<Retired | null> {
  requireUnlisted(subscriber, topic, 'retire');
  const found = await run<{ topic: string }>(driverOf(db), { text: TOPICS, values: [subscriber, topic] });
  if (found.length === 0) return (await isKnown(db, subscriber)) ? NOTHING : null;
  let dismissed = 0;
  for (const one of found) {
    const subscription = { topic: one.topic, subscriber };
    const dismissing = beginDismissal({ ...how, action: 'retire' });
    await endBackfill(db, subscription, how);
    await forgetReplays(driverOf(db), subscription);
    dismissed += await dismissWaiting(db, subscription, dismissing);
    dismissed += await dismissDeadLetters(db, subscription, dismissing);
    if (Date.now() < how.until) await forget(db, subscription, dismissing);
  }
  const rest = await standingUnder(driverOf(db), subscriber, topic);
  const left = rest.reduce((sum, { waiting, deadLettered }) => sum + waiting + deadLettered, 0);
  return { topics: found.map((one) => one.topic), dismissed, left };
}

/**
 * Stops a backfill, so that it writes no more of what is dismissed.
 *
 * @throws NotActedOn `under_way` while the subscription is renamed: what waits is wanted under its new name.
 */
async function endBackfill(
  db: Database,
  { topic, subscriber }: SubscriptionName,
  { by, reason }: Word,
): Promise<void> {
  const open = await run<{ id: string; from: string | null; to: string }>(driverOf(db), {
    text: OPEN_BACKFILLS,
    values: [topic, subscriber],
  });
  for (const { id, from, to } of open) {
    const refusal = `${from} is being renamed to ${to} on ${topic}. Nothing was dismissed there. Try again once that has ended.`;
    if (from !== null) throw new NotActedOn('under_way', refusal);
    await stopBackfill(db, id, by, reason);
  }
}

/** Ends what is left of a subscription without deliveries, on record even where nothing had to be dismissed. */
async function forget(
  db: Database,
  subscription: SubscriptionName,
  { isRecorded, actionId, at, by, reason, action }: Dismissing,
): Promise<void> {
  await db.transaction(async (tx) => {
    const hasEnded = await forgetSubscription(tx, subscription);
    if (isRecorded || !hasEnded) return;
    const { topic, subscriber } = subscription;
    // To the microsecond, as its deliveries have it.
    const instant = sql`coalesce(${at}::text::timestamptz, clock_timestamp())`;
    const record = { id: actionId, at: instant, operator: by, action, topic, subscriber, reason };
    await tx.insert(operatorActions).values(record);
  });
}

/** What a second call finds. */
const NOTHING: Retired = { topics: [], dismissed: 0, left: 0 };

/** Dismisses what is pending or failing. @returns how many deliveries. @throws NotActedOn */
async function dismissWaiting(
  db: Database,
  subscription: SubscriptionName,
  dismissing: Dismissing,
): Promise<number> {
  let total = 0;
  while (Date.now() < dismissing.until) {
    const done = await db.transaction(async (tx) => {
      const { topic, subscriber } = subscription;
      const [lane] = await run<{ id: string }>(tx, { text: NEXT_LANE, values: [topic, subscriber] });
      if (!lane) return null;
      const [lock] = await run<{ now: string; is_leased: boolean }>(tx, {
        text: LOCK,
        values: [lane.id, dismissing.now?.toISOString() ?? null],
      });
      if (lock!.is_leased) throw new NotActedOn('under_way');
      dismissing.at ??= lock!.now;
      const values = dismissalValues(subscription, lane.id, dismissing);
      const [dismissed] = await run<{ count: number }>(tx, { text: DISMISS_WAITING, values });
      return dismissed!.count;
    });
    if (done === null) break;
    dismissing.isRecorded ||= done > 0;
    total += done;
  }
  return total;
}

const TOPICS = `
  select topic from (
    select topic from (${HELD}
    ) as standing
    union
    select topic from backfills where subscriber = $1::text and ended_at is null
    union
    select topic from halts where subscriber = $1::text
    union
    -- Neither has a topic: they end with any.
    select min(topic) from home_lanes where subscriber = $1::text and topic <> '${SMOKE_TEST.topic}' and (
      exists (select from outages where outages.subscriber = $1::text)
      or exists (select from pauses where pauses.subscriber = $1::text and pauses.topic = '')
    )
    having count(*) > 0
  ) as held
  where $2::text is null or topic = $2::text order by topic`;

/** A lane that has something to deliver is due at some time, or the lane of one of its keys is. */
const NEXT_LANE = `
  select coalesce(home_id, id)::text as id from lanes
  where topic = $1::text and subscriber = $2::text and (due_at is not null or lease_token is not null) order by 1 limit 1`;

// The lane with the lanes of its keys.
const LOCK = `
  with locked as materialized (
    select lease_token, coalesce(due_at, leased_until) as held_until from lanes where id = $1::text::bigint or home_id = $1::text::bigint
    order by id for update
  )
  select coalesce($2::text::timestamptz, clock_timestamp())::text as now,
    coalesce(bool_or(lease_token is not null and held_until > coalesce($2::text::timestamptz, clock_timestamp())), false)
      as is_leased
  from locked`;

const DISMISS_WAITING = dismissingOf(`
  chosen as materialized (
    select lane_id, position, event_id, null::text as key, 1 as waited, (state = 'failing')::int as failing
    from deliveries
    where lane_id = $3::text::bigint and coalesce(state in ('pending', 'failing'), false)
      and position > (select min(head) from lanes where id = $3::text::bigint or home_id = $3::text::bigint)
    order by position limit ${CHUNK}
  ),
  reach as materialized (
    select max(position) as last, count(*) < ${CHUNK} as is_end from chosen
  ),
  moved_lane as (
    update lanes set head = case when is_end then tail else greatest(head, last) end,
      due_at = case when not is_end then due_at end, lease_token = case when not is_end then lease_token end,
      waits_for_version = null
    from reach where id = $3::text::bigint
  ),
  moved_key as (
    update lanes set head = greatest(head, last), tail = greatest(tail, last)
    from reach where home_id = $3::text::bigint and not is_end
  ),
  ended_key as (
    delete from lanes using reach where home_id = $3::text::bigint and is_end
  )`);

const OPEN_BACKFILLS = `
  select id::text, renamed_from as from, subscriber as to from backfills
  where topic = $1::text and $2::text in (subscriber, renamed_from) and ended_at is null
  order by renamed_from`;
