import { and, eq, isNull, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { backfills } from '../../../../drizzle/schema.ts';
import { isAway } from '../../../platform/db/away.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/database.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE, sleep } from '../../../platform/time.ts';
import { PLACING_LOCK } from '../locks.ts';
import { clock } from '../parts.ts';
import { CountChanged, NotActedOn, requireListed } from '../refusals.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Timing } from './asked.ts';

/** The older events of a topic that a subscriber is to be given. */
export interface Backfilling extends SubscriptionName {
  /** Creation time of the oldest event. */
  readonly since: Date;
}

/** Without `until`, all is written in one call, unless there is a pace. */
export interface BackfillRequest extends Backfilling, Partial<Timing> {
  /** The operator. */
  readonly by: string;
  readonly reason?: string | null;
  /** Deliveries to write in a minute; all at once without it. */
  readonly perMinute?: number | null;
  /** A UUID chosen by the caller. A second request with it begins nothing. */
  readonly id?: string;
  /** Refuses the backfill unless exactly this many deliveries are missing. */
  readonly expectedCount?: number;
}

export interface Backfill {
  readonly id: string;
  /** Deliveries that were missing when it was requested. */
  readonly matched: number;
  /** Deliveries that this call has written, besides those of events that its lanes have not come to. */
  readonly written: number;
  /** Whether all are written. Else they follow at the pace asked for, or when relays have let go of the lanes. */
  readonly isEnded: boolean;
}

/** What a backfill would do. Instants are ISO 8601. */
export interface BackfillPreview {
  /** Deliveries that are missing, also of events that await their places. */
  readonly matched: number;
  /** Creation times of the first and the last event; null when nothing is missing. */
  readonly oldestAt: string | null;
  readonly newestAt: string | null;
  /** Newer events that the subscriber has been handed already, and that can't come after the older ones any more. */
  readonly alreadyDelivered: number;
}

const underWay = (id: string, { topic, subscriber }: SubscriptionName) =>
  new NotActedOn(
    'backfill_under_way',
    `A backfill of ${topic} to ${subscriber} is under way: ${id}. Wait until it has ended, or stop it.`,
  );

/** Deliveries of one transaction, which takes about 50 ms and holds the subscription's lanes. */
const CHUNK = 1000;

/** The same at a pace, so that live traffic hardly notices. */
const PACED_CHUNK = 250;

/** How often to look whether relays have let go of the lanes. */
export const LOOK_EVERY_MS = 100;

/**
 * Gives a subscriber the older events of a topic: writes, once, the deliveries that retained events since then lack for
 * it. They are delivered in the order of creation and before all newer ones that are not under way yet. Producers go on.
 *
 * The newer deliveries of the subscription wait meanwhile. If this process dies, the cron continues.
 *
 * @throws NotActedOn `no_such_subscription` when this release's catalog does not list it; `backfill_under_way`; CountChanged.
 */
export async function backfill(db: Database, request: BackfillRequest): Promise<Backfill> {
  requireListed(request, 'Nothing was written.');
  const { id = uuidv7(), perMinute = null, until = Infinity, now } = request;
  const { matched, isKnown } = await open(db, { ...request, id });
  if (isKnown || !(await beginInTime(db, id, until, now)))
    return { id, matched, written: 0, isEnded: await isEnded(db, id) };
  return { id, matched, ...(await advance(db, { id, perMinute }, until, now)) };
}

/** @returns the id of a subscription's backfill that is under way; null for none. */
export async function backfillUnderWay(db: Database, of: SubscriptionName): Promise<string | null> {
  const [known] = await run<{ id: string }>(driverOf(db), {
    text: KNOWN,
    values: [null, of.topic, of.subscriber],
  });
  return known?.id ?? null;
}

/** Counts what a backfill would write. Changes nothing. @throws NotActedOn `no_such_subscription` */
export async function previewBackfill(db: Database, of: Backfilling): Promise<BackfillPreview> {
  requireListed(of, 'Nothing was written.');
  const [row] = await run<BackfillPreview>(driverOf(db), {
    text: MISSING,
    values: [of.topic, of.subscriber, of.since.toISOString()],
  });
  return row!;
}

/**
 * Continues the backfills that are under way, at their pace, until this time. They take turns, so none waits for the end of
 * another one, or for relays that hold the lanes of another one; and one that fails waits a minute. Any number of processes
 * may do so.
 *
 * @returns in how many milliseconds the next step is due: 0 or less when time was short, null when nothing is under way.
 * @throws the driver's error, once the others have had their turns; what was written stays.
 */
export async function advanceBackfills(db: Database, until: number, now?: Date): Promise<number | null> {
  const failures: unknown[] = [];
  for (;;) {
    const [next] = await run<Next>(driverOf(db), { text: NEXT, values: [now?.toISOString() ?? null] });
    if (!next || next.inMs > 0 || Date.now() >= until) {
      for (const error of failures) throw error;
      return next?.inMs ?? null;
    }
    try {
      // A turn is one step.
      if (await begin(db, next.id, now)) await advance(db, next, 0, now);
      else await putOff(db, next.id, LOOK_EVERY_MS, now);
    } catch (error) {
      if (isAway(error)) throw error;
      failures.push(error);
      await putOff(db, next.id, 1 * MINUTE, now);
    }
  }
}

/**
 * Stops a backfill: what it has not written stays unwritten, and the newer deliveries of the subscription follow.
 *
 * @returns false when it is not under way.
 */
export async function stopBackfill(db: Database, id: string, by: string, reason: string): Promise<boolean> {
  const stopped = await run(driverOf(db), { text: STOP, values: [id, by, reason, uuidv7()] });
  if (stopped.length > 0) noteDue(db);
  return stopped.length > 0;
}

interface Next {
  readonly id: string;
  readonly perMinute: number | null;
  /** In how many milliseconds it is due. */
  readonly inMs: number;
}

const NEXT = `
  select id::text, per_minute as "perMinute",
    ceil(extract(epoch from next_at - coalesce($1::text::timestamptz, clock_timestamp())) * 1000)::float8 as "inMs"
  from backfills where ended_at is null
  order by next_at limit 1`;

/** Lets the others have their turns first. */
async function putOff(db: Database, id: string, byMs: number, now: Date | undefined): Promise<void> {
  const at = now ? sql`${now.toISOString()}::timestamptz` : sql`clock_timestamp()`;
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await tx
      .update(backfills)
      .set({ nextAt: sql`${at} + ${byMs} * interval '1 millisecond'` })
      .where(and(eq(backfills.id, id), isNull(backfills.endedAt)));
  });
}

/** Records the backfill, from when on nothing newer is claimed. */
async function open(
  db: Database,
  request: BackfillRequest & { readonly id: string },
): Promise<{ readonly matched: number; readonly isKnown: boolean }> {
  const { id, topic, subscriber, since, by, reason = null, perMinute = null, expectedCount, now } = request;
  // Before the lock, for which the topic's events would wait.
  const { matched } = await previewBackfill(db, request);
  return await db.transaction(async (tx) => {
    await run(tx, {
      text: `select pg_advisory_xact_lock(${PLACING_LOCK}, hashtext($1::text))`,
      values: [topic],
    });
    const [known] = await run<{ id: string; matched: number; is_this: boolean }>(tx, {
      text: KNOWN,
      values: [id, topic, subscriber],
    });
    if (known?.is_this) return { matched: known.matched, isKnown: true };
    if (known) throw underWay(known.id, request);
    if (expectedCount !== undefined && expectedCount !== matched)
      throw new CountChanged(expectedCount, matched, 'backfilled');
    const at = now?.toISOString() ?? null;
    await run(tx, { text: MAKE_LANES, values: [topic, subscriber, at] });
    const asked = [id, topic, subscriber, since.toISOString(), by, reason, perMinute];
    await run(tx, { text: OPEN, values: [...asked, matched, at, uuidv7()] });
    return { matched, isKnown: false };
  });
}

async function isEnded(db: Database, id: string): Promise<boolean> {
  return (await db.$count(backfills, and(eq(backfills.id, id), isNull(backfills.endedAt)))) === 0;
}

/** Waits until `begin` says true. @returns false when it has ended, or relays do not let go of the lanes in time. */
async function beginInTime(db: Database, id: string, until: number, now: Date | undefined): Promise<boolean> {
  while (!(await begin(db, id, now))) {
    if ((await isEnded(db, id)) || Date.now() + LOOK_EVERY_MS >= until) return false;
    await sleep(LOOK_EVERY_MS);
  }
  return true;
}

/** @returns whether it has begun: not while relays hold newer deliveries, which they claimed before it was requested. */
async function begin(db: Database, id: string, now: Date | undefined): Promise<boolean> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [row] = await run<{ is_begun: boolean }>(tx, {
      text: `select postbud_begin_backfill_2($1::uuid, coalesce($2::text::timestamptz, clock_timestamp())) as is_begun`,
      values: [id, now?.toISOString() ?? null],
    });
    return row!.is_begun;
  });
}

interface Step {
  readonly written: number;
  readonly isEnded: boolean;
}

/** Takes steps of a backfill that has begun until all is written, the pace is reached or the time is up: at least one. */
async function advance(
  db: Database,
  { id, perMinute }: { readonly id: string; readonly perMinute: number | null },
  until: number,
  now: Date | undefined,
): Promise<Step> {
  // At a pace, what falls due in three seconds: the cron looks as often.
  const most = perMinute === null ? CHUNK : Math.min(PACED_CHUNK, Math.max(1, Math.ceil(perMinute / 20)));
  let written = 0;
  for (;;) {
    const step = await stepBackfill(db, id, most, now);
    written += step.written;
    if (step.isEnded || perMinute !== null || Date.now() >= until) return { written, isEnded: step.isEnded };
  }
}

/** Takes the next step of a backfill that has begun. */
async function stepBackfill(db: Database, id: string, most: number, now?: Date): Promise<Step> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [step] = await run<Step>(tx, { text: STEP, values: [id, most, now?.toISOString() ?? null] });
    noteDue(tx);
    return step!;
  });
}

const STEP = `
  select written, is_ended as "isEnded"
  from postbud_backfill_2($1::uuid, $2::int, coalesce($3::text::timestamptz, clock_timestamp()))`;

const KNOWN = `
  select id::text, matched::float8, id = $1::uuid as is_this from backfills
  where id = $1::uuid or topic = $2::text and subscriber = $3::text and ended_at is null
  order by is_this desc limit 1`;

// Where it is new in a stream, its lane begins at the tail.
const MAKE_LANES = `
  with lane as (
    insert into lanes (stream, topic, slot, subscriber)
    select id, topic, slot, $2::text from streams
    where topic = $1::text and not exists (
      select from lanes where lanes.stream = streams.id and lanes.subscriber = $2::text
    )
    returning id, stream
  )
  insert into journal (lane, number, head, at)
  select id, 0, (select position from log where log.stream = lane.stream order by position desc limit 1),
    coalesce($3::text::timestamptz, clock_timestamp())
  from lane`;

// Events that await their places lack the subscriber only if another release emitted them: they get it here.
const OPEN = `
  with ${clock('$9')},
  marker as (
    update awaiting set subscribers = array_append(subscribers, $3::text)
    where topic = $2::text and created_at >= $4::text::timestamptz and not $3::text = any (subscribers)
    returning 1
  ),
  opened as (
    insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, per_minute, matched, written, next_at)
    select $1::uuid, $2::text, $3::text, $4::text::timestamptz, clock.now, $5::text, $6::text, $7::int, $8::bigint,
      (select count(*) from marker), clock.now
    from clock
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $10::uuid, clock.now, $5::text, 'backfill', $2::text, $3::text, $6::text from clock`;

const STOP = `
  with stopped as (
    update backfills set ended_at = clock_timestamp() where id = $1::uuid and ended_at is null
    returning topic, subscriber, ended_at
  )
  -- At the same moment, by which the two belong together.
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $4::uuid, ended_at, $2::text, 'stop_backfill', topic, subscriber, $3::text from stopped
  returning 1 as it`;

// Of each stream what the subscriber lacks since then, and what is newer than the first of that.
const MISSING = `
  with of_stream as materialized (
    select streams.id as stream, lanes.id as lane, postbud_first_since_1(streams.id, $3::text::timestamptz) as first
    from streams left join lanes on lanes.stream = streams.id and lanes.subscriber = $2::text
    where streams.topic = $1::text
  ),
  range as materialized (
    select stream, lane, greatest(position, first) as position, until_position, $2::text = any (subscribers) as is_own
    from of_stream, lateral (
      select position, subscribers, coalesce(lead(position) over (order by position), 9223372036854775807) as until_position
      from audiences where audiences.stream = of_stream.stream
    ) as audience
    where until_position > first
  ),
  missing as materialized (
    select stream, lane, count(*) as count, min(found.position) as first, max(found.position) as last
    from range, lateral (
      select position from log
      where log.stream = range.stream and log.position >= range.position and log.position < until_position
        and event_id is not null and not exists (
          select from exceptions where exceptions.lane = range.lane and exceptions.position = log.position
        )
    ) as found
    where not is_own group by stream, lane
  ),
  span as materialized (
    select min(oldest.created_at) as oldest, max(newest.created_at) as newest
    from missing
      join log as first_place on first_place.stream = missing.stream and first_place.position = missing.first
      join events as oldest on oldest.id = first_place.event_id
      join log as last_place on last_place.stream = missing.stream and last_place.position = missing.last
      join events as newest on newest.id = last_place.event_id
  ),
  newer as materialized (
    select count(*) filter (where is_open is null and found.position <= head or state = 'delivered') as delivered
    from missing join lane_heads on lane_heads.id = missing.lane join range on range.stream = missing.stream, lateral (
      select log.position, is_open, state
      from log left join exceptions on exceptions.lane = missing.lane and exceptions.position = log.position
      where log.stream = missing.stream and log.position >= range.position and log.position < until_position
        and log.position > missing.first and (is_own or is_open is not null)
    ) as found
  )
  select (coalesce((select sum(count) from missing), 0) + (
      select count(*) from awaiting
      where topic = $1::text and created_at >= $3::text::timestamptz and not $2::text = any (subscribers)
    ))::float8 as matched, to_char(oldest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "oldestAt",
    to_char(newest at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "newestAt",
    delivered::float8 as "alreadyDelivered"
  from span, newer`;
