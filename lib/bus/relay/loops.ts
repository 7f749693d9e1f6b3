import { ClaimLoop } from './claim-loop.ts';
import type { Relaying } from './runs.ts';

/**
 * Claim loops of a relay: while the database settles for one, handlers run in another, and a third claims. More gain
 * nothing; each costs a connection.
 */
const MAX_LOOPS = 3;

/**
 * The claim loops of one relay, all alike. Another one starts when more is due than one takes, and when the bell rings
 * while all that there are have a turn in flight. When there are no more to start, the first that comes back takes
 * another turn.
 */
export class Loops {
  readonly #relaying: Relaying;
  readonly #running = new Set<ClaimLoop>();
  /** Those that still look for work. */
  readonly #looking = new Set<ClaimLoop>();
  readonly #failures: unknown[] = [];
  readonly #onLooked: (() => void) | undefined;
  #whenDone: () => void = () => undefined;

  /** @param onLooked called when none looks for work any more; handlers may still run. */
  constructor(relaying: Relaying, onLooked?: () => void) {
    this.#relaying = relaying;
    this.#onLooked = onLooked;
  }

  /**
   * Runs loops until none has anything to do.
   *
   * @throws the first error of a loop; the others have ended by then, because they have lanes in hand.
   */
  async run(): Promise<void> {
    const { bell, calls } = this.#relaying;
    const forget = bell.onRing((topics) => {
      calls.owe(topics);
      this.#hear();
    });
    const done = new Promise<void>((resolve) => (this.#whenDone = resolve));
    this.start();
    await done;
    forget();
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  /** Starts another loop, if there may be one more. */
  start(): void {
    if (this.#running.size < MAX_LOOPS) void this.#run(new ClaimLoop(this.#relaying, this));
  }

  /** Notes that a loop looks for nothing more. */
  noteEnding(loop: ClaimLoop): void {
    this.#looking.delete(loop);
    if (this.#looking.size === 0) this.#onLooked?.();
  }

  /** Whether a loop waits, and so will look again. */
  get isWaiting(): boolean {
    return [...this.#running].some(({ wake }) => wake !== null);
  }

  /** Whether there is, or may be, a loop that holds no lane. */
  get isAnyIdle(): boolean {
    return this.#running.size < MAX_LOOPS || [...this.#looking].some(({ isHolding }) => !isHolding);
  }

  async #run(loop: ClaimLoop): Promise<void> {
    this.#running.add(loop);
    this.#looking.add(loop);
    try {
      await loop.run();
    } catch (error) {
      this.#failures.push(error);
    }
    this.#running.delete(loop);
    if (this.#running.size === 0) this.#whenDone();
  }

  #hear(): void {
    // Those that looked have ended with the time, or with an error, or found nothing: the bell's owner starts a relay.
    if (this.#looking.size === 0 || this.#relaying.time.isOver()) return;
    const loops = [...this.#looking];
    // Its next turn is not sent yet; or the database fails, and it finds out when it answers again.
    if (loops.some(({ isAboutToLook, isRepeating }) => isAboutToLook || isRepeating)) return;
    const waiting = loops.find(({ wake }) => wake !== null);
    if (waiting) waiting.wake?.();
    else this.start();
  }
}
