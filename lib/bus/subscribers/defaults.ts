import { SECOND } from '../../platform/time.ts';

/** Where handlers run; `journal` is the stand-in of the embedded mode. */
export type Place = 'in_process' | 'elsewhere' | 'journal';

/** Gives the options that apply where a subscriber sets none. */
export function defaultsOf(place: Place) {
  const isElsewhere = place === 'elsewhere';
  return {
    // A component elsewhere may have to start first.
    timeoutMs: (isElsewhere ? 15 : 10) * SECOND,
    maxAttempts: 5,
    afterDeadLetter: 'continue',
    outage: isElsewhere ? 'wait' : 'off',
    onReplay: 'run',
  } as const;
}
