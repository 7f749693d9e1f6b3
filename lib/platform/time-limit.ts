import { onAbort } from './abort.ts';

/**
 * A handler's time limit, behind its `context.signal`. The AbortController is made when a handler reads the signal: most
 * never do, and it is expensive.
 */
export class HandlerLimit {
  #controller: AbortController | null = null;
  #reason: unknown = null;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== null) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** The handler was still running when its time limit was reached. */
export class HandlerTimeout extends Error {
  readonly code = 'timeout';

  constructor(timeoutMs: number) {
    super(`the handler had not finished after ${timeoutMs} ms`);
    this.name = 'HandlerTimeout';
  }
}

/**
 * Waits for a handler until its time limit, or until its caller has to stop. The handler's own signal aborts first, with
 * the same reason. The timer is set once the handler waits for something, which many never do.
 */
export async function withinLimit<Result>(
  handled: PromiseLike<Result>,
  limit: HandlerLimit,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  let forget = () => {};
  let isOver = false;
  try {
    return await new Promise<Result>((resolve, reject) => {
      const cut = (error: unknown) => {
        limit.abort(error);
        reject(error);
      };
      handled.then(resolve, reject);
      process.nextTick(() => {
        if (!isOver) timer = setTimeout(() => cut(new HandlerTimeout(timeoutMs)), timeoutMs);
      });
      if (!signal) return;
      forget = onAbort(signal, () => cut(signal.reason));
      // The handler itself may have stopped its caller.
      if (signal.aborted) cut(signal.reason);
    });
  } finally {
    isOver = true;
    clearTimeout(timer);
    forget();
  }
}

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
