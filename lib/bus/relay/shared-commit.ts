import { Attempt } from './attempt.ts';
import { inOrder, mayBegin } from './in-order.ts';
import type { RunState } from './run-state.ts';
import { endWithoutFailure, inTransaction } from './transaction.ts';
import type { HandlersTransaction } from './transaction.ts';

/**
 * Most deliveries in one commit. Measured with a write each on six connections: 1 in a commit made 3,500 a second, 8 made
 * 16,000, 32 made 19,000. When one of them fails, this many are rolled back.
 */
const COMMIT_DELIVERIES = 32;

/**
 * After this long no further delivery joins a commit. Until the commit, rows stay locked, and the events of the topics that
 * its handlers emit to wait for their places.
 */
const COMMIT_MS = 50;

/**
 * Delivers a lane to a transactional handler. Consecutive deliveries share a transaction, which also settles them.
 *
 * When one of them fails, all are rolled back and do not count as attempts; they run again one by one, up to the one that
 * failed. There are no savepoints: each would cost a round trip, and past 64 in a transaction Postgres leaves its fast
 * path for subtransactions, for all sessions.
 */
export async function inSharedCommits(state: RunState): Promise<void> {
  const most = state.lane.subscription.subscriber.sharesCommits ? COMMIT_DELIVERIES : 1;
  /** Up to this index each delivery has a transaction of its own. */
  let aloneTo = -1;
  await inOrder(state, async (first) => {
    const attempts: Attempt[] = [];
    try {
      await inTransaction(state, async (transaction) => {
        // Those of a run that met a conflict count as no attempts, so they leave no line and no span.
        attempts.length = 0;
        await callHandlers(state, first, first <= aloneTo ? 1 : most, transaction, attempts);
        return attempts;
      });
    } catch (error) {
      if (endWithoutFailure(state, attempts, error)) return null;
      if (attempts.length > 1) {
        // All were rolled back and count as no attempts, so they leave no line and no span.
        aloneTo = indexOf(state, attempts);
        return first;
      }
      attempts[0]!.fail(error);
    }
    return indexOf(state, attempts) + 1;
  });
}

/** @param attempts receives those that it begins. @param most how many at most. */
async function callHandlers(
  state: RunState,
  first: number,
  most: number,
  { hand }: HandlersTransaction,
  attempts: Attempt[],
): Promise<void> {
  const { lane, progress, lease } = state;
  const closesAt = performance.now() + COMMIT_MS;
  const mayJoin = (index: number) =>
    attempts.length < most &&
    performance.now() < closesAt &&
    mayBegin(state, progress.inHand[index]!) &&
    !lease.isShort &&
    state.hasTime();
  let index: number | null = first;
  do {
    const attempt = new Attempt(state, progress.inHand[index]!);
    attempts.push(attempt);
    await hand((tx, limit) => {
      const context = Object.assign(attempt.contextWith(limit), { tx });
      return attempt.within(() => lane.subscription.handler(attempt.event, context));
    });
    attempt.durationMs = attempt.elapsedMs;
    index = progress.next(index + 1);
  } while (index !== null && mayJoin(index));
}

/** @returns the index of the last delivery of these attempts. */
function indexOf({ progress }: RunState, attempts: readonly Attempt[]): number {
  return progress.inHand.indexOf(attempts.at(-1)!.one);
}
