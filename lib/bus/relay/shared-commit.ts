import type { Transaction } from '../../platform/db/connect.ts';
import { beginAttempt, contextOf } from './attempt.ts';
import type { Attempt } from './attempt.ts';
import { isPromise } from './limit.ts';
import type { HandlerLimit } from './limit.ts';
import type { RunState } from './run-state.ts';
import { CommitUnknown, endWithoutFailure, inTransaction, recordCommitted } from './transaction.ts';
import type { HandlersTransaction } from './transaction.ts';

/**
 * Most deliveries in one commit. Measured with a write each on six connections: 1 in a commit made 3,500 a second, 8 made
 * 16,000, 32 made 19,000. When one of them fails, this many are rolled back.
 */
const COMMIT_DELIVERIES = 32;

/**
 * After this long no further delivery joins a commit. Until the commit, rows stay locked, and fan-out of the topics that
 * its handlers emit to has to wait.
 */
const COMMIT_MS = 50;

/**
 * Delivers a lane to a transactional handler. Consecutive deliveries share a transaction, which also settles them.
 *
 * When one of them fails, all are rolled back and do not count as attempts; they run again one by one, up to the one that
 * failed. There are no savepoints: each would cost a round trip, and past 64 in a transaction Postgres leaves its fast
 * path for subtransactions, for all sessions.
 *
 * @returns whether it went through all claimed deliveries.
 */
export async function inSharedCommits(state: RunState): Promise<boolean> {
  const { lease, progress } = state;
  const most = state.lane.subscription.subscriber.sharesCommits ? COMMIT_DELIVERIES : 1;
  /** Up to this place each delivery has a transaction of its own. */
  let aloneTo = -1;
  for (let place = progress.next(0); place !== null;) {
    const delivery = progress.claimed[place]!;
    if (state.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
    } else {
      if (lease.isShort && !(await state.leaseHasTime())) return false;
      if (!state.hasTime()) return false;
      const attempts: Attempt[] = [];
      const ended = await deliver(state, place, place <= aloneTo ? 1 : most, attempts);
      if (ended === 'release') return false;
      const last = attempts.at(-1)!.place;
      if (ended === 'rolled back') {
        aloneTo = last;
        continue;
      }
      place = last;
    }
    place = progress.next(place + 1);
  }
  return true;
}

/**
 * Delivers to the handlers of one transaction.
 *
 * @param most the largest number of deliveries in it.
 * @param attempts receives the attempts that it begins.
 */
async function deliver(
  state: RunState,
  first: number,
  most: number,
  attempts: Attempt[],
): Promise<'done' | 'rolled back' | 'release'> {
  try {
    await inTransaction(state, async (transaction) => {
      // Those of a run that met a conflict count as no attempts, so they leave no line and no span.
      attempts.length = 0;
      await callHandlers(state, first, most, transaction, attempts);
      await transaction.settle(attempts);
    });
  } catch (error) {
    if (endWithoutFailure(state, attempts, error)) return 'release';
    // Several that were rolled back count as no attempts, so they leave no line and no span.
    if (attempts.length > 1) return 'rolled back';
    const isDoubtful = error instanceof CommitUnknown;
    attempts[0]!.fail(isDoubtful ? error.cause : error, isDoubtful);
    return 'done';
  }
  recordCommitted(state, attempts);
  return 'done';
}

async function callHandlers(
  state: RunState,
  first: number,
  most: number,
  { tx, limited }: HandlersTransaction,
  attempts: Attempt[],
): Promise<void> {
  const { progress, lease } = state;
  const closesAt = performance.now() + COMMIT_MS;
  const mayJoin = (place: number) =>
    attempts.length < most &&
    performance.now() < closesAt &&
    !state.isEarly(progress.claimed[place]!) &&
    !lease.isShort &&
    state.hasTime();
  let place: number | null = first;
  do {
    const attempt = beginAttempt(state, place);
    attempts.push(attempt);
    const handled = callHandler(state, attempt, tx, limited());
    if (isPromise(handled)) await handled;
    attempt.durationMs = attempt.elapsedMs;
    place = progress.next(place + 1);
  } while (place !== null && mayJoin(place));
}

function callHandler({ lane }: RunState, attempt: Attempt, tx: Transaction, limit: HandlerLimit): unknown {
  const context = Object.assign(contextOf(lane, attempt, limit), { tx });
  return attempt.within(() => lane.subscription.handler(attempt.delivery.event, context));
}
