import { and, eq, isNull, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { backfills, SLOTS } from '../../../../drizzle/schema.ts';
import { isAway } from '../../../platform/db/away.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE, sleep } from '../../../platform/time.ts';
import { FAN_OUT_LOCK } from '../locks.ts';
import { clock } from '../parts.ts';
import { CountChanged, requireListed } from '../refusals.ts';
import { releaseLanes } from '../release.ts';
import type { SubscriptionName } from '../subscription.ts';
import type { Timing } from './asked.ts';
import { missingOf } from './missing.ts';
import type { Backfilling, BackfillPreview } from './missing.ts';

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
  /** Deliveries that this call has written. */
  readonly written: number;
  /** Whether all are written. Else they follow at the pace asked for, or when relays have let go of the lanes. */
  readonly isEnded: boolean;
}

/** A backfill of the same subscription is under way. */
export class BackfillUnderWay extends Error {
  readonly code = 'backfill_under_way';
  readonly id: string;

  constructor(id: string, { topic, subscriber }: SubscriptionName) {
    super(
      `A backfill of ${topic} for ${subscriber} is under way: wait for its end, or stop it. It has the id ${id}.`,
    );
    this.name = 'BackfillUnderWay';
    this.id = id;
  }
}

/** Deliveries of one transaction, which takes about 30 ms. */
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
 * @throws NotActedOn `no_such_subscription` when this release's catalog does not list it; CountChanged; BackfillUnderWay.
 */
export async function backfill(db: Database, request: BackfillRequest): Promise<Backfill> {
  requireListed(request, 'Nothing was written.');
  const { id = uuidv7(), perMinute = null, until = Infinity, now } = request;
  const { matched, isKnown } = await open(db, { ...request, id });
  if (isKnown || !(await beginInTime(db, id, until, now)))
    return { id, matched, written: 0, isEnded: await isEnded(db, id) };
  const { written, isEnded: ended } = await advance(db, { id, perMinute }, until, now);
  return { id, matched, written, isEnded: ended };
}

/** Counts what a backfill would write. Changes nothing. @throws NotActedOn `no_such_subscription` */
export async function previewBackfill(db: Database, of: Backfilling): Promise<BackfillPreview> {
  requireListed(of, 'Nothing was written.');
  return await missingOf(driverOf(db), of);
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
      if (next.isBegun || (await beginBackfill(db, next.id, now))) await advance(db, next, 0, now);
      else await putOff(db, next.id, LOOK_EVERY_MS, now);
    } catch (error) {
      if (isAway(error)) throw error;
      failures.push(error);
      await putOff(db, next.id, 1 * MINUTE, now);
    }
  }
}

interface Next {
  readonly id: string;
  readonly perMinute: number | null;
  readonly isBegun: boolean;
  /** In how many milliseconds it is due. */
  readonly inMs: number;
}

const NEXT = `
  select id::text, per_minute as "perMinute", begun_at is not null as "isBegun",
    ceil(extract(epoch from next_at - coalesce($1::text::timestamptz, clock_timestamp())) * 1000)::float8 as "inMs"
  from backfills where ended_at is null and renamed_from is null
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

/**
 * Stops a backfill: what it has not written stays unwritten, and the newer deliveries of the subscription follow.
 *
 * @returns false when it is not under way.
 */
export async function stopBackfill(db: Database, id: string, by: string, reason: string): Promise<boolean> {
  return await db.transaction(async (tx) => {
    const [stopped] = await run<SubscriptionName>(tx, {
      text: STOP,
      values: [id, by, reason, uuidv7()],
    });
    if (!stopped) return false;
    await wakeLanes(tx, stopped);
    return true;
  });
}

/** Records the backfill and sets its front, from which on nothing newer is claimed. */
async function open(
  db: Database,
  request: BackfillRequest & { readonly id: string },
): Promise<{ readonly matched: number; readonly isKnown: boolean }> {
  const { id, topic, subscriber, since, by, reason = null, perMinute = null, expectedCount, now } = request;
  // Before the lock, for which everything else would wait. What another release's relay fans out meanwhile is behind the
  // front, and is written too.
  const { matched, front } = await missingOf(driverOf(db), request);
  return await db.transaction(async (tx) => {
    // Positions and markers stay as they are until this transaction ends.
    await run(tx, { text: `select pg_advisory_xact_lock(${FAN_OUT_LOCK}, 0)`, values: [] });
    const [known] = await run<{ id: string; matched: number; is_this: boolean }>(tx, {
      text: KNOWN,
      values: [id, topic, subscriber],
    });
    if (known?.is_this) return { matched: known.matched, isKnown: true };
    if (known) throw new BackfillUnderWay(known.id, request);
    if (expectedCount !== undefined && expectedCount !== matched)
      throw new CountChanged(expectedCount, matched);
    const at = now?.toISOString() ?? null;
    await run(tx, { text: MAKE_LANES, values: [topic, subscriber] });
    const asked = [id, topic, subscriber, since.toISOString(), by, reason, perMinute];
    await run(tx, { text: OPEN, values: [...asked, matched, front, at, uuidv7()] });
    return { matched, isKnown: false };
  });
}

async function isEnded(db: Database, id: string): Promise<boolean> {
  return (await db.$count(backfills, and(eq(backfills.id, id), isNull(backfills.endedAt)))) === 0;
}

/** Takes steps of a backfill that has begun until all is written, the pace is reached or the time is up: at least one. */
async function advance(
  db: Database,
  { id, perMinute }: { readonly id: string; readonly perMinute: number | null },
  until: number,
  now: Date | undefined,
): Promise<{ readonly written: number; readonly isEnded: boolean }> {
  // At a pace, what falls due in three seconds: the cron looks as often.
  const most = perMinute === null ? CHUNK : Math.min(PACED_CHUNK, Math.max(1, Math.ceil(perMinute / 20)));
  let written = 0;
  for (;;) {
    const step = await stepBackfill(db, id, most, now);
    written += step.written;
    // The newer deliveries wait only for the end.
    const goesOn = step.isWritten || (perMinute === null && Date.now() < until);
    if (step.isEnded || !goesOn) return { written, isEnded: step.isEnded };
  }
}

/** Waits until `beginBackfill` says true. @returns false when it has ended, or relays do not let go of the lanes in time. */
export async function beginInTime(
  db: Database,
  id: string,
  until: number,
  now: Date | undefined,
): Promise<boolean> {
  while (!(await beginBackfill(db, id, now))) {
    if ((await isEnded(db, id)) || Date.now() + LOOK_EVERY_MS >= until) return false;
    await sleep(LOOK_EVERY_MS);
  }
  return true;
}

/**
 * Prepares the lanes of a backfill, or of a rename, which is one from a former name.
 *
 * @returns false while relays hold lanes that they claimed before it was requested.
 */
async function beginBackfill(db: Database, id: string, now: Date | undefined): Promise<boolean> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [row] = await run<{ is_begun: boolean }>(tx, {
      text: `select postbud_begin_backfill_1($1::uuid, coalesce($2::text::timestamptz, clock_timestamp())) as is_begun`,
      values: [id, now?.toISOString() ?? null],
    });
    return row!.is_begun;
  });
}

/** What a step has done: it either writes, or ends the backfill when all is written. */
interface BackfillStep {
  readonly written: number;
  readonly isWritten: boolean;
  readonly isEnded: boolean;
}

/** Takes the next step of a backfill that has begun, and makes the lanes due. */
export async function stepBackfill(
  db: Database,
  id: string,
  most: number,
  now?: Date,
): Promise<BackfillStep> {
  const wake = async (tx: Transaction) => {
    const [of] = await tx.select().from(backfills).where(eq(backfills.id, id));
    if (of) await wakeLanes(tx, of, now);
    return of;
  };
  const { written, isEnded: ended } = await db.transaction(async (tx) => {
    await limitStatements(tx);
    const [step] = await run<{ written: number; isEnded: boolean }>(tx, {
      text: STEP,
      values: [id, most, now?.toISOString() ?? null],
    });
    // Nobody looks at them for this backfill again.
    if (step!.isEnded) await wake(tx);
    return step!;
  });
  if (ended) return { written, isWritten: true, isEnded: true };
  // In a transaction of its own, because the first one locks events, which come after lanes.
  const of = await db.transaction(wake);
  return { written, isWritten: of === undefined || of.front >= of.until, isEnded: false };
}

const STEP = `
  select written, is_ended as "isEnded"
  from postbud_backfill_1($1::uuid, $2::int, coalesce($3::text::timestamptz, clock_timestamp()))`;

/** Makes all lanes of a subscription due: whatever they waited for, older deliveries may come before it. */
export async function wakeLanes(tx: Transaction, of: SubscriptionName, now?: Date): Promise<void> {
  await limitStatements(tx, 1 * MINUTE);
  await run(tx, { text: LOCK_LANES, values: [of.topic, of.subscriber] });
  await run(tx, { text: WAKE, values: [of.topic, of.subscriber, now?.toISOString() ?? null] });
  await releaseLanes(tx, of, now);
  noteDue(tx);
}

// Also those that a turn has in hand: it may know the front that is gone, and leave its lane to wait for that.
const LOCK_LANES = `
  select id from lanes where topic = $1::text and subscriber = $2::text order by id for update`;

const WAKE = `
  update lanes set due_at = coalesce($3::text::timestamptz, clock_timestamp())
  where topic = $1::text and subscriber = $2::text and lease_token is null and (
    due_at > coalesce($3::text::timestamptz, clock_timestamp()) and due_at < 'infinity' or due_at is null and tail > head
  )`;

const KNOWN = `
  select id::text, matched::float8, id = $1::uuid as is_this from backfills
  where id = $1::uuid or topic = $2::text and subscriber = $3::text and ended_at is null
  order by is_this desc limit 1`;

// Under the fan-out lock, so that fan-out and backfill never wait for each other's new rows.
const MAKE_LANES = `
  select postbud_lanes_2($1::text, array[$2::text], nullif(slot, 0)::smallint, 0) from generate_series(0, ${SLOTS}) as slot`;

// Events that are not fanned out yet lack the subscriber only if another release emitted them: they get it here.
const OPEN = `
  with ${clock('$10')},
  marker as (
    update awaiting_fan_out set subscribers = array_append(subscribers, $3::text), open = open + 1
    where topic = $2::text and created_at >= $4::text::timestamptz and not $3::text = any (subscribers)
    returning event_id
  ),
  event as (
    update events set subscribers = array_append(subscribers, $3::text), open = open + 1
    from marker where id = event_id
  ),
  newest as materialized (
    select last_value as position from delivery_positions
  ),
  opened as (
    insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, per_minute, matched, written,
      front, until, next_at)
    select $1::uuid, $2::text, $3::text, $4::text::timestamptz, clock.now, $5::text, $6::text, $7::int, $8::bigint,
      (select count(*) from marker), least($9::bigint, position), position, clock.now
    from clock, newest
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $11::uuid, clock.now, $5::text, 'backfill', $2::text, $3::text, $6::text from clock`;

const STOP = `
  with stopped as (
    update backfills set ended_at = clock_timestamp() where id = $1::uuid and ended_at is null and renamed_from is null
    returning topic, subscriber, ended_at
  ),
  recorded as (
    -- At the same moment, by which the two belong together.
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
    select $4::uuid, ended_at, $2::text, 'stop_backfill', topic, subscriber, $3::text from stopped
  )
  select topic, subscriber from stopped`;
