import type { Transaction } from '../../platform/db/connect.ts';
import { TransactionCommand } from '../../platform/gate.ts';
import { run } from '../../platform/db/statement.ts';
import type { ErrorGroup } from './error-group.ts';

/** A lane's outcomes, and what becomes of the lane. All times are epoch milliseconds of the database's clock. */
export interface LaneOutcome {
  readonly id: string;
  /** The lane that holds its deliveries. */
  readonly home: string;
  readonly token: string;
  /** The lane's head when this relay last read or wrote it. */
  readonly from: number;
  /** The lane's new head: all deliveries up to here are settled. */
  readonly to: number;
  /** When the delivery at the head is due for a retry; null when it does not wait for one. */
  readonly retryAtMs: number | null;
  /** How long the relay keeps the lane; null to release it. */
  readonly keepUntilMs: number | null;
  /** Up to this position the next claims take deliveries one by one; null to leave that unchanged. */
  readonly carefulTo: number | null;
  /** The payload version of the next delivery, if it needs a newer release; null when this one can read it. */
  readonly neededVersion: number | null;
  /** Whether the subscription waits while its subscriber does not answer. */
  readonly waits: boolean;
  readonly delivered: readonly DeliveredAttempt[];
  readonly unfinished: readonly UnfinishedAttempt[];
  /** Keys that leave a shared lane, each with all that waits behind it. */
  readonly leaving: readonly LeavingKey[];
}

/** A key that leaves a shared lane: its handler takes long, or it needs a newer release. */
export interface LeavingKey {
  readonly key: string;
  /** Position of its first delivery that is not settled. */
  readonly position: number;
  /** How long the relay keeps the key's own lane, with the same token; null when it does not keep it. */
  readonly keepUntilMs: number | null;
  readonly neededVersion: number | null;
}

export interface DeliveredAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
  /** When the event was recorded; null of a backfill or a rename, of which the time since then says nothing. */
  readonly recordedAtMs: number | null;
  /** How often operators had replayed it at its claim. One more by now: an earlier call has settled the attempt. */
  readonly replays: number;
}

/** An attempt that did not deliver. */
export interface UnfinishedAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
  readonly replays: number;
  /** Whether it is charged with the death of its relay: how long its handler ran is unknown. */
  readonly isLapse: boolean;
  /** `waited`: the handler asked to wait, which does not count as an attempt. */
  readonly outcome: 'failed' | 'waited';
  /** Null after the last attempt: the delivery is a dead letter. */
  readonly nextAttemptAtMs: number | null;
  /** The error's code, or its class. */
  readonly kind: string;
  readonly message: string;
  /** What a component elsewhere said when it refused the event. */
  readonly answer: string | null;
  /** The group of its error, that of the dead letter too if it is the last; null while the handler asks to wait. */
  readonly errorGroup: ErrorGroup | null;
  /** Whether the delivery is a dead letter that halts its lane, or its key. */
  readonly halts: boolean;
  /** Whether somebody was there; null where the attempt does not say, or nobody asks. */
  readonly presence: Presence | null;
  readonly isProbe: boolean;
}

export type Presence = 'absent' | 'present';

export interface Settled {
  readonly delivered: number;
  readonly failed: number;
  readonly waited: number;
  readonly deadLettered: number;
  /** The lanes that this relay still held. Nothing of the others was changed. */
  readonly held: ReadonlySet<string>;
  /** Those of them whose leases had ended: another claim may have counted on their places among the subscriber's limits. */
  readonly lapsed: ReadonlySet<string>;
  /** The new lane of each key that left and is kept, by `<shared lane> <key>`; also if it left in an earlier call. */
  readonly leftFor: ReadonlyMap<string, string>;
}

/** The answer of `postbud_settle_3`. */
export type FoundSettled = Omit<Settled, 'held' | 'lapsed' | 'leftFor'> & {
  readonly held: readonly number[];
  readonly lapsed: readonly number[];
  readonly leftFor:
    | readonly { readonly id: number; readonly home_id: number; readonly held_key: string }[]
    | null;
};

export function readSettled({ held, lapsed, leftFor, ...counts }: FoundSettled): Settled {
  return {
    ...counts,
    held: new Set(held.map(String)),
    lapsed: new Set(lapsed.map(String)),
    leftFor: new Map(leftFor?.map(({ id, home_id, held_key }) => [`${home_id} ${held_key}`, String(id)])),
  };
}

/**
 * Writes outcomes as the first eight parameters of `postbud_settle_3`; the first is null when there are none.
 *
 * The function skips a lane whose token is no longer the relay's, with all its outcomes. A second settlement of the same
 * outcomes changes nothing, so it may be repeated when the connection broke.
 */
export function settlementValues(lanes: readonly LaneOutcome[]): (string | null)[] {
  const delivered = lanes.flatMap((lane) => stretchesOf(lane));
  const unfinished = lanes.flatMap((lane) => lane.unfinished.map((attempt) => unfinishedRow(lane, attempt)));
  const leaving = lanes.flatMap((lane) =>
    lane.leaving.map(({ key, position, keepUntilMs, neededVersion }) => {
      return { lane: lane.id, key, position, keep_until: keepUntilMs, waits_for_version: neededVersion };
    }),
  );
  return [
    lanes.length > 0 ? arrayLiteral(lanes.map(outcomeLiteral)) : null,
    arrayLiteral(delivered.map(({ lane }) => lane.id)),
    arrayLiteral(delivered.map(({ lane }) => lane.home)),
    arrayLiteral(delivered.map(({ positions }) => `"${arrayLiteral(positions)}"`)),
    arrayLiteral(delivered.map(({ atMs }) => atMs)),
    arrayLiteral([
      ...delivered.map(({ durationMs }) => durationMs),
      ...delivered.map(({ replays }) => replays),
    ]),
    unfinished.length > 0 ? JSON.stringify(unfinished) : null,
    leaving.length > 0 ? JSON.stringify(leaving) : null,
  ];
}

/** This relay no longer holds the lane: another relay has taken it. */
export class LeaseLost extends Error {
  readonly code = 'lease_lost';

  constructor() {
    super('the lease on the lane ran out and another relay has taken it');
    this.name = 'LeaseLost';
  }
}

/**
 * Settles deliveries as delivered inside their handlers' transaction, and keeps the lane.
 *
 * @param tx a transaction of `transactOnce`.
 * @param to the lane's new head.
 * @throws LeaseLost when another relay has the lane; TransactionCommand when it is no longer the transaction that was begun,
 *   because a handler ended that. It must then be rolled back.
 */
export async function settleInTransaction(
  tx: Transaction,
  lane: Pick<LaneOutcome, 'id' | 'home' | 'token' | 'from' | 'waits'>,
  to: number,
  delivered: readonly DeliveredAttempt[],
): Promise<void> {
  const { id, home, token, from, waits } = lane;
  // Zero leaves the lease as it is.
  const kept = { retryAtMs: null, keepUntilMs: 0, carefulTo: null, neededVersion: null, leaving: [] };
  const [row] = await run<{ settled: number | null }>(tx, {
    name: 'settle',
    text: SETTLE,
    values: settlementValues([{ id, home, token, from, to, waits, ...kept, delivered, unfinished: [] }]),
  });
  if (row?.settled === null) throw new TransactionCommand('a handler has ended its transaction');
  if (row?.settled !== delivered.length) throw new LeaseLost();
}

// In another transaction than that of `transactOnce`, or in none, nothing is settled.
const SETTLE = `select case when current_setting('transaction_deferrable')::boolean then
  postbud_settle_alone_3($1::postbud_outcome_2[], $2::bigint[], $3::bigint[], $4::text[], $5::float8[], $6::int[],
    $7::jsonb, $8::jsonb) end as settled`;

/** Deliveries of a lane with the same times, to the millisecond, and as many replays. The database updates them together. */
interface Stretch {
  readonly lane: LaneOutcome;
  readonly positions: number[];
  readonly atMs: number;
  readonly durationMs: number;
  readonly replays: number;
}

function stretchesOf(lane: LaneOutcome): Stretch[] {
  const found: Stretch[] = [];
  let last: Stretch | undefined;
  for (const attempt of lane.delivered) {
    const { atMs, durationMs } = inWholeMs(attempt);
    const { replays } = attempt;
    if (last?.atMs !== atMs || last.durationMs !== durationMs || last.replays !== replays) {
      last = { lane, positions: [], atMs, durationMs, replays };
      found.push(last);
    }
    last.positions.push(attempt.position);
  }
  return found;
}

/** Rounds an attempt's start and duration so that no attempt begins before the end of the one before it. */
function inWholeMs({ atMs, durationMs }: { readonly atMs: number; readonly durationMs: number }) {
  const endMs = Math.round(atMs + durationMs);
  const wholeMs = Math.min(Math.round(durationMs), endMs - Math.round(atMs));
  return { atMs: endMs - wholeMs, durationMs: wholeMs };
}

/** Writes a row of `postbud_outcome_2` as a Postgres literal. Numbers and ids need no quotes inside. */
function outcomeLiteral(lane: LaneOutcome): string {
  const { id, home, token, from, to, retryAtMs, keepUntilMs, carefulTo, neededVersion, waits } = lane;
  const fields = [id, home, token, from, to, retryAtMs, keepUntilMs, carefulTo, neededVersion, waits];
  return `"(${fields.map((field) => field ?? '').join(',')})"`;
}

function unfinishedRow({ id, home }: LaneOutcome, attempt: UnfinishedAttempt) {
  const { position, replays, outcome, nextAttemptAtMs, kind, message, answer, errorGroup } = attempt;
  const { halts, presence, isProbe } = attempt;
  const { atMs, durationMs } = inWholeMs(attempt);
  const at = instant(atMs);
  return {
    lane: id,
    home,
    position,
    replays,
    at,
    duration_ms: durationMs,
    burnt: outcome === 'failed' ? 1 : 0,
    next_attempt_at: instant(nextAttemptAtMs),
    error_group: nextAttemptAtMs === null ? errorGroup : null,
    halts,
    presence,
    is_probe: isProbe,
    entry: {
      at,
      durationMs,
      outcome,
      kind,
      message,
      ...(answer !== null && { answer }),
      ...(errorGroup !== null && { group: errorGroup.key }),
    },
  };
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** Writes a Postgres array of numbers, because the drivers convert JavaScript arrays differently. */
function arrayLiteral(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`;
}
