/** So many calls in each window. Windows are laid end to end from 1970 on, so every instance agrees on them. */
export interface Limit {
  /** As answers call it: letters, digits and hyphens. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

/** A call to count: against which limit, and on whose account. */
export interface Taking {
  /** Safe to store: never an address. */
  readonly key: string;
  readonly limit: Limit;
}

/** Counts calls. It always answers, and never lets more through than a limit says. */
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
  /** Those that counted the call, in the order given. One that refused it is the last. */
  readonly counts: readonly Count[];
}

/** What is left of a limit after a call. */
export interface Count {
  readonly limit: Limit;
  readonly isRefused: boolean;
  readonly remaining: number;
  /** Until the window ends; more than 0. */
  readonly resetsInMs: number;
  /**
   * Takes the call out of the count again: in the window that counted it, so that a later one gains nothing by it, and
   * once, however often it is called. Never rejects: a limiter that is away keeps the call counted.
   *
   * @returns what is left then.
   */
  giveBack(): Promise<Count>;
}

/** Takes limits in turn, each as `takeOne` does, up to the first that refuses. */
export async function takeInTurn(
  takings: readonly Taking[],
  takeOne: (taking: Taking) => Count | Promise<Count>,
): Promise<Verdict> {
  const counts: Count[] = [];
  for (const taking of takings) {
    const count = await takeOne(taking);
    counts.push(count);
    if (count.isRefused) return { isAllowed: false, counts };
  }
  return { isAllowed: true, counts };
}

/** What a limiter knows of a call that it has counted, or refused. */
type Counted = Omit<Count, 'giveBack'>;

/**
 * Makes a count whose call is given back at most once; one that was refused was never counted.
 *
 * @param undo takes it out. @returns what remains, or undefined where it could not be taken out.
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
