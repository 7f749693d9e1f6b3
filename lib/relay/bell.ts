/** Wakes the waiting claim loops of this process when an event was committed. */
export class Bell {
  static readonly #bells = new WeakMap<object, Bell>();

  /** Gives the bell of a database. */
  static of(db: object): Bell {
    const bell = this.#bells.get(db) ?? new Bell();
    this.#bells.set(db, bell);
    return bell;
  }

  /** How many times it has rung. */
  rings = 0;
  readonly #listeners = new Set<() => void>();

  ring(): void {
    this.rings += 1;
    for (const listener of this.#listeners) listener();
  }

  /** Calls a listener each time it rings. @returns a function that ends this. */
  onRing(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
