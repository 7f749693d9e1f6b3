/** So many calls in each window. Windows are laid end to end from 1970 on, so every instance agrees on them. */
export interface Limit {
  /** As answers call it: letters, digits and hyphens. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

/** Counts calls. It always answers, and never lets more through than a limit says. */
export interface Limiter {
  /**
   * Counts one call of a key against each limit in turn, up to the first that refuses it.
   *
   * @param key safe to store: never an address.
   * @param limits from the shortest window on, so that a burst that is refused does not use up the day.
   */
  take(key: string, limits: readonly Limit[]): Promise<Verdict>;
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
}

/** Takes limits in turn, each as `takeOne` does, up to the first that refuses. */
export async function takeInTurn(
  limits: readonly Limit[],
  takeOne: (limit: Limit) => Count | Promise<Count>,
): Promise<Verdict> {
  const counts: Count[] = [];
  for (const limit of limits) {
    const count = await takeOne(limit);
    counts.push(count);
    if (count.isRefused) return { isAllowed: false, counts };
  }
  return { isAllowed: true, counts };
}
