import type { RunState } from './run-state.ts';

/**
 * Hands over a lane's claimed deliveries in order, several at a time.
 *
 * @param handOver begins attempts from this place on, and ends when all have an outcome. It returns the place to go on
 *   from; null when the lane must be released.
 * @returns whether it went through all claimed deliveries.
 */
export async function inOrder(
  state: RunState,
  handOver: (first: number) => Promise<number | null>,
): Promise<boolean> {
  const { lease, progress } = state;
  for (let place = progress.next(0); place !== null;) {
    const delivery = progress.claimed[place]!;
    let end: number | null = place + 1;
    if (state.isEarly(delivery)) progress.wait(place, delivery.nextAttemptAtMs!);
    else {
      if (lease.isShort && !(await lease.hasTime())) return false;
      if (!state.hasTime()) return false;
      end = await handOver(place);
      if (end === null) return false;
    }
    place = progress.next(end);
  }
  return true;
}
