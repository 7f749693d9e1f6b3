import { TransactionCommand } from '../../platform/gate.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { ErrorGroup } from './error-group.ts';

/** What a relay has done with a lane, and what becomes of the lane. All times are epoch milliseconds of the database's clock. */
export interface LaneOutcome {
  readonly lane: number;
  /** Number of the journal's newest row, as the relay knows it. */
  readonly number: number;
  readonly token: string;
  /** All deliveries up to here are dealt with, or are exceptions. */
  readonly head: number;
  /** The position of the first delivery of `delivered`. */
  readonly first: number | null;
  /** One for each position from `first` on; null for exceptions, and for events that are for others. */
  readonly delivered: readonly (DeliveredAttempt | null)[];
  readonly exceptional: readonly ExceptionalDelivery[];
  /** For how long the relay keeps the lane; null to let it go. */
  readonly keepMs: number | null;
  /** While it is kept: the first delivery that the relay may have begun, or begins next. */
  readonly nextClaimed: number | null;
  /** Up to here deliveries are handed over one at a time; null to leave that unchanged. */
  readonly carefulTo: number | null;
  /** Whether it is unknown if the lane's last commit was made. */
  readonly isDoubtful: boolean;
}

export interface DeliveredAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
  /** When the event was recorded; null of a backfill, of which the time since then says nothing. */
  readonly recordedAtMs: number | null;
  /** How often operators had replayed it. */
  readonly replays: number;
}

/** A delivery that gets a row of its own, or whose row changes. */
export interface ExceptionalDelivery {
  readonly position: number;
  /**
   * `waited`: the attempt does not count, because its handler asked to wait. `parked`: it waits behind an open one of its key.
   * `running`: its handler runs for long, and the lane goes on meanwhile.
   */
  readonly kind: 'delivered' | 'failed' | 'dead' | 'waited' | 'parked' | 'running';
  readonly attempt?: UnfinishedAttempt | DeliveredAttempt;
  /** How often operators had replayed it when it was claimed; null where it had no row. */
  readonly replays: number | null;
}

/** An attempt that did not deliver. */
export interface UnfinishedAttempt {
  readonly position: number;
  readonly atMs: number;
  readonly durationMs: number;
  readonly replays: number;
  /** Whether it is charged with the death of its relay: how long its handler ran is unknown. */
  readonly isLapse: boolean;
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
  /** Whether nobody was there; null where the attempt does not say. */
  readonly isAbsent: boolean | null;
}

export interface Settled {
  /** The lanes that this relay still held. Nothing of the others was changed. */
  readonly held: ReadonlySet<number>;
  /** Those that an earlier turn had settled alike, whose answer was lost. */
  readonly repeated: ReadonlySet<number>;
  /** Those of `held` whose leases had ended: another claim may have counted on their places among the subscriber's limits. */
  readonly lapsed: ReadonlySet<number>;
}

/** Writes outcomes as the first two parameters of `postbud_settle_4`; null where there are none. */
export function settlementValues(outcomes: readonly LaneOutcome[], nowMs: number): (string | null)[] {
  const exceptional = outcomes.flatMap((outcome) =>
    outcome.exceptional.map((one) => rowOf(outcome.lane, one)),
  );
  return [
    outcomes.length > 0 ? JSON.stringify(outcomes.map((outcome) => outcomeRow(outcome, nowMs))) : null,
    exceptional.length > 0 ? JSON.stringify(exceptional) : null,
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
 * Settles inside the transaction of handlers, and keeps the lane.
 *
 * @param tx a transaction of `transactOnce`.
 * @throws LeaseLost when another relay has the lane; TransactionCommand when it is no longer the transaction that was begun,
 *   because a handler ended that. It must then be rolled back.
 */
export async function settleInTransaction(
  tx: Transaction,
  outcome: LaneOutcome,
  nowMs: number,
  now: string | null,
): Promise<void> {
  const [row] = await run<{ settled: boolean | null }>(tx, {
    name: 'settle',
    text: SETTLE,
    values: [...settlementValues([outcome], nowMs), now],
  });
  if (row?.settled === null) throw new TransactionCommand('a handler has ended its transaction');
  if (row?.settled !== true) throw new LeaseLost();
}

// In another transaction than that of `transactOnce`, or in none, nothing is settled.
const SETTLE = `select case when current_setting('transaction_deferrable')::boolean then
  postbud_settle_alone_4($1::json, $2::jsonb, $3::timestamptz) end as settled`;

function outcomeRow(outcome: LaneOutcome, clockMs: number) {
  const { lane, number, token, head, first, delivered, exceptional, keepMs, nextClaimed } = outcome;
  const count = (kind: ExceptionalDelivery['kind']) => exceptional.filter((one) => one.kind === kind).length;
  const deliveredCount = delivered.filter((one) => one !== null).length + count('delivered');
  // The clock was read from the last turn's answer, and that of a run from an earlier one's, which may have come in less time.
  const nowMs = delivered.reduce(
    (latest, one) => Math.max(latest, one ? one.atMs + one.durationMs : 0),
    clockMs,
  );
  const isAnswered = exceptional.some(
    ({ attempt }) => attempt && 'isAbsent' in attempt && attempt.isAbsent === false,
  );
  return {
    lane,
    number,
    token,
    head,
    ...(deliveredCount > count('delivered') && {
      first,
      took_ms: delivered.map((one) => one && inWholeMs(one).durationMs),
      ago_ms: delivered.map((one) => one && Math.round(nowMs - one.atMs - one.durationMs)),
      // The turn may wait for locks before it reads its clock.
      sent_at: instant(nowMs),
    }),
    keep_ms: keepMs,
    next_claimed: nextClaimed,
    careful_to: outcome.carefulTo,
    delivered: deliveredCount,
    failed: count('failed') + count('dead'),
    dead_lettered: count('dead'),
    is_answered: isAnswered || deliveredCount > 0,
    is_doubtful: outcome.isDoubtful,
  };
}

function rowOf(lane: number, { position, kind, attempt, replays }: ExceptionalDelivery) {
  if (!attempt) return { lane, position, kind, replays };
  const { atMs, durationMs } = inWholeMs(attempt);
  const at = instant(atMs);
  const row = { lane, position, kind, replays, at, duration_ms: durationMs };
  if (!('outcome' in attempt)) return row;
  const { outcome, nextAttemptAtMs, message, answer, errorGroup, halts, isAbsent } = attempt;
  return {
    ...row,
    next_attempt_at: instant(nextAttemptAtMs),
    error_group: kind === 'dead' ? errorGroup : null,
    halts,
    is_absent: isAbsent,
    entry: {
      at,
      durationMs,
      outcome,
      kind: attempt.kind,
      message,
      ...(answer !== null && { answer }),
      ...(errorGroup !== null && { group: errorGroup.key }),
    },
  };
}

/** Rounds an attempt's start and duration so that no attempt begins before the end of the one before it. */
function inWholeMs({ atMs, durationMs }: { readonly atMs: number; readonly durationMs: number }) {
  const endMs = Math.round(atMs + durationMs);
  const wholeMs = Math.min(Math.round(durationMs), endMs - Math.round(atMs));
  return { atMs: endMs - wholeMs, durationMs: wholeMs };
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
