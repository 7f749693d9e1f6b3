import { isConflict, jitterMs, MOST_RUNS } from '../conflict.ts';
import { sleep } from '../time.ts';
import { isOfLostNames } from './prepared-names.ts';

/**
 * Whether the whole transaction, or the statement that ran alone, may succeed when it runs again at once: it was given up
 * for another's sake, or met a pooler that had lost the names of statements. Nothing of it has happened.
 */
export function mayRunAgain(error: unknown): boolean {
  return isConflict(error) || isOfLostNames(error);
}

/** Runs something that leaves nothing behind when it fails, again while `mayRunAgain`, ten times at most. */
export async function runAgain<Result>(once: () => Promise<Result>): Promise<Result> {
  for (let run = 1; ; run += 1) {
    try {
      return await once();
    } catch (error) {
      if (run === MOST_RUNS || !mayRunAgain(error)) throw error;
      await sleep(jitterMs(run));
    }
  }
}
