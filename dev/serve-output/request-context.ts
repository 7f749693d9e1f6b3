import { AsyncLocalStorage } from 'node:async_hooks';

/** Where `@vercel/functions` looks for what the platform tells of the request that it is in. */
const CONTEXT = Symbol.for('@vercel/request-context');

interface RequestContext {
  readonly waitUntil: (work: Promise<unknown>) => void;
}

/** What functions have asked to be kept awake for. */
export interface Background {
  /** Runs a function with the context of its request. */
  run<Result>(body: () => Promise<Result>): Promise<Result>;
  /** Waits for all that is going on after the answers. */
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
      // As on the platform: nobody hears of it who did not see to it.
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
