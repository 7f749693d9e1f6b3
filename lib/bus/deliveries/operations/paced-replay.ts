import { and, eq, isNull, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { pacedReplays } from '../../../../drizzle/schema.ts';
import { isAway } from '../../../platform/db/away.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { clock } from '../parts.ts';
import type { Timing, Word } from './asked.ts';
import { PRUNING, putBackBy } from './put-back.ts';
import { matchingOf, matchingValues } from './replay-matching.ts';
import type { ReplayRequest } from './replay-matching.ts';

// A paced replay has no plan: each step asks what still matches the request as it was at its time. So what was replayed,
// dismissed or pruned since is passed over, and so are handlers that refuse replays by now.

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
  let due: DueStep | undefined;
  try {
    const putBack = await db.transaction(async (tx) => {
      await limitStatements(tx, STEP_LIMIT_MS);
      [due] = await run<DueStep>(tx, { text: DUE, values: [now?.toISOString() ?? null, replayId ?? null] });
      return due ? await takeStep(tx, due, options) : null;
    });
    return putBack === null ? null : { putBack };
  } catch (error) {
    if (!due || isAway(error)) throw error;
    await putOff(db, due, now);
    return { failure: error };
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

async function takeStep(
  tx: Transaction,
  { id, size, next_at: nextAt, requested_at: requestedAt, request }: DueStep,
  { attached, now }: StepOptions,
): Promise<number> {
  const [found] = await run<{ matching: string; lanes: string }>(tx, {
    text: matchingStep(matchingOf(request)),
    values: matchingValues({ ...request, limit: size }, attached, requestedAt),
  });
  const { matching, lanes } = found!;
  await run(tx, { text: 'select postbud_lock_lanes_2($1::text::int[])', values: [lanes] });
  const [done] = await run<{ put_back: number }>(tx, {
    text: STEP,
    values: [id, matching, size, nextAt, now?.toISOString() ?? null],
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
  /** Both in Postgres's notation. */
  readonly next_at: string;
  readonly requested_at: string;
  readonly request: ReplayRequest;
}

const NEXT = `
  select (extract(epoch from min(next_at) - coalesce($1::text::timestamptz, clock_timestamp())) * 1000)::float8 as in_ms
  from paced_replays where ended_at is null`;

/**
 * How many deliveries one transaction puts back at most. It holds their lanes meanwhile, and newer deliveries in these
 * lanes wait for it, and then for what it put back.
 */
const STEP_DELIVERIES = 1000;

/** Searching a million deliveries takes seconds. */
const STEP_LIMIT_MS = 1 * MINUTE;

/**
 * A step puts back a second's worth, so that a fast pace is smooth, and a slow one costs few transactions. Since it searches
 * all that match, it puts back a second's worth more for each so many of them, and they are searched less often.
 */
const DELIVERIES_FOR_A_SECOND = 20_000;

/** After a gap, such as a deployment, a replay catches up on no more than this: its pace protects the subscriber. */
const CATCH_UP_SECONDS = 10;

// The replay's row comes before all other locks; see locks.ts.
const DUE = `
  with ${clock('$1')},
  due as materialized (
    select replay_id, per_minute, planned - put_back as remaining, now, 1 + planned / ${DELIVERIES_FOR_A_SECOND} as seconds,
      greatest(next_at, now - ${CATCH_UP_SECONDS} * interval '1 second') as from_at
    from clock, paced_replays
    where ended_at is null and next_at <= now and ($2::text is null or replay_id = $2::text::uuid)
    order by next_at limit 1 for update of paced_replays skip locked
  ),
  step as materialized (
    select due.*, least(${STEP_DELIVERIES}, remaining, greatest(1, floor(
      (extract(epoch from now - from_at) + seconds) * per_minute / 60)))::int as size
    from due
  )
  select replay_id::text as id, size, (from_at + size * interval '1 minute' / per_minute)::text as next_at,
    requested_at::text as requested_at, request
  from step join replays on replays.id = replay_id`;

/** The limit of the matching is the size of the step. */
const matchingStep = (matching: string) => `
  with ${PRUNING},${matching}
  select coalesce(json_agg(json_build_object('lane', lane, 'position', position, 'ended_at', ended_at)), '[]')::text as matching,
    array(select distinct lane from matching)::text as lanes
  from pruning left join matching on true where lane is not null`;

// What was replayed or dismissed while this waited for the locks no longer ended when it had.
const STEP = `
  with ${clock('$5')},
  chosen as materialized (
    select deliveries.lane, deliveries.position, topic, subscriber
    from jsonb_to_recordset($2::text::jsonb) as found(lane int, position bigint, ended_at timestamptz), lateral (
      select * from deliveries where deliveries.lane = found.lane and deliveries.position = found.position
    ) as deliveries
    where state in ('dead_lettered', 'delivered')
      and coalesce(dead_lettered_at, dismissed_at, delivered_at) = found.ended_at
  ),
  replay as materialized (
    select id::text as id, requested_by as operator, reason from replays where id = $1::text::uuid
  ),${putBackBy({ id: '(select id from replay)', by: '(select operator from replay)', reason: '(select reason from replay)' })},
  done as materialized (
    select coalesce(sum(count), 0)::int as put_back from put_back
  ),
  stepped as (
    update paced_replays set put_back = paced_replays.put_back + done.put_back, next_at = $4::text::timestamptz,
      ended_at = case when jsonb_array_length($2::text::jsonb) < $3::int
        or paced_replays.put_back + done.put_back >= planned then clock.now end
    from clock, done where replay_id = $1::text::uuid
  ),
  recorded as (
    insert into replay_steps (replay_id, at) select $1::text::uuid, clock.now from clock, done where put_back > 0
    on conflict do nothing
  )
  select put_back from done`;

const STOP = `
  with ${clock('$2')},
  stopped as (
    update paced_replays set ended_at = clock.now from clock
    where replay_id = $1::text::uuid and ended_at is null returning replay_id
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, replay_id)
    select $3::text::uuid, clock.now, $4::text, 'stop_replay', topic, request ->> 'subscriber', $5::text, id
    from clock, stopped join replays on replays.id = replay_id
  )
  select exists (select from replays where id = $1::text::uuid) as is_known,
    exists (select from stopped) as is_stopped`;
