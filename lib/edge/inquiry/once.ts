import { MINUTE } from '../../platform/time.ts';

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

/** An action that must run at most once. */
export interface Action {
  /** Names the action; opaque, of bounded length. */
  readonly key: string;
  /** Differs if the key belonged to another action before. */
  readonly fingerprint: string;
  readonly run: () => Promise<void>;
}

export interface Once {
  /**
   * Runs an action unless it succeeded within the last ten minutes. Calls during a run share its outcome; after a
   * failure the next call runs the action again.
   *
   * @returns whether another call ran it.
   * @throws KeyReused, or the error of the action.
   */
  once(action: Action): Promise<{ readonly isReplay: boolean }>;
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
  // Ordered by `forgetAt`, because all are kept equally long.
  readonly #memories = new Map<string, Memory>();
  readonly #beyond: Once | undefined;
  readonly #now: () => number;

  constructor(beyond?: Once, now: () => number = Date.now) {
    this.#beyond = beyond;
    this.#now = now;
  }

  async once(action: Action): Promise<{ readonly isReplay: boolean }> {
    this.#forget();
    const known = this.#memories.get(action.key);
    if (known) {
      if (known.fingerprint !== action.fingerprint) throw new KeyReused();
      await known.outcome;
      return { isReplay: true };
    }
    const outcome = this.#do(action);
    const memory = { fingerprint: action.fingerprint, outcome, forgetAt: this.#now() + REMEMBERED_MS };
    this.#memories.set(action.key, memory);
    try {
      return await outcome;
    } catch (error) {
      if (this.#memories.get(action.key) === memory) this.#memories.delete(action.key);
      throw error;
    }
  }

  async #do(action: Action): Promise<{ readonly isReplay: boolean }> {
    if (this.#beyond) return await this.#beyond.once(action);
    await action.run();
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
