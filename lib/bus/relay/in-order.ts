import type { InHand } from './progress.ts';
import type { RunState } from './run-state.ts';

/**
 * Hands over a lane's claimed deliveries in order, several at a time.
 *
 * @param handOver begins attempts from this index on, and ends when all have an outcome. It returns the index to go on
 *   from; null when the lane must be released.
 */
export async function inOrder(
  state: RunState,
  handOver: (first: number) => Promise<number | null>,
): Promise<void> {
  const { lease, progress } = state;
  for (let index = progress.next(0); index !== null;) {
    const one = progress.inHand[index]!;
    let end: number | null = index + 1;
    if (!mayBegin(state, one)) progress.block(one);
    else {
      if (lease.isShort && !(await lease.hasTime())) return;
      if (!state.hasTime()) return;
      end = await handOver(index);
      if (end === null) return;
    }
    index = progress.next(end);
  }
}

/** Whether a delivery is due, and is no dead letter that halts its key. */
export function mayBegin(state: RunState, { delivery }: InHand): boolean {
  return !delivery.isHalted && !state.isEarly(delivery);
}
