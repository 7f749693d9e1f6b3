/**
 * The listeners of each signal, behind the only one that the signal itself has. Hundreds of handlers listen to their
 * relay's signal at once, and Node warns of a leak from the eleventh on.
 */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls a listener when the signal aborts. It is not called for a signal that has aborted before.
 *
 * @returns a function that takes the listener off.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (!signal) return () => undefined;
  const own = listeners.get(signal) ?? listenersOf(signal);
  own.add(listener);
  return () => own.delete(listener);
}

function listenersOf(signal: AbortSignal): Set<() => void> {
  const own = new Set<() => void>();
  listeners.set(signal, own);
  signal.addEventListener('abort', () => own.forEach((listener) => listener()), { once: true });
  return own;
}
