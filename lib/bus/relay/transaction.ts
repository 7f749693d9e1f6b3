import pLimit from 'p-limit';
import type { LimitFunction } from 'p-limit';

import { onAbort } from '../../platform/abort.ts';
import { jitterMs, MOST_RUNS } from '../../platform/conflict.ts';
import { OpenTransaction } from '../../platform/db/commits.ts';
import { track, transactOnce } from '../../platform/db/connect.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { TransactionCommand } from '../../platform/gate.ts';
import { isInDoubt } from '../../platform/db/in-doubt.ts';
import { TransactionNotBegun } from '../../platform/db/late-begin.ts';
import { mayRunAgain } from '../../platform/db/run-again.ts';
import { codeOf } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';
import { sleep } from '../../platform/time.ts';
import { HandlerTimeout, HandlerLimit } from '../../platform/time-limit.ts';
import { LeaseLost, settleInTransaction } from '../deliveries/settle.ts';
import type { Attempt } from './attempt.ts';
import { CommitUnknown } from './failure.ts';
import type { RunState } from './run-state.ts';

/** Transactional handlers at once: the pool's ten connections less those that the relay and its host need. */
const MAX_TRANSACTIONS = 6;

/** One limit for each database: the relays of a process share its pool. */
const slotsOf = onceFor<Database, LimitFunction>(() => pLimit(MAX_TRANSACTIONS));

/** A transaction in which handlers run, one after the other. */
export interface HandlersTransaction {
  /**
   * Calls the next handler with the transaction, which ends for it when it has returned, and starts its time limit. The last
   * handler's limit also covers the settlement and the commit.
   *
   * @throws TransactionCommand when the handler has tried to end the transaction itself.
   */
  readonly hand: (call: (tx: Transaction, limit: HandlerLimit) => unknown) => Promise<unknown>;
}

/** Calls handlers, one or more. @returns the attempts that have delivered. */
type Handling = (transaction: HandlersTransaction) => Promise<readonly Attempt[]>;

/** No handler was called: the transaction did not begin, or began too late. The next claim meets the error again. */
class NotBegun extends Error {}

/**
 * Runs handlers in a transaction, which is cut off when one of them exceeds its time limit or the relay must stop. It also
 * settles the attempts that have delivered.
 *
 * After a conflict with another transaction all of it runs again at once, which is no attempt: none of it has happened.
 *
 * @param handle may run several times.
 * @returns the attempts that are committed.
 * @throws NotBegun, LeaseLost or CommitUnknown, see `endWithoutFailure`; or the error of `handle`.
 */
export async function inTransaction(state: RunState, handle: Handling): Promise<readonly Attempt[]> {
  const { lane, options } = state;
  await state.beginTransaction();
  const attempts = await transact(state, handle).finally(() => (state.isInTransaction = false));
  const delivered = attempts.map((attempt) => attempt.delivered());
  options.countCommitted(lane.subscription, delivered);
  for (const attempt of attempts) {
    doubtsOf(options.db).delete(attempt.deliveryId);
    attempt.end('delivered', attempt.durationMs);
  }
  return attempts;
}

async function transact(state: RunState, handle: Handling): Promise<readonly Attempt[]> {
  const { lane, options } = state;
  const { db, time } = options;
  const { signal } = time;
  const { timeoutMs } = lane.subscription.subscriber;
  const whole = new AbortController();
  let limit: HandlerLimit | null = null;
  let timer: NodeJS.Timeout | undefined;
  let stage: 'waiting' | 'handling' | 'settling' | 'committing' = 'waiting';
  let undo = () => {};
  let open = new OpenTransaction();
  const cut = (reason: unknown) => {
    limit?.abort(reason);
    whole.abort(reason);
  };
  // The limit is the handler's own: it does not include the wait for a connection.
  const limited = () => {
    clearTimeout(timer);
    timer = setTimeout(() => cut(new HandlerTimeout(timeoutMs)), timeoutMs);
    stage = 'handling';
    return (limit = new HandlerLimit());
  };
  const run = () =>
    transactOnce(
      db,
      async (tx, lend) => {
        // The wait for a connection took as long as the transactions before this one did.
        if (!time.fits(timeoutMs)) throw new NotBegun('too little time is left');
        open = new OpenTransaction();
        const attempts = await handle({
          async hand(call) {
            whole.signal.throwIfAborted();
            const lent = lend();
            try {
              return await call(track(lent.tx, open), limited());
            } finally {
              lent.end();
            }
          },
        });
        // A handler that was cut off may return later: its attempt has failed, and nothing more is handed over.
        whole.signal.throwIfAborted();
        stage = 'settling';
        await settle(state, tx, attempts, (taken) => (undo = taken));
        stage = 'committing';
        return attempts;
      },
      whole.signal,
    );
  const forget = onAbort(signal, () => cut(signal?.reason));
  try {
    for (let runs = 1; ; runs += 1) {
      stage = 'waiting';
      try {
        const attempts = await slotsOf(db)(run);
        state.number += state.isDoubtful ? 2 : 1;
        state.isDoubtful = false;
        if (open.isDue) options.owe(open.hasOnlyEvents ? open.topics : undefined);
        return attempts;
      } catch (error) {
        clearTimeout(timer);
        undo();
        undo = () => {};
        if (stage === 'waiting' || error instanceof TransactionNotBegun)
          throw new NotBegun('no transaction', { cause: error });
        const isLast = runs === MOST_RUNS || whole.signal.aborted || !mayRunAgain(error);
        const isRefused =
          stage === 'committing' ? !isInDoubt(error) : codeOf(error) === IN_FAILED_TRANSACTION;
        if (isLast)
          throw stage === 'handling' ||
            isRefused ||
            error instanceof LeaseLost ||
            error instanceof TransactionCommand
            ? error
            : new CommitUnknown('the commit was not answered', { cause: error });
        await sleep(jitterMs(runs));
      }
    }
  } finally {
    clearTimeout(timer);
    forget();
  }
}

/** A handler has hidden the error of a statement. */
const IN_FAILED_TRANSACTION = '25P02';

/** @param onTaken is called with what takes back, in the run, what the transaction settles. */
async function settle(
  state: RunState,
  tx: Transaction,
  attempts: readonly Attempt[],
  onTaken: (undo: () => void) => void,
): Promise<void> {
  const { lane, progress, lease, clocks, options } = state;
  const { unsettled, undo } = progress.takeWith(
    attempts.map((attempt) => ({ one: attempt.one, attempt: attempt.delivered() })),
  );
  onTaken(undo);
  const outcome = {
    ...unsettled,
    lane: lane.lane,
    number: state.number,
    token: lane.token,
    keepMs: lane.subscription.leaseMs,
    carefulTo: null,
    isDoubtful: state.isDoubtful,
  };
  const untilMs = lease.untilMs;
  await settleInTransaction(tx, outcome, clocks.clock(), options.time.overriddenNow());
  lease.extend(untilMs);
}

/**
 * How often the commit of a single delivery was not answered, by database and delivery. A restart of the database is not
 * the delivery's fault; but one whose commit ends the database each time must come to an end.
 */
const doubtsOf = onceFor<Database, Map<string, number>>(() => new Map());

/** So many commits may go unanswered, one after the other, before the delivery is charged with one. */
const UNCHARGED_DOUBTS = 2;

/** @returns whether the delivery is not to be charged. */
function isBlameless(state: RunState, attempt: Attempt): boolean {
  const known = doubtsOf(state.options.db);
  const name = attempt.deliveryId;
  const count = (known.get(name) ?? 0) + 1;
  known.set(name, count);
  if (count > UNCHARGED_DOUBTS) known.delete(name);
  return count <= UNCHARGED_DOUBTS;
}

/**
 * Ends the attempts unless one of them has failed. Their lane must then be released.
 *
 * @param error of `inTransaction`, or of a handler.
 * @returns false when the error is the failure of one of them.
 */
export function endWithoutFailure(state: RunState, attempts: readonly Attempt[], error: unknown): boolean {
  if (attempts.length === 0 || error instanceof NotBegun) return true;
  if (error instanceof CommitUnknown) state.isDoubtful = true;
  if (error instanceof LeaseLost) {
    state.lease.lose();
    for (const attempt of attempts) attempt.end('lease_lost');
    return true;
  }
  if (state.isAborted) {
    for (const attempt of attempts) attempt.drop();
    return true;
  }
  if (error instanceof CommitUnknown && (attempts.length > 1 || isBlameless(state, attempts[0]!))) {
    // It is unknown whether they are delivered, which the next claim finds out, and which of them was at fault, if any.
    state.progress.carefulTo = attempts.at(-1)!.one.delivery.position;
    for (const attempt of attempts) attempt.drop();
    return true;
  }
  return false;
}
