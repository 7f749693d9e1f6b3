import { transact } from '../db/connect.ts';
import type { Database } from '../db/connect.ts';
import type { DeliveryContext } from '../subscribers/subscriber.ts';
import { DAY, SECOND } from '../time.ts';
import { waitAfter } from './backoff.ts';
import type { ClaimedDelivery, ClaimedLane } from './claim.ts';
import { LeaseLost, settleInTransaction } from './settle.ts';
import type { Slots } from './slots.ts';
import type { DeliveredAttempt, LaneOutcome, UnfinishedAttempt } from './settle.ts';

/** A lease outlives the longest attempt by this much: time to settle, and for clocks that do not run alike. */
export const LEASE_MARGIN_MS = 20 * SECOND;

/** After this long a lane is let go, so that one long backlog leaves room for the others. */
const SLICE_MS = 5 * SECOND;

/** Longer messages say nothing more, and some hold the whole request that failed. */
const MESSAGE_LIMIT = 2000;
const KIND_LIMIT = 100;

/** Longer than any wait of the relay's own, and short of the end of time. */
const LONGEST_WAIT_MS = 7 * DAY;

export interface DeliverOptions {
  readonly db: Database;
  /** The database's clock, in epoch milliseconds. */
  readonly clock: () => number;
  /** Whether to begin no further delivery: the relay's time is up. */
  readonly isOver: () => boolean;
  /** Aborts what runs when the process is told to stop; what was cut off counts as not tried. */
  readonly signal: AbortSignal | undefined;
  /** Bounds how many transactions run at once. */
  readonly transactions: Slots;
}

/**
 * Hands a lane's deliveries to its handler, one after the other, until one must wait.
 *
 * Outcomes gather in the run; the relay takes and settles them, when the lane is done or while it goes on.
 */
export class LaneRun {
  readonly lane: ClaimedLane;
  /** Whether the slice was over before the batch was: the claim was too large for such slow handlers. */
  isCutShort = false;
  readonly #options: DeliverOptions;
  #isDone = false;
  #from: number;
  #to: number;
  #retryAtMs: number | null = null;
  #carefulTo: number | null = null;
  #delivered: DeliveredAttempt[] = [];
  #unfinished: UnfinishedAttempt[] = [];
  #leaseEndsAtMs: number;
  #whenKept: (() => void) | null = null;
  #isLost = false;
  #committed = 0;
  #failure: unknown;
  #whenPaused: () => void = () => undefined;

  constructor(lane: ClaimedLane, claimedAtMs: number, options: DeliverOptions) {
    this.lane = lane;
    this.#options = options;
    this.#from = lane.head;
    this.#to = lane.head;
    this.#leaseEndsAtMs = claimedAtMs + lane.subscription.leaseMs;
    void this.#run()
      .catch((error: unknown) => (this.#failure = error))
      .finally(() => {
        this.#isDone = true;
        this.#whenPaused();
      });
  }

  /** What ended the run, should that be a mistake of the relay's own. Undefined otherwise. */
  get failure(): unknown {
    return this.#failure;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** Resolves when the run is done, or can't go on before its lease is made longer. Never rejects. */
  async pauses(): Promise<void> {
    if (this.#isDone || this.#whenKept) return;
    await new Promise<void>((resolve) => (this.#whenPaused = resolve));
  }

  /** How many deliveries transactional handlers have settled themselves since the last call. */
  takeCommitted(): number {
    const committed = this.#committed;
    this.#committed = 0;
    return committed;
  }

  /**
   * What is to be settled now, or null when nothing is. A lane that is done is let go.
   *
   * @param partial whether to take what a lane that goes on has done so far.
   */
  takeOutcome(partial: boolean): LaneOutcome | null {
    if (this.#isLost) return null;
    const hasNews = this.#delivered.length > 0 || this.#unfinished.length > 0;
    // Before the lease is too short to begin the next delivery, so that lanes seldom have to stop for it.
    const isEnding = this.#leaseMsLeft() < this.lane.subscription.leaseMs - LEASE_MARGIN_MS / 4;
    if (!this.#isDone && !this.#whenKept && !isEnding && !(partial && hasNews)) return null;
    const outcome: LaneOutcome = {
      id: this.lane.id,
      token: this.lane.token,
      from: this.#from,
      to: this.#to,
      retryAtMs: this.#isDone ? this.#retryAtMs : null,
      keepUntilMs: this.#isDone ? null : this.#options.clock() + this.lane.subscription.leaseMs,
      carefulTo: this.#carefulTo,
      delivered: this.#delivered,
      unfinished: this.#unfinished,
    };
    this.#from = this.#to;
    this.#carefulTo = null;
    this.#delivered = [];
    this.#unfinished = [];
    return outcome;
  }

  /** Tells the run until when it has the lane now; null when it was let go. */
  keep(untilMs: number | null): void {
    if (untilMs === null) return;
    this.#leaseEndsAtMs = untilMs;
    this.#resume();
  }

  /** Tells the run that another relay has the lane: it begins nothing more. */
  lose(): void {
    this.#isLost = true;
    this.#resume();
  }

  #resume(): void {
    this.#whenKept?.();
    this.#whenKept = null;
  }

  async #run(): Promise<void> {
    const { deliveries, lapsedAtMs } = this.lane;
    const { clock, isOver, signal } = this.#options;
    const startedAt = performance.now();
    for (const [index, delivery] of deliveries.entries()) {
      if (this.#isLost || signal?.aborted) return;
      if (delivery.nextAttemptAtMs !== null && delivery.nextAttemptAtMs > clock()) {
        this.#retryAtMs = delivery.nextAttemptAtMs;
        return;
      }
      if (index === 0 && lapsedAtMs !== null) {
        // The relay before this one died while it held the lane. The head is the one that it surely began; which of
        // the others it began is unknown, so they are claimed one by one until they are through.
        this.#carefulTo = deliveries.at(-1)!.position;
        this.#fail(
          delivery,
          lapsedAtMs,
          0,
          'lease_expired',
          'the relay died, or lost its database, during the attempt',
        );
        return;
      }
      if (isOver()) return;
      if (performance.now() - startedAt > SLICE_MS) {
        this.isCutShort = true;
        return;
      }
      if (!(await this.#hasTime()) || !(await this.#attempt(delivery))) return;
      if (this.#retryAtMs !== null) return;
      // The next transaction to commit would move the head past a dead letter that is not recorded yet.
      if (this.lane.subscription.subscriber.transactional && this.#unfinished.length > 0) return;
    }
    // Past the end there may be settled deliveries only: what a replay once moved the head back over.
    if (this.lane.isWhole) this.#to = Math.max(this.#to, this.lane.newest);
  }

  /** Waits until the lease is long enough for a whole attempt. @returns false when the lane is no longer ours. */
  async #hasTime(): Promise<boolean> {
    if (this.#leaseMsLeft() < this.lane.subscription.leaseMs - LEASE_MARGIN_MS / 2) {
      await new Promise<void>((resolve) => {
        this.#whenKept = resolve;
        this.#whenPaused();
      });
    }
    return !this.#isLost && !this.#options.signal?.aborted;
  }

  #leaseMsLeft(): number {
    return this.#leaseEndsAtMs - this.#options.clock();
  }

  /** @returns whether the lane may go on: false when nothing is known of the outcome, or the lane is lost. */
  async #attempt(delivery: ClaimedDelivery): Promise<boolean> {
    const { subscription } = this.lane;
    const { clock, signal } = this.#options;
    const atMs = clock();
    const startedAt = performance.now();
    try {
      if (subscription.subscriber.transactional) await this.#handleInTransaction(delivery, atMs);
      else {
        const limit = new Limit();
        const handled = subscription.handler(delivery.event, this.#contextOf(delivery, atMs, limit));
        if (isPromise(handled)) await this.#withinLimit(handled, limit);
        this.#delivered.push({
          position: delivery.position,
          atMs,
          durationMs: performance.now() - startedAt,
        });
        this.#to = delivery.position;
      }
      return true;
    } catch (error) {
      if (error instanceof LeaseLost) {
        this.#isLost = true;
        return false;
      }
      // No connection to begin the transaction on: nothing was tried. The claim that follows says what is wrong.
      if (error instanceof NotBegun) return false;
      // Cut off from outside: whether it worked is unknown, and it will be tried again as if it had not begun.
      if (signal?.aborted) return false;
      const { kind, message, waitMs, isPermanent } = classify(error);
      const durationMs = performance.now() - startedAt;
      if (waitMs !== null) {
        this.#retryAtMs = clock() + waitMs;
        this.#unfinished.push({
          position: delivery.position,
          atMs,
          durationMs,
          outcome: 'waited',
          nextAttemptAtMs: this.#retryAtMs,
          kind,
          message,
        });
      } else this.#fail(delivery, atMs, durationMs, kind, message, isPermanent);
      return true;
    }
  }

  #fail(
    delivery: ClaimedDelivery,
    atMs: number,
    durationMs: number,
    kind: string,
    message: string,
    isPermanent = false,
  ): void {
    const { maxAttempts } = this.lane.subscription.subscriber;
    const waitMs = isPermanent ? null : waitAfter(delivery.attempts + 1, maxAttempts);
    const nextAttemptAtMs =
      waitMs === null ? null : (kind === 'lease_expired' ? atMs : this.#options.clock()) + waitMs;
    this.#retryAtMs = nextAttemptAtMs;
    const { position } = delivery;
    if (nextAttemptAtMs === null) this.#to = position;
    this.#unfinished.push({ position, atMs, durationMs, outcome: 'failed', nextAttemptAtMs, kind, message });
  }

  async #handleInTransaction(delivery: ClaimedDelivery, atMs: number): Promise<void> {
    const { subscriber, handler } = this.lane.subscription;
    const { db, signal, transactions } = this.#options;
    const lane = { id: this.lane.id, token: this.lane.token, from: this.#from };
    const limit = new AbortController();
    const stop = () => limit.abort(signal?.reason);
    signal?.addEventListener('abort', stop, { once: true });
    let timer: NodeJS.Timeout | undefined;
    try {
      await transactions.within(() =>
        transact(
          db,
          async (tx) => {
            // The limit is the handler's: waiting for a connection is not its doing.
            timer = setTimeout(
              () => limit.abort(new HandlerTimeout(subscriber.timeoutMs)),
              subscriber.timeoutMs,
            );
            const startedAt = performance.now();
            await handler(delivery.event, { ...this.#contextOf(delivery, atMs, limit), tx });
            const durationMs = performance.now() - startedAt;
            await settleInTransaction(tx, lane, { position: delivery.position, atMs, durationMs });
          },
          limit.signal,
        ),
      );
    } catch (error) {
      throw timer === undefined ? new NotBegun({ cause: error }) : error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
    this.#from = delivery.position;
    this.#to = delivery.position;
    this.#committed += 1;
  }

  #contextOf(
    delivery: ClaimedDelivery,
    atMs: number,
    limit: { readonly signal: AbortSignal },
  ): DeliveryContext {
    return {
      deliveryId: `${this.lane.id}-${delivery.position}`,
      attempt: delivery.attempts + 1,
      attemptedAt: new Date(atMs),
      replayed: delivery.replayed,
      get signal() {
        return limit.signal;
      },
    };
  }

  /** Waits for a handler until its time limit, or until the relay is told to stop. */
  async #withinLimit(handled: PromiseLike<unknown>, limit: Limit): Promise<void> {
    const { timeoutMs } = this.lane.subscription.subscriber;
    const { signal } = this.#options;
    let cut: (error: unknown) => void = () => undefined;
    const stop = () => cut(signal?.reason);
    const timer = setTimeout(() => cut(new HandlerTimeout(timeoutMs)), timeoutMs);
    signal?.addEventListener('abort', stop, { once: true });
    try {
      await new Promise((resolve, reject) => {
        cut = (error) => {
          limit.abort(error);
          reject(error);
        };
        handled.then(resolve, reject);
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }
}

/** An AbortController that is made when a handler asks for its signal: most never do, and it is dear. */
class Limit {
  #controller: AbortController | null = null;
  #reason: unknown = null;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== null) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** There was no transaction to call the handler in. */
class NotBegun extends Error {
  constructor(options: ErrorOptions) {
    super('the transaction could not begin', options);
    this.name = 'NotBegun';
  }
}

/** The handler was still running when its time limit was reached. */
class HandlerTimeout extends Error {
  readonly code = 'timeout';

  constructor(timeoutMs: number) {
    super(`the handler had not finished after ${timeoutMs} ms`);
    this.name = 'HandlerTimeout';
  }
}

/**
 * Reads what a handler threw. Codes are compared, not classes: a handler may come with a copy of the library of its own.
 */
function classify(error: unknown): {
  kind: string;
  message: string;
  waitMs: number | null;
  isPermanent: boolean;
} {
  try {
    if (!(error instanceof Error))
      return { kind: 'thrown', message: storable(error), waitMs: null, isPermanent: false };
    const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
    const ms = code === 'retry_after' && 'ms' in error && typeof error.ms === 'number' ? error.ms : -1;
    return {
      kind: storable(code ?? error.name).slice(0, KIND_LIMIT),
      message: storable(error.message),
      waitMs: ms >= 0 ? Math.min(ms, LONGEST_WAIT_MS) : null,
      isPermanent: code === 'permanent',
    };
  } catch {
    return { kind: 'thrown', message: 'what was thrown can not be read', waitMs: null, isPermanent: false };
  }
}

/** What a handler throws may hold what Postgres refuses in JSON, or be cut in the middle of a surrogate pair. */
function storable(text: unknown): string {
  return String(text).slice(0, MESSAGE_LIMIT).toWellFormed().replaceAll('\0', '');
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
