import { MINUTE } from '../time.ts';

/** For how long a repeated inquiry is not sent again. */
export const REMEMBERED_MS = 10 * MINUTE;

/** The same key came with another body: answering "sent" would lose an inquiry. */
export class KeyReused extends Error {
  readonly code = 'idempotency_key_reused';

  constructor() {
    super('the Idempotency-Key was sent with another body before');
    this.name = 'KeyReused';
  }
}

/** Work to do at most once. */
export interface Deed {
  /** Names the work; opaque, of bounded length. */
  readonly key: string;
  /** Differs if the key stood for other work before. */
  readonly fingerprint: string;
  readonly run: () => Promise<void>;
}

export interface Once {
  /**
   * Does a deed unless it was done within ten minutes. A call that comes meanwhile shares its outcome, good or bad;
   * after a failure the next call does it.
   *
   * @returns whether another call did it.
   * @throws KeyReused, or the error of the deed.
   */
  once(deed: Deed): Promise<{ readonly isReplay: boolean }>;
}

interface Memory {
  readonly fingerprint: string;
  readonly outcome: Promise<{ readonly isReplay: boolean }>;
  readonly forgetAt: number;
}

/** Far more than a busy site sends in ten minutes, in a few megabytes. */
const MOST_REMEMBERED = 10_000;

/** Remembers in this process. @param beyond remembers across processes. */
export class OncePerProcess implements Once {
  // Ordered by `forgetAt`, since all are kept equally long.
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
