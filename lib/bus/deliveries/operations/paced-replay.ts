import { and, eq, isNull, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { pacedReplays } from '../../../../drizzle/schema.ts';
import { isAway } from '../../../platform/db/away.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { clock } from '../parts.ts';
import { refusingReplays } from '../subscription.ts';
import type { Timing, Word } from './asked.ts';
import { PRUNING, PUT_BACK } from './put-back.ts';

interface StepOptions extends Pick<Timing, 'now'> {
  /** Tells whose handlers refuse replays by now. */
  readonly attached: readonly AttachedSubscriber[];
  /** Only this replay; by default the one that is due first. */
  readonly replayId?: string;
}

/**
 * Takes the steps of paced replays that are due, until the time is up.
 *
 * Any number of processes may do so at once: a step locks its replay, and the others take another one. A step is one
 * transaction, so a process that dies leaves the replay as it was before or after it.
 *
 * One that fails waits a minute, and the others go on.
 *
 * @returns in how many milliseconds the next step is due: 0 or less when time was short, null when no replay is open.
 * @throws the driver's error, once the others have taken their steps.
 */
export async function advanceReplays(
  db: Database,
  { until, ...options }: StepOptions & Timing,
): Promise<number | null> {
  const failures: unknown[] = [];
  for (;;) {
    const [next] = await run<{ in_ms: number | null }>(driverOf(db), {
      text: NEXT,
      values: [options.now?.toISOString() ?? null],
    });
    const inMs = next!.in_ms;
    const isDue = inMs !== null && inMs <= 0 && Date.now() < until;
    const step = isDue ? await attemptStep(db, options) : null;
    // Null: another process takes the step that is due.
    if (step === null) {
      for (const error of failures) throw error;
      return inMs;
    }
    if ('failure' in step) failures.push(step.failure);
  }
}

/** Puts back the next deliveries of a paced replay. @returns how many; null when none is due that no other process holds. */
export async function stepReplay(db: Database, options: StepOptions): Promise<number | null> {
  const step = await attemptStep(db, options);
  if (step && 'failure' in step) throw step.failure;
  return step?.putBack ?? null;
}

type Step = { readonly putBack: number } | { readonly failure: unknown };

/** @returns null as `stepReplay`. Where the step failed, its replay is put off. */
async function attemptStep(db: Database, options: StepOptions): Promise<Step | null> {
  const { replayId, now } = options;
  const at = now?.toISOString() ?? null;
  for (;;) {
    let due: DueStep | undefined;
    try {
      const putBack = await db.transaction(async (tx) => {
        await limitStatements(tx);
        [due] = await run<DueStep>(tx, { text: DUE, values: [at, replayId ?? null] });
        return due ? await takeStep(tx, due, options) : null;
      });
      if (putBack === null) return null;
      if (putBack !== 'moved') return { putBack };
    } catch (error) {
      if (!due || isAway(error)) throw error;
      await putOff(db, due, now);
      return { failure: error };
    }
  }
}

/** The one that is due first is taken: one that fails would keep all others waiting. */
async function putOff(db: Database, { id }: DueStep, now: Date | undefined): Promise<void> {
  const at = now ? sql`${now.toISOString()}::timestamptz` : sql`clock_timestamp()`;
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await tx
      .update(pacedReplays)
      .set({ nextAt: sql`${at} + interval '1 minute'` })
      .where(and(eq(pacedReplays.replayId, id), isNull(pacedReplays.endedAt)));
  });
}

/** @returns `moved` where a rename moved some of the deliveries while this waited for their lanes; nothing is put back then. */
async function takeStep(
  tx: Transaction,
  { id, size, next_at: nextAt }: DueStep,
  { attached, now }: StepOptions,
): Promise<number | 'moved'> {
  const step = [id, size];
  const [locked] = await run<{ lanes: string }>(tx, { text: LOCK, values: step });
  const { lanes } = locked!;
  // In a newer snapshot. From here on no rename moves any of these: it would have to lock the lanes. It may still bring
  // others before them, which are left to the next step.
  const [found] = await run<{ are_locked: boolean }>(tx, { text: PLANNED, values: [...step, lanes] });
  if (!found!.are_locked) return 'moved';
  const refusing = JSON.stringify(refusingReplays(attached));
  const [done] = await run<{ put_back: number }>(tx, {
    text: STEP,
    values: [...step, lanes, nextAt, now?.toISOString() ?? null, refusing],
  });
  const putBack = done!.put_back;
  if (putBack > 0) noteDue(tx);
  return putBack;
}

/**
 * Stops a paced replay: what it has not put back stays as it is. The same statement records the operator.
 *
 * @returns `ended` for a replay that had nothing left to put back; null for an unknown one.
 */
export async function stopReplay(
  db: Database,
  { replayId, by, reason, now }: Word & Pick<Timing, 'now'> & { readonly replayId: string },
): Promise<'stopped' | 'ended' | null> {
  const [row] = await run<{ is_known: boolean; is_stopped: boolean }>(driverOf(db), {
    text: STOP,
    values: [replayId, now?.toISOString() ?? null, uuidv7(), by, reason],
  });
  const { is_known: isKnown, is_stopped: isStopped } = row!;
  return isStopped ? 'stopped' : isKnown ? 'ended' : null;
}

interface DueStep {
  readonly id: string;
  readonly size: number;
  /** In Postgres's notation. */
  readonly next_at: string;
}

const NEXT = `
  select (extract(epoch from min(next_at) - coalesce($1::text::timestamptz, clock_timestamp())) * 1000)::float8 as in_ms
  from paced_replays where ended_at is null`;

/**
 * How many deliveries one transaction puts back at most. It holds their lanes meanwhile, and newer deliveries in these
 * lanes wait for it, and then for what it put back.
 */
const STEP_DELIVERIES = 100;

/** A step puts back a second's worth, so that a fast pace is smooth, and a slow one costs few transactions. */
const STEP_SECONDS = 1;

/** After a gap, such as a deployment, a replay catches up on no more than this: its pace protects the subscriber. */
const CATCH_UP_SECONDS = 10;

// The replay's row comes before all other locks; see locks.ts.
const DUE = `
  with ${clock('$1')},
  due as materialized (
    select replay_id, per_minute, now,
      greatest(next_at, now - ${CATCH_UP_SECONDS} * interval '1 second') as from_at
    from clock, paced_replays
    where ended_at is null and next_at <= now and ($2::text is null or replay_id = $2::text::uuid)
    order by next_at limit 1 for update of paced_replays skip locked
  ),
  step as materialized (
    select due.*, least(${STEP_DELIVERIES}, greatest(1, floor(
      (extract(epoch from now - from_at) + ${STEP_SECONDS}) * per_minute / 60)))::int as size
    from due
  )
  select replay_id::text as id, size, (from_at + size * interval '1 minute' / per_minute)::text as next_at
  from step`;

// What was put back is planned no more. A rename may have moved a delivery to an earlier lane since its event was reached.
const nextPlanned = (condition = 'true') => `
  planned as materialized (
    select next.* from paced_replays, lateral (
      select position, lane_id, ended_at from planned_replays
      where planned_replays.replay_id = paced_replays.replay_id and position >= reached_position
        and ${condition}
      order by position, lane_id limit $2::int
    ) as next
    where replay_id = $1::text::uuid
  )`;

const LOCK = `
  with ${nextPlanned()},
  ${PRUNING},
  locked as materialized (
    select lanes.id from pruning, lanes
    where home_id is null and lanes.id in (select lane_id from planned) order by lanes.id for update of lanes
  )
  select array(select id from locked)::text as lanes`;

const PLANNED = `
  with ${nextPlanned()}
  select not exists (
    select from planned join lanes on lanes.id = lane_id where home_id is null and lane_id <> all ($3::text::bigint[])
  ) as are_locked`;

// A delivery that was replayed, dismissed or pruned since the plan is passed over: it no longer ended when it had.
const STEP = `
  with ${clock('$5')},
  replaying as materialized (
    select id::text as id, requested_by as operator, reason from replays where id = $1::text::uuid
  ),
  ${nextPlanned('lane_id = any ($3::text::bigint[])')},
  chosen as materialized (
    select lane_id, deliveries.position, topic, subscriber, error_group
    from planned join deliveries using (lane_id, position) join lanes on lanes.id = lane_id
    where deliveries.state in ('dead_lettered', 'delivered')
      and coalesce(dead_lettered_at, dismissed_at, delivered_at) = planned.ended_at
      and not $6::text::jsonb ? (topic || ' ' || subscriber)
  ),${PUT_BACK},
  forgotten as (
    delete from planned_replays using planned
    where planned_replays.replay_id = $1::text::uuid
      and (planned_replays.position, planned_replays.lane_id) = (planned.position, planned.lane_id)
  ),
  reached as materialized (
    select count(*)::int as planned, (select count(*) from put_back)::int as put_back,
      max(position) as position, max(lane_id) filter (where position = last_position) as lane_id
    from (select *, max(position) over () as last_position from planned) as planned
  ),
  stepped as (
    update paced_replays set put_back = paced_replays.put_back + reached.put_back,
      passed_over = passed_over + reached.planned - reached.put_back,
      reached_position = coalesce(reached.position, reached_position), reached_lane = coalesce(lane_id, reached_lane),
      next_at = $4::text::timestamptz,
      ended_at = case when reached.planned < $2::int
        or paced_replays.put_back + passed_over + reached.planned = paced_replays.planned then clock.now end
    from clock, reached where replay_id = $1::text::uuid
  ),
  recorded as (
    insert into replay_steps (replay_id, at) select $1::text::uuid, clock.now from clock, reached where put_back > 0
    on conflict do nothing
  )
  select put_back from reached`;

const STOP = `
  with ${clock('$2')},
  stopped as (
    update paced_replays set ended_at = clock.now from clock
    where replay_id = $1::text::uuid and ended_at is null returning replay_id
  ),
  forgotten as (
    delete from planned_replays using stopped where planned_replays.replay_id = stopped.replay_id
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, replay_id)
    select $3::text::uuid, clock.now, $4::text, 'stop_replay', topic, request ->> 'subscriber', $5::text, id
    from clock, stopped join replays on replays.id = replay_id
  )
  select exists (select from replays where id = $1::text::uuid) as is_known,
    exists (select from stopped) as is_stopped`;
