/** A number of calls in each window. Windows follow each other from 1970 on, so all instances agree on them. */
export interface Limit {
  /** Its name in answers: letters, digits and hyphens. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  /** Whose calls it counts, for the words of a refusal. If left out, those of a program that identifies itself. */
  readonly covers?: 'visitor' | 'network' | 'service';
}

/** A call to count against a limit. */
export interface Taking {
  /** Safe to store: never an address. */
  readonly key: string;
  readonly limit: Limit;
}

/** Counts calls. It always answers, and never allows more calls than the limit. */
export interface Limiter {
  /**
   * Counts one call against each limit in turn, up to the first that refuses it.
   *
   * @param takings from the shortest window on, so that a burst that is refused does not use up the day.
   */
  take(takings: readonly Taking[]): Promise<Verdict>;
}

export interface Verdict {
  readonly isAllowed: boolean;
  /** The limits that counted the call, in the given order. A limit that refused it is the last. */
  readonly counts: readonly Count[];
}

/** A limit's state after a call. */
export interface Count {
  readonly limit: Limit;
  readonly isRefused: boolean;
  readonly remaining: number;
  /** Until the window ends; more than 0. */
  readonly resetsInMs: number;
  /**
   * Uncounts the call in the window that counted it, once, however often it is called. Never rejects: if the limiter is
   * unavailable, the call stays counted.
   *
   * @returns the limit's state afterwards.
   */
  giveBack(): Promise<Count>;
}

/** A call that was counted or refused. */
type Counted = Omit<Count, 'giveBack'>;

/**
 * Makes a count that is given back at most once, and not at all if the call was refused.
 *
 * @param undo uncounts the call. @returns the remaining calls, or undefined if that failed.
 */
export function countOf(
  counted: Counted,
  undo: () => number | undefined | Promise<number | undefined>,
): Count {
  let after: Promise<Count> | undefined;
  const giveBack = async (): Promise<Count> => {
    const remaining = counted.isRefused ? undefined : await undo();
    return remaining === undefined ? count : { ...count, remaining };
  };
  const count: Count = { ...counted, giveBack: () => (after ??= giveBack()) };
  return count;
}
