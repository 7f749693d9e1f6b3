import { log } from '../../platform/log.ts';
import { isPromise } from '../../platform/time-limit.ts';
import { SECOND } from '../../platform/time.ts';
import { RetryAfter } from './outcome.ts';

/**
 * Watches a handler for what its author is likely to have meant otherwise, and warns of each kind once, by the handler's
 * name. An array of promises is waited for, as by `Promise.all`: its event is delivered when all of them are done.
 */
export function watched<Given, Context>(
  handler: (given: Given, context: Context) => unknown,
  { subscriber, topic, timeoutMs, counts }: Watching,
): (given: Given, context: Context) => unknown {
  const warned = new Set<string>();
  const warn = (about: string, message: string) => {
    if (warned.has(about)) return;
    warned.add(about);
    log('warn', message, { subscriber, topic });
  };
  const settled = (returned: unknown): unknown => {
    if (returned === undefined || counts) return returned;
    if (Array.isArray(returned) && returned.some(isPromise)) {
      warn('promises', 'a handler returned an array of promises: return await Promise.all(…) instead');
      return Promise.all(returned).then(() => undefined);
    }
    warn(
      'value',
      `a handler returned ${kindOf(returned)}, which says nothing: its event is delivered. Return nothing, and throw an error to have the event again`,
    );
    return undefined;
  };
  const failed = (error: unknown): never => {
    if (error instanceof RetryAfter && error.ms > 0 && error.ms < SECOND)
      warn(
        'wait',
        `a handler threw new RetryAfter(${error.ms}), which waits ${error.ms} milliseconds: for seconds write new RetryAfter(${error.ms}_000)`,
      );
    throw error;
  };
  return (given, context) => {
    const beganAt = performance.now();
    try {
      const returned = handler(given, context);
      if (isPromise(returned)) return returned.then(settled, failed);
      const tookMs = Math.round(performance.now() - beganAt);
      if (tookMs > timeoutMs)
        warn(
          'overrun',
          `a handler that returns no promise took ${tookMs} ms, and its limit is ${timeoutMs} ms: nothing can cut it off, and the relay stood still. Make it async, or do less at a time`,
        );
      return settled(returned);
    } catch (error) {
      return failed(error);
    }
  };
}

interface Watching {
  readonly subscriber: string;
  readonly topic: string;
  readonly timeoutMs: number;
  /** Whether it is a handler of batches, which returns how many events it took. */
  readonly counts: boolean;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
