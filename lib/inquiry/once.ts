import { MINUTE } from '../time.ts';

/** How long the same inquiry is not sent again. */
export const REMEMBERED_MS = 10 * MINUTE;

/** The same key came with another body: answering "sent" would lose an inquiry. */
export class KeyReused extends Error {
  readonly code = 'idempotency_key_reused';

  constructor() {
    super('the Idempotency-Key was sent with another body before');
    this.name = 'KeyReused';
  }
}

/** What is done at most once. */
export interface Deed {
  /** Names it; opaque, of bounded length. */
  readonly key: string;
  /** Tells whether it is the same one that the name stood for before. */
  readonly fingerprint: string;
  readonly run: () => Promise<void>;
}

export interface Once {
  /**
   * Does a deed unless it was done within ten minutes. Whoever comes while it is being done shares its outcome, good
   * or bad; after a failure the next one does it.
   *
   * @returns whether it had been done, or was being done, for another call.
   * @throws KeyReused, or what the deed throws.
   */
  once(deed: Deed): Promise<{ readonly isReplay: boolean }>;
}

interface Memory {
  readonly fingerprint: string;
  readonly outcome: Promise<{ readonly isReplay: boolean }>;
  readonly forgetAt: number;
}

/** Ten minutes of a busy site many times over, in a few megabytes. */
const MOST_REMEMBERED = 10_000;

/** Remembers in this process. @param beyond asked too, where other processes do the same deeds. */
export class OncePerProcess implements Once {
  // In the order of `forgetAt`, since all are kept for the same time.
  readonly #memories = new Map<string, Memory>();
  readonly #beyond: Once | undefined;
  readonly #now: () => number;

  constructor(beyond?: Once, now: () => number = Date.now) {
    this.#beyond = beyond;
    this.#now = now;
  }

  async once(deed: Deed): Promise<{ readonly isReplay: boolean }> {
    this.#forget();
    const known = this.#memories.get(deed.key);
    if (known) {
      if (known.fingerprint !== deed.fingerprint) throw new KeyReused();
      await known.outcome;
      return { isReplay: true };
    }
    const outcome = this.#do(deed);
    const memory = { fingerprint: deed.fingerprint, outcome, forgetAt: this.#now() + REMEMBERED_MS };
    this.#memories.set(deed.key, memory);
    try {
      return await outcome;
    } catch (error) {
      if (this.#memories.get(deed.key) === memory) this.#memories.delete(deed.key);
      throw error;
    }
  }

  async #do(deed: Deed): Promise<{ readonly isReplay: boolean }> {
    if (this.#beyond) return await this.#beyond.once(deed);
    await deed.run();
    return { isReplay: false };
  }

  #forget(): void {
    const now = this.#now();
    for (const [key, { forgetAt }] of this.#memories) {
      if (forgetAt > now && this.#memories.size < MOST_REMEMBERED) return;
      this.#memories.delete(key);
    }
  }
}
