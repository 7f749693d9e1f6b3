import type { Transaction } from '../db/connect.ts';
import { LeaseLost, settleInTransaction } from '../deliveries/settle.ts';
import { contextOf } from './attempt.ts';
import type { Attempt, LaneWork } from './lane-work.ts';
import { isPromise } from './limit.ts';
import type { Limit } from './limit.ts';
import { CommitUnknown, NotBegun, inTransaction } from './transaction.ts';
import type { HandlersTransaction } from './transaction.ts';

/**
 * Deliveries that share a commit at most. Measured with a write each on six connections: 1 to a commit made 3,500 a
 * second, 8 made 16,000, 32 made 19,000. What is rolled back when one of them fails is that much, too.
 */
const COMMIT_DELIVERIES = 32;

/** After this long no further delivery joins a commit: rows stay locked until it, and producers of topics that its
 * handlers emit to are waited for. */
const COMMIT_MS = 50;

/**
 * Hands a lane's deliveries to a transactional handler. Consecutive ones share a transaction, which also settles them.
 *
 * When one of them fails, all are rolled back as if they had not been tried, and run again one by one, up to the one that
 * failed. There are no savepoints to roll back to: each would be a flight of its own, and past 64 in a transaction
 * Postgres leaves its fast path for subtransactions, for all sessions.
 *
 * @returns whether it went through all of them.
 */
export async function inSharedCommits(work: LaneWork): Promise<boolean> {
  const { lease, progress } = work;
  const most = work.lane.subscription.subscriber.sharesCommits ? COMMIT_DELIVERIES : 1;
  /** Up to this place each has a transaction of its own. */
  let aloneTo = -1;
  for (let place = progress.next(0); place !== null;) {
    const delivery = progress.claimed[place]!;
    if (work.isEarly(delivery)) {
      progress.wait(place, delivery.nextAttemptAtMs!);
    } else {
      if (lease.isShort && !(await work.leaseHasTime())) return false;
      if (!work.hasTime()) return false;
      const group = new Group(work, place, place <= aloneTo ? 1 : most);
      const end = await group.run();
      if (end === 'the lane is let go') return false;
      if (end === 'rolled back') {
        aloneTo = group.last;
        continue;
      }
      place = group.last;
    }
    place = progress.next(place + 1);
  }
  return true;
}

/** Deliveries that share a commit. */
class Group {
  readonly #work: LaneWork;
  readonly #first: number;
  readonly #most: number;
  readonly #attempts: Attempt[] = [];
  readonly #durationsMs: number[] = [];
  #startedAt = 0;

  constructor(work: LaneWork, first: number, most: number) {
    this.#work = work;
    this.#first = first;
    this.#most = most;
  }

  /** The place of the last one that was begun. */
  get last(): number {
    return this.#attempts.at(-1)!.place;
  }

  async run(): Promise<'done' | 'rolled back' | 'the lane is let go'> {
    try {
      await inTransaction(this.#work, (transaction) => this.#handle(transaction));
    } catch (error) {
      return this.#threw(error);
    }
    this.#work.progress.commit(this.#attempts.map(({ place }) => place));
    for (const [index, { observed }] of this.#attempts.entries())
      observed?.end({ outcome: 'delivered', durationMs: this.#durationsMs[index]!, kind: null });
    return 'done';
  }

  async #handle({ tx, limited }: HandlersTransaction): Promise<void> {
    const { lane, progress } = this.#work;
    const closesAt = performance.now() + COMMIT_MS;
    let place: number | null = this.#first;
    do {
      const attempt = this.#work.begin(place);
      this.#attempts.push(attempt);
      this.#startedAt = performance.now();
      const handled = this.#hand(attempt, tx, limited());
      if (isPromise(handled)) await handled;
      this.#durationsMs.push(performance.now() - this.#startedAt);
      place = progress.next(place + 1);
    } while (place !== null && this.#mayJoin(place, closesAt));
    const places = this.#attempts.map((attempt) => attempt.place);
    const delivered = this.#attempts.map(({ delivery: { position }, atMs }, index) => {
      return { position, atMs, durationMs: this.#durationsMs[index]! };
    });
    const at = { ...lane, from: progress.from };
    await settleInTransaction(tx, at, progress.headAfter(places), delivered);
  }

  #hand({ delivery, atMs, observed }: Attempt, tx: Transaction, limit: Limit): unknown {
    const { lane } = this.#work;
    const context = Object.assign(contextOf(lane, delivery, atMs, limit), { tx });
    const hand = () => lane.subscription.handler(delivery.event, context);
    return observed ? observed.within(hand) : hand();
  }

  #mayJoin(place: number, closesAt: number): boolean {
    const { lease, progress } = this.#work;
    return (
      this.#attempts.length < this.#most &&
      performance.now() < closesAt &&
      !this.#work.isEarly(progress.claimed[place]!) &&
      !lease.isShort &&
      this.#work.hasTime()
    );
  }

  #threw(error: unknown): 'done' | 'rolled back' | 'the lane is let go' {
    const { progress, lease, options } = this.#work;
    const [first, ...others] = this.#attempts;
    if (!first || error instanceof NotBegun) return 'the lane is let go';
    if (error instanceof LeaseLost) {
      lease.lose();
      for (const { atMs, observed } of this.#attempts)
        observed?.end({ outcome: 'lease_lost', durationMs: options.clock() - atMs, kind: null });
      return 'the lane is let go';
    }
    if (this.#work.isAborted) {
      for (const { observed } of this.#attempts) observed?.end(null);
      return 'the lane is let go';
    }
    const isDoubtful = error instanceof CommitUnknown;
    if (others.length === 0) {
      // Nothing of its neighbours was rolled back with it.
      const durationMs = performance.now() - this.#startedAt;
      this.#work.failed(first, durationMs, isDoubtful ? error.cause : error, isDoubtful);
      return 'done';
    }
    // None of them was an attempt, so that none leaves a line or a span.
    if (!isDoubtful) return 'rolled back';
    // Whether they are delivered is known to the database alone, and whose fault it was to nobody.
    progress.carefulTo = others.at(-1)!.delivery.position;
    return 'the lane is let go';
  }
}
