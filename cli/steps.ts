import type { Answered } from './bus.ts';
import type { Call } from './command.ts';

/** What one request did, of an action that may take several: each has a function's time. */
export interface Step {
  readonly done: number;
  readonly left: number;
}

/**
 * Asks until all is done, or nothing more is. What comes meanwhile takes another command.
 *
 * @param ask given what the request before has left.
 * @param stepOf what a request did; without it one request does all.
 * @param count of things at most.
 */
export async function inSteps<View>(
  { terminal }: Call,
  ask: (left: number | null) => Promise<Answered<View>>,
  stepOf: ((view: View) => Step) | undefined,
  count = Infinity,
): Promise<Answered<View> & { readonly views: readonly View[]; readonly sum: number }> {
  const views: View[] = [];
  for (let sum = 0, before: number | null = null; ;) {
    const { json, view } = await ask(before);
    views.push(view);
    const { done, left } = stepOf?.(view) ?? { done: 0, left: 0 };
    sum += done;
    before = left;
    terminal.progress(left > 0 ? `${sum} done, ${left} left` : null);
    if (left === 0 || done === 0 || sum >= count) return { json, view, views, sum };
  }
}
