import type { Config } from '../../platform/config.ts';
import { OnceAcrossProcesses } from './once-across-processes.ts';
import { OncePerProcess } from './once.ts';
import type { Once } from './once.ts';

/** Remembers sent inquiries in this process and, where Redis is configured, across processes. */
export function createOnce(redis: () => Config['redis']): Once {
  let once: Once | undefined;
  return {
    once(action) {
      const settings = once ? undefined : redis();
      once ??= new OncePerProcess(settings && new OnceAcrossProcesses(settings));
      return once.once(action);
    },
  };
}
