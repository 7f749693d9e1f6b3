import { transact } from '../db/connect.ts';
import type { Database } from '../db/connect.ts';
import type { DeliveryContext } from '../subscribers/subscriber.ts';
import { DAY } from '../time.ts';
import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import { LeaseLost, settleInTransaction } from '../deliveries/settle.ts';
import type { Slots } from './slots.ts';

/** How one attempt ended. */
export type AttemptResult =
  | {
      readonly outcome: 'delivered';
      readonly durationMs: number;
      /** Whether the handler's own transaction has recorded it. */
      readonly isSettled: boolean;
    }
  | { readonly outcome: 'failed'; readonly durationMs: number; readonly failure: Failure }
  /** Cut off by the relay's own end, or never begun: as if it had not been tried. */
  | { readonly outcome: 'not tried' }
  | { readonly outcome: 'lease lost' };

/** What a handler threw, as it is kept. */
export interface Failure {
  /** The error's code, else its class. */
  readonly kind: string;
  readonly message: string;
  /** How long the handler asked to wait, in milliseconds; null when it failed. */
  readonly waitMs: number | null;
  readonly isPermanent: boolean;
}

export interface AttemptOptions {
  readonly db: Database;
  /** Aborts what runs when the process is told to stop; what was cut off counts as not tried. */
  readonly signal: AbortSignal | undefined;
  /** Whether a handler with this time limit ends before its host does, if it is begun now. */
  readonly fits: (limitMs: number) => boolean;
  /** Bounds how many transactions run at once. */
  readonly transactions: Slots;
}

/** Longer messages say nothing more, and some hold the whole request that failed. */
const MESSAGE_LIMIT = 2000;
const KIND_LIMIT = 100;

/** Longer than any wait of the relay's own, and short of the end of time. */
const LONGEST_WAIT_MS = 7 * DAY;

/**
 * Hands a delivery to its handler, within the handler's time limit. Never rejects.
 *
 * @param atMs the database's clock now, in epoch milliseconds.
 * @param from where the lane's head stands.
 */
export async function attempt(
  lane: ClaimedLane,
  delivery: ClaimedDelivery,
  atMs: number,
  from: number,
  options: AttemptOptions,
): Promise<AttemptResult> {
  const { transactional: isTransactional, timeoutMs } = lane.subscription.subscriber;
  if (!options.fits(timeoutMs)) return { outcome: 'not tried' };
  const startedAt = performance.now();
  try {
    if (isTransactional) await handleInTransaction(lane, delivery, atMs, from, options);
    else {
      const limit = new Limit();
      const handled = lane.subscription.handler(delivery.event, contextOf(lane, delivery, atMs, limit));
      if (isPromise(handled)) {
        await withinLimit(handled, limit, timeoutMs, options.signal);
      }
    }
    return { outcome: 'delivered', durationMs: performance.now() - startedAt, isSettled: isTransactional };
  } catch (error) {
    if (error instanceof LeaseLost) return { outcome: 'lease lost' };
    if (error instanceof NotBegun || options.signal?.aborted) return { outcome: 'not tried' };
    return { outcome: 'failed', durationMs: performance.now() - startedAt, failure: classify(error) };
  }
}

async function handleInTransaction(
  lane: ClaimedLane,
  delivery: ClaimedDelivery,
  atMs: number,
  from: number,
  { db, signal, fits, transactions }: AttemptOptions,
): Promise<void> {
  const { subscriber, handler } = lane.subscription;
  const limit = new AbortController();
  const stop = () => limit.abort(signal?.reason);
  signal?.addEventListener('abort', stop, { once: true });
  let timer: NodeJS.Timeout | undefined;
  const run = () =>
    transact(
      db,
      async (tx) => {
        // That took as long as the transactions before it did.
        if (!fits(subscriber.timeoutMs)) throw new NotBegun();
        // The limit is the handler's: waiting for a connection is not its doing.
        const outOfTime = () => limit.abort(new HandlerTimeout(subscriber.timeoutMs));
        timer = setTimeout(outOfTime, subscriber.timeoutMs);
        const startedAt = performance.now();
        await handler(delivery.event, { ...contextOf(lane, delivery, atMs, limit), tx });
        const durationMs = performance.now() - startedAt;
        await settleInTransaction(
          tx,
          { id: lane.id, token: lane.token, from },
          { position: delivery.position, atMs, durationMs },
        );
      },
      limit.signal,
    );
  try {
    await transactions.within(run);
  } catch (error) {
    throw timer === undefined ? new NotBegun({ cause: error }) : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

function contextOf(
  lane: ClaimedLane,
  delivery: ClaimedDelivery,
  atMs: number,
  limit: { readonly signal: AbortSignal },
): DeliveryContext {
  return {
    deliveryId: `${lane.id}-${delivery.position}`,
    attempt: delivery.attempts + 1,
    attemptedAt: new Date(atMs),
    replayed: delivery.replayed,
    get signal() {
      return limit.signal;
    },
  };
}

/** Waits for a handler until its time limit, or until the relay is told to stop. */
async function withinLimit(
  handled: PromiseLike<unknown>,
  limit: Limit,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
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

/**
 * There was no transaction to call the handler in: the claim that follows finds out what is wrong. Or it came too late.
 */
class NotBegun extends Error {
  constructor(options?: ErrorOptions) {
    super('the handler could not be begun', options);
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
function classify(error: unknown): Failure {
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
