import { AsyncLocalStorage } from 'node:async_hooks';

const scopes = new AsyncLocalStorage<{ emitted: boolean }>();
const listeners = new WeakMap<object, Set<() => void>>();

/** Notes that the transaction around this call has emitted, so that its commit is reported to `onEmitted`. */
export function noteEmitted(): void {
  const scope = scopes.getStore();
  if (scope) scope.emitted = true;
}

/** Runs a transaction and reports its commit to the listeners of `onEmitted` if it emitted. */
export async function reportingCommits<Result>(
  db: object,
  transaction: () => Promise<Result>,
): Promise<Result> {
  const scope = { emitted: false };
  const result = await scopes.run(scope, transaction);
  if (scope.emitted) for (const listener of listeners.get(db) ?? []) listener();
  return result;
}

/** Calls `listener` after each commit of a `db.transaction` that emitted. @returns a function that ends this. */
export function onEmitted(db: object, listener: () => void): () => void {
  const own = listeners.get(db) ?? new Set();
  listeners.set(db, own.add(listener));
  return () => own.delete(listener);
}
