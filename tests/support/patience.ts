import { SECOND } from '../../lib/platform/time.ts';

/**
 * For waiting for what must come, with `vi.waitFor`: far longer than it takes on a busy machine, since only a failure
 * waits to the end. `expect.poll`, which hooks cannot use, has the same by itself.
 */
export const PATIENTLY = { timeout: 30 * SECOND, interval: 20 };
