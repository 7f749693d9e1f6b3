/** Tells the relays of this process that an event was committed, so that one that waits looks at once. */
export class Bell {
  static readonly #bells = new WeakMap<object, Bell>();

  /** The bell of a database. */
  static of(db: object): Bell {
    const bell = this.#bells.get(db) ?? new Bell();
    this.#bells.set(db, bell);
    return bell;
  }

  /** How often it has rung. */
  rings = 0;
  readonly #listeners = new Set<() => void>();

  ring(): void {
    this.rings += 1;
    for (const listener of this.#listeners) listener();
  }

  /** Resolves when it rings next, or when the signal aborts. */
  async rung(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const heard = () => {
        this.#listeners.delete(heard);
        resolve();
      };
      this.#listeners.add(heard);
      signal.addEventListener('abort', heard, { once: true });
    });
  }
}
