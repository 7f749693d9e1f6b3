import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import type { DeliveredAttempt, LaneOutcome, LeavingKey, UnfinishedAttempt } from '../deliveries/settle.ts';

/** The part of an outcome that a run has recorded and the relay has not settled. */
export type Unsettled = Omit<LaneOutcome, 'id' | 'home' | 'token' | 'waits' | 'keepUntilMs'>;

/** Why a run delivers nothing more of a key. */
type Block =
  /** It waits here, and the lane's head can't pass it. */
  | 'stays'
  /** It moves to a lane of its own, with all that waits behind it, when the recorded outcomes are settled. */
  | 'moves'
  | 'moved';

const OPEN = 0;
/** The outcome is recorded here, and the relay has not taken it yet. */
const RECORDED = 1;
/** The outcome is in the database, or on its way there ahead of everything later. */
const COMMITTED = 2;

/**
 * A run's progress: which of the claimed deliveries are done, which keys stopped, and where the lane's head may stand.
 *
 * A delivery's place is its index among the claimed ones. A lane without ordering keys counts as one key.
 */
export class Progress {
  /** The deliveries that this release can read, then those that it can't. */
  readonly claimed: readonly ClaimedDelivery[];
  /** Up to this position, the next claims take deliveries one by one. */
  carefulTo: number | null = null;
  /** Whether the run went through all deliveries that this release can read. */
  isThrough = false;
  readonly #lane: ClaimedLane;
  readonly #states: Uint8Array;
  readonly #blocks = new Map<string, Block>();
  /** Positions of the dead letters that the run has recorded. */
  readonly #givenUp = new Set<number>();
  /** All places before this one are done. */
  #place = 0;
  #from: number;
  #retryAtMs: number | null = null;
  #delivered: DeliveredAttempt[] = [];
  #unfinished: UnfinishedAttempt[] = [];
  #leaving: LeavingKey[] = [];

  constructor(lane: ClaimedLane) {
    const { deliveries, unreadable } = lane;
    this.#lane = lane;
    this.claimed = unreadable.length === 0 ? deliveries : [...deliveries, ...unreadable];
    this.#states = new Uint8Array(this.claimed.length);
    this.#from = lane.head;
  }

  /** The lane's head as last written to the database. */
  get from(): number {
    return this.#from;
  }

  get hasNews(): boolean {
    return this.#delivered.length > 0 || this.#unfinished.length > 0 || this.#leaving.length > 0;
  }

  /** Gives the first place, from this one on, whose key is not blocked; null when there is none. */
  next(place: number): number | null {
    const end = this.#lane.deliveries.length;
    let next = place;
    while (next < end && this.#blocks.size > 0 && this.#blocks.has(this.keyOf(next))) next += 1;
    return next < end ? next : null;
  }

  keyOf(place: number): string {
    return this.#lane.isShared ? this.claimed[place]!.event.orderingKey : '';
  }

  isBlocked(key: string): boolean {
    return this.#blocks.has(key);
  }

  isGivenUp(position: number): boolean {
    return this.#givenUp.has(position);
  }

  /** Makes a key wait, because its delivery is not due yet. */
  wait(place: number, untilMs: number): void {
    this.#blocks.set(this.keyOf(place), 'stays');
    this.#retryAtMs = Math.min(untilMs, this.#retryAtMs ?? Infinity);
  }

  /** Moves the key of a shared lane to a lane of its own, from this place on; see `LeavingKey`. */
  leave(place: number, how: Pick<LeavingKey, 'keepUntilMs' | 'neededVersion'>): void {
    const key = this.keyOf(place);
    this.#blocks.set(key, 'moves');
    this.#leaving.push({ key, position: this.claimed[place]!.position, ...how });
  }

  deliver(place: number, attempt: DeliveredAttempt): void {
    this.#states[place] = RECORDED;
    this.#delivered.push(attempt);
  }

  /**
   * Records an attempt that did not deliver.
   *
   * @param isDoubtful whether the delivery may have succeeded: its commit was not answered.
   */
  fail(place: number, attempt: UnfinishedAttempt, isDoubtful: boolean): void {
    const { isShared, subscription } = this.#lane;
    const key = this.keyOf(place);
    this.#unfinished.push(attempt);
    if (attempt.nextAttemptAtMs === null) {
      this.#states[place] = RECORDED;
      this.#givenUp.add(attempt.position);
      // Its later events wait until an operator has dealt with it.
      if (attempt.halts) this.#blocks.set(key, isShared ? 'moves' : 'stays');
      // The key's next transaction would commit before the dead letter is recorded.
      else if (subscription.subscriber.transactional) this.#blocks.set(key, 'stays');
    } else if (isShared) this.#blocks.set(key, isDoubtful ? 'stays' : 'moves');
    else this.wait(place, attempt.nextAttemptAtMs);
  }

  /** Gives the head once these places are committed too: never past an outcome that the database does not have. */
  headAfter(places: readonly number[]): number {
    return this.#positionAt(this.#placeAfter(places));
  }

  /** Notes that these places are committed as delivered, with the head that `headAfter` gave. */
  commit(places: readonly number[]): void {
    for (const place of places) this.#states[place] = COMMITTED;
    this.#place = this.#placeAfter([]);
    this.#from = this.#positionAt(this.#place);
  }

  /** Takes the recorded outcomes, for the relay to settle. @param isDone whether the run is done. */
  take(isDone: boolean): Unsettled {
    while (this.#isPassed(this.#place)) this.#place += 1;
    const to = this.#positionAt(this.#place);
    const unsettled: Unsettled = {
      from: this.#from,
      to,
      // A shared lane that the run did not go through has other keys to deliver.
      retryAtMs: isDone && (this.isThrough || !this.#lane.isShared) ? this.#retryAtMs : null,
      carefulTo: this.carefulTo,
      neededVersion: isDone && this.isThrough ? this.#neededVersion() : null,
      delivered: this.#delivered,
      unfinished: this.#unfinished,
      leaving: this.#leaving,
    };
    if (this.#unfinished.length > 0 || this.#leaving.length > 0) this.#commitUnfinished();
    this.#from = to;
    this.carefulTo = null;
    this.#delivered = [];
    this.#unfinished = [];
    this.#leaving = [];
    return unsettled;
  }

  #isPassed(place: number): boolean {
    if (place >= this.claimed.length) return false;
    if (this.#states[place] !== OPEN) return true;
    const block = this.#blocks.size > 0 ? this.#blocks.get(this.keyOf(place)) : undefined;
    return block === 'moves' || block === 'moved';
  }

  #placeAfter(places: readonly number[]): number {
    const committing = new Set(places);
    let place = this.#place;
    while (
      place < this.claimed.length &&
      (committing.has(place) ||
        this.#states[place] === COMMITTED ||
        this.#blocks.get(this.keyOf(place)) === 'moved')
    )
      place += 1;
    return place;
  }

  /** Gives the position up to which all deliveries are done, when all before this place are. */
  #positionAt(place: number): number {
    const last = place === 0 ? this.#from : this.claimed[place - 1]!.position;
    if (place < this.claimed.length || !this.#lane.isWhole) return last;
    // After the last claimed delivery there may be settled ones: a replay once moved the head back over them. The lane of
    // a key does not know of its newest delivery.
    return Math.max(this.#from, last, this.#lane.newest);
  }

  /** Gives the version of the next delivery, if this release can't read it. */
  #neededVersion(): number | null {
    const isReadable = this.#place < this.#lane.deliveries.length;
    return isReadable ? null : (this.claimed[this.#place]?.event.version ?? null);
  }

  #commitUnfinished(): void {
    for (const [key, block] of this.#blocks) if (block === 'moves') this.#blocks.set(key, 'moved');
    for (const [place, state] of this.#states.entries())
      if (state === RECORDED) this.#states[place] = COMMITTED;
  }
}
