import { vi } from 'vitest';

const [later, limitOf] = [globalThis.setTimeout, AbortSignal.timeout.bind(AbortSignal)];

/** Lets pauses of exactly these milliseconds pass at once until the test ends. All other timers take their time. */
export function skipPauses(...pausesMs: readonly number[]): void {
  const skipping = (call: (...given: void[]) => void, ms = 0, ...given: void[]) =>
    later(() => call(...given), pausesMs.includes(ms) ? 0 : ms);
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(skipping);
}

/**
 * Holds back the timer of exactly these milliseconds until the test ends, and skips pauses as `skipPauses` does.
 *
 * @returns what lets the last such timer pass.
 */
export function holdTimer(heldMs: number, ...pausesMs: readonly number[]): () => void {
  let pass = () => {};
  const holding = (call: () => void, ms = 0) => {
    if (ms !== heldMs) return later(call, pausesMs.includes(ms) ? 0 : ms);
    pass = call;
    return later(() => undefined, 0);
  };
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(holding);
  return () => pass();
}

/**
 * Ends the next limit of exactly these milliseconds as soon as this is so: what hangs has then been reached, on a busy
 * machine too, and nobody waits for the rest of its time.
 */
export function endLimit(limitMs: number, isReached: () => boolean): void {
  let isEnded = false;
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    if (isEnded || ms !== limitMs) return limitOf(ms);
    isEnded = true;
    const limit = new AbortController();
    const looking = setInterval(() => {
      if (!isReached()) return;
      clearInterval(looking);
      limit.abort(new DOMException('the limit was ended by the test', 'TimeoutError'));
    }, 5);
    return limit.signal;
  });
}
