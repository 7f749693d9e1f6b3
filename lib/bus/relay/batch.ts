import { isConflict, MOST_RUNS } from '../../platform/conflict.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { HandlerLimit, isPromise, withinLimit } from '../../platform/time-limit.ts';
import { NotDelivered } from '../subscribers/outcome.ts';
import type { ClaimedDelivery } from '../deliveries/claim.ts';
import type { BatchContext, BatchLimits, PreviousEvent } from '../subscribers/subscriber.ts';
import { Attempt } from './attempt.ts';
import { inOrder, mayBegin } from './in-order.ts';
import type { InHand } from './progress.ts';
import type { RunState } from './run-state.ts';
import { endWithoutFailure, inTransaction } from './transaction.ts';

/**
 * With 100, a lane costs a hundredth of a round trip for each event, and a batch fits well into a handler's time limit.
 */
const BATCH_EVENTS = 100;

/**
 * After this many failed attempts, and for its last one, a delivery is delivered alone. If a handler throws for the
 * whole batch because of one event, the events before it are then not dead-lettered with it.
 */
const ATTEMPTS_IN_COMPANY = 2;

/**
 * Delivers a lane in batches, in order, one batch after the other.
 *
 * A handler says how many events it took, counted from the first. The first event that it did not take has failed; those
 * behind it are delivered again.
 */
export async function inBatches(state: RunState, limits: BatchLimits): Promise<void> {
  await inOrder(state, (first) => deliver(state, batchFrom(state, first, limits)));
}

/**
 * Lists the deliveries of the next batch: as many as fit, of any key, up to a delivery that is not due or must be delivered
 * alone.
 */
function batchFrom(state: RunState, first: number, { bytesOf, maxBytes }: BatchLimits): InHand[] {
  const { progress } = state;
  const batch: InHand[] = [];
  let bytes = 0;
  for (let index: number | null = first; index !== null; index = progress.next(index + 1)) {
    const one = progress.inHand[index]!;
    bytes += bytesOf(one.delivery.event!);
    const isAlone = goesAlone(state, one.delivery);
    if (batch.length > 0 && (isAlone || bytes > maxBytes || !mayBegin(state, one))) break;
    batch.push(one);
    if (isAlone || batch.length === BATCH_EVENTS) break;
  }
  return batch;
}

function goesAlone({ lane }: RunState, { attempts, replays, keptAttemptAtMs }: ClaimedDelivery): boolean {
  const { maxAttempts, onReplay } = lane.subscription.subscriber;
  const isLast = attempts + 1 >= maxAttempts;
  const isRefused = replays > 0 && onReplay === 'refuse';
  return attempts >= ATTEMPTS_IN_COMPANY || (attempts > 0 && isLast) || isRefused || keptAttemptAtMs !== null;
}

/**
 * @param runs how often the handler was called with these deliveries: a transaction of its own that met a conflict is no
 *   attempt, and it is called again at once.
 * @returns the index after the last one that has an outcome; null when the lane must be released.
 */
async function deliver(state: RunState, batch: readonly InHand[], runs = 1): Promise<number | null> {
  const attempts = batch.map((one) => new Attempt(state, one));
  const { transactional } = state.lane.subscription.subscriber;
  try {
    const taken = await (transactional ? takeInTransaction : take)(state, attempts);
    attempts[taken]?.fail(notTaken(taken, attempts.length));
    return state.progress.inHand.indexOf((attempts[taken] ?? attempts.at(-1)!).one) + 1;
  } catch (error) {
    if (endWithoutFailure(state, attempts, error)) return null;
    if (!transactional && runs < MOST_RUNS && isConflict(error)) {
      for (const attempt of attempts) attempt.forget();
      return state.hasTime() ? await deliver(state, batch, runs + 1) : null;
    }
    attempts[0]!.fail(error);
    return state.progress.inHand.indexOf(attempts[0]!.one) + 1;
  }
}

/** @returns how many events the handler took. */
async function take(state: RunState, attempts: readonly Attempt[]): Promise<number> {
  const { timeoutMs } = state.lane.subscription.subscriber;
  const limit = new HandlerLimit();
  const handled = callHandler(state, attempts, limit);
  const returned = isPromise(handled)
    ? await withinLimit(handled, limit, timeoutMs, state.options.time.signal)
    : handled;
  const taken = countOf(returned, attempts.length);
  // Measured from the last to begin, so that none seems longer than it was.
  const durationMs = attempts.at(-1)!.elapsedMs;
  for (const attempt of attempts.slice(0, taken)) attempt.deliver(durationMs);
  return taken;
}

/** Settles the events that the handler took in the handler's transaction. @returns how many. */
async function takeInTransaction(state: RunState, attempts: readonly Attempt[]): Promise<number> {
  const taken = await inTransaction(state, async ({ hand }) => {
    const handled = await hand((tx, limit) => callHandler(state, attempts, limit, tx));
    const count = countOf(handled, attempts.length);
    // Without a settlement nobody checks that the lane is still ours, so the handler's writes must not be committed.
    if (count === 0) throw notTaken(0, attempts.length);
    const durationMs = attempts[0]!.elapsedMs;
    for (const attempt of attempts) attempt.durationMs = durationMs;
    return attempts.slice(0, count);
  });
  return taken.length;
}

function callHandler(
  state: RunState,
  attempts: readonly Attempt[],
  limit: HandlerLimit,
  tx?: Transaction,
): unknown {
  const { lane } = state;
  const [first] = attempts;
  const context: BatchContext & { tx?: Transaction; previous?: readonly (PreviousEvent | null)[] } = {
    attemptedAt: new Date(first!.atMs),
    deliveries: attempts.map(({ deliveryId, one: { delivery } }) => ({
      deliveryId,
      attempt: delivery.attempts + 1,
      replayed: delivery.replays > 0,
    })),
    get signal() {
      return limit.signal;
    },
    ...(tx && { tx }),
    ...(state.previous && { previous: attempts.map(({ one }) => state.previousOf(one)) }),
  };
  const events = attempts.map(({ event }) => event);
  const hand = () => lane.subscription.handler(events, context);
  // Events that a whole batch causes do not belong to the trace of a single event.
  return attempts.length === 1 ? first!.within(hand) : hand();
}

function countOf(returned: unknown, handed: number): number {
  if (returned === undefined) return handed;
  if (typeof returned === 'number' && Number.isInteger(returned) && returned >= 0 && returned <= handed)
    return returned;
  const what =
    typeof returned === 'number' ? `${returned}` : returned === null ? 'null' : `a ${typeof returned}`;
  throw new NotDelivered(
    'wrong_count',
    `the handler returned ${what} for ${handed} events: return how many it took, 0 to ${handed}, or nothing for all`,
  );
}

/** The handler took fewer events than it was given. */
function notTaken(taken: number, handed: number): NotDelivered {
  return new NotDelivered('not_taken', `the handler took ${taken} of ${handed} events`);
}
