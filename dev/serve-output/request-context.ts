import { AsyncLocalStorage } from 'node:async_hooks';

/** The symbol under which `@vercel/functions` finds the platform's context of the current request. */
const CONTEXT = Symbol.for('@vercel/request-context');

interface RequestContext {
  readonly waitUntil: (work: Promise<unknown>) => void;
}

/** The functions' work after their answers (`waitUntil`). */
export interface Background {
  /** Runs a function with the context of its request. */
  run<Result>(body: () => Promise<Result>): Promise<Result>;
  /** Waits for all work after the answers. */
  settled(): Promise<void>;
}

/** Gives functions the context that the platform gives them. */
export function provideRequestContext(): Background {
  const context = new AsyncLocalStorage<RequestContext>();
  Object.assign(globalThis, { [CONTEXT]: { get: () => context.getStore() } });
  const working = new Set<Promise<unknown>>();
  const waitUntil = (work: Promise<unknown>) => {
    const settling = work.then(
      () => undefined,
      // Rejections are dropped, as on the platform.
      () => undefined,
    );
    working.add(settling);
    void settling.finally(() => working.delete(settling));
  };
  return {
    run: (body) => context.run({ waitUntil }, body),
    async settled() {
      while (working.size > 0) await Promise.all(working);
    },
  };
}
