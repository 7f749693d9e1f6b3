import type { Transaction } from '../db/connect.ts';
import type { ClaimedDelivery } from '../deliveries/claim.ts';
import { LeaseLost, settleInTransaction } from '../deliveries/settle.ts';
import type { BatchContext, BatchLimits } from '../subscribers/subscriber.ts';
import type { Attempt, LaneWork } from './lane-work.ts';
import { deliveryIdOf } from './lane-work.ts';
import { Limit, isPromise, withinLimit } from './limit.ts';
import { CommitUnknown, NotBegun, inTransaction } from './transaction.ts';

/** A lane's speed is then a hundredth of a round trip an event, and a batch is done well within a handler's time. */
const BATCH_EVENTS = 100;

/**
 * After so many failed attempts, and for its last one, a delivery is handed over alone: where a handler throws for the
 * whole batch because of one event in it, those ahead of that one are not given up for it.
 */
const ATTEMPTS_IN_COMPANY = 2;

/**
 * Hands a lane's deliveries over in batches, in order, one batch after the other.
 *
 * A handler takes as many as it says, from the first. The first that it did not take has failed; those behind it are as
 * if they had not been handed over.
 *
 * @returns whether it went through all of them.
 */
export async function inBatches(work: LaneWork, limits: BatchLimits): Promise<boolean> {
  const { lease, progress } = work;
  for (let place = progress.next(0); place !== null;) {
    const delivery = progress.claimed[place]!;
    if (work.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
      place = progress.next(place);
      continue;
    }
    if (lease.isShort && !(await work.leaseHasTime())) return false;
    if (!work.hasTime()) return false;
    const batch = new Batch(work, batchFrom(work, place, limits));
    if (!(await batch.run())) return false;
    place = progress.next(batch.end);
  }
  return true;
}

/** The places of the next batch: all that fits, of whatever keys, up to one that is early or goes alone. */
function batchFrom(work: LaneWork, first: number, { bytesOf, maxBytes }: BatchLimits): number[] {
  const { progress } = work;
  const places: number[] = [];
  let bytes = 0;
  for (let place: number | null = first; place !== null; place = progress.next(place + 1)) {
    const delivery = progress.claimed[place]!;
    bytes += bytesOf(delivery.event);
    const isAlone = goesAlone(work, delivery);
    if (places.length > 0 && (isAlone || bytes > maxBytes || work.isEarly(delivery))) break;
    places.push(place);
    if (isAlone || places.length === BATCH_EVENTS) break;
  }
  return places;
}

function goesAlone({ lane }: LaneWork, { attempts }: ClaimedDelivery): boolean {
  const isLast = attempts + 1 >= lane.subscription.subscriber.maxAttempts;
  return attempts >= ATTEMPTS_IN_COMPANY || (attempts > 0 && isLast);
}

/** The handler took fewer than it was handed. */
class NotTaken extends Error {
  readonly code = 'not_taken';

  constructor(taken: number, handed: number) {
    super(`the handler took ${taken} of ${handed} events`);
    this.name = 'NotTaken';
  }
}

/** The handler returned something that does not say how many it took. */
class WrongCount extends Error {
  readonly code = 'wrong_count';

  constructor(returned: unknown, handed: number) {
    const what =
      typeof returned === 'number' ? `${returned}` : returned === null ? 'null' : `a ${typeof returned}`;
    super(
      `the handler returned ${what} for ${handed} events: return how many it took, 0 to ${handed}, or nothing for all`,
    );
    this.name = 'WrongCount';
  }
}

class Batch {
  /** The place after the last one that has an outcome. */
  end = 0;
  readonly #work: LaneWork;
  readonly #attempts: readonly Attempt[];
  readonly #startedAt: number;

  constructor(work: LaneWork, places: readonly number[]) {
    this.#work = work;
    this.#attempts = places.map((place) => work.begin(place));
    // Not before: an attempt that seems to last longer than it does would end after its wait began.
    this.#startedAt = performance.now();
  }

  /** @returns whether the lane may go on. */
  async run(): Promise<boolean> {
    const { transactional } = this.#work.lane.subscription.subscriber;
    try {
      const taken = await (transactional ? this.#inTransaction() : this.#plainly());
      if (taken < this.#attempts.length) this.#failed(taken, new NotTaken(taken, this.#attempts.length));
      return true;
    } catch (error) {
      return this.#threw(error);
    }
  }

  async #plainly(): Promise<number> {
    const { timeoutMs } = this.#work.lane.subscription.subscriber;
    const limit = new Limit();
    const handled = this.#hand(limit);
    const returned = isPromise(handled)
      ? await withinLimit(handled, limit, timeoutMs, this.#work.options.signal)
      : handled;
    const taken = this.#countOf(returned);
    const durationMs = performance.now() - this.#startedAt;
    for (const attempt of this.#attempts.slice(0, taken)) this.#work.delivered(attempt, durationMs);
    this.#endAt(taken);
    return taken;
  }

  /** What was taken is settled in the handler's transaction. */
  async #inTransaction(): Promise<number> {
    const { lane, progress } = this.#work;
    let taken: readonly Attempt[] = [];
    let durationMs = 0;
    await inTransaction(this.#work, async ({ tx, limited }) => {
      const startedAt = performance.now();
      const handled = this.#hand(limited(), tx);
      const count = this.#countOf(isPromise(handled) ? await handled : handled);
      // Nobody has asked yet whether the lane is still ours: what the handler wrote may not be committed.
      if (count === 0) throw new NotTaken(0, this.#attempts.length);
      durationMs = performance.now() - startedAt;
      taken = this.#attempts.slice(0, count);
      const to = progress.headAfter(taken.map(({ place }) => place));
      const delivered = taken.map(({ delivery: { position }, atMs }) => ({ position, atMs, durationMs }));
      await settleInTransaction(tx, { ...lane, from: progress.from }, to, delivered);
    });
    progress.commit(taken.map(({ place }) => place));
    for (const { observed } of taken) observed?.end({ outcome: 'delivered', durationMs, kind: null });
    this.#endAt(taken.length);
    return taken.length;
  }

  #hand(limit: Limit, tx?: Transaction): unknown {
    const { lane } = this.#work;
    const [first] = this.#attempts;
    const context: BatchContext & { tx?: Transaction } = {
      attemptedAt: new Date(first!.atMs),
      deliveries: this.#attempts.map(({ delivery }) => ({
        deliveryId: deliveryIdOf(lane, delivery),
        attempt: delivery.attempts + 1,
        replayed: delivery.replayed,
      })),
      get signal() {
        return limit.signal;
      },
      ...(tx && { tx }),
    };
    const events = this.#attempts.map(({ delivery }) => delivery.event);
    const hand = () => lane.subscription.handler(events, context);
    // What several cause together belongs to the trace of none of them.
    return first!.observed && this.#attempts.length === 1 ? first!.observed.within(hand) : hand();
  }

  #countOf(returned: unknown): number {
    const handed = this.#attempts.length;
    if (returned === undefined) return handed;
    if (typeof returned === 'number' && Number.isInteger(returned) && returned >= 0 && returned <= handed)
      return returned;
    throw new WrongCount(returned, handed);
  }

  #threw(error: unknown): boolean {
    if (error instanceof NotBegun) return false;
    if (error instanceof LeaseLost) {
      this.#work.lease.lose();
      const durationMs = performance.now() - this.#startedAt;
      for (const { observed } of this.#attempts)
        observed?.end({ outcome: 'lease_lost', durationMs, kind: null });
      return false;
    }
    if (this.#work.isAborted) {
      for (const { observed } of this.#attempts) observed?.end(null);
      return false;
    }
    const isDoubtful = error instanceof CommitUnknown;
    if (isDoubtful && this.#attempts.length > 1) {
      // Whether they are delivered is known to the database alone, and whose fault it was to nobody.
      this.#work.progress.carefulTo = this.#attempts.at(-1)!.delivery.position;
      return false;
    }
    this.#failed(0, isDoubtful ? error.cause : error, isDoubtful);
    return true;
  }

  #failed(index: number, error: unknown, isDoubtful = false): void {
    this.#work.failed(this.#attempts[index]!, performance.now() - this.#startedAt, error, isDoubtful);
    this.#endAt(index + 1);
  }

  #endAt(count: number): void {
    this.end = count === 0 ? this.#attempts[0]!.place : this.#attempts[count - 1]!.place + 1;
  }
}
