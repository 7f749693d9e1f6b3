import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import type { DeliveredAttempt, LaneOutcome, LeavingKey, UnfinishedAttempt } from '../deliveries/settle.ts';

/** What the relay has yet to settle of a lane. */
export type Unsettled = Omit<LaneOutcome, 'id' | 'home' | 'token' | 'keepUntilMs'>;

/** How a key that does not go on in this run is left. */
type Block =
  /** The lane's head can't pass it. */
  | 'stays'
  /** It is to move to a lane of its own, with all that waits behind it, when what is recorded here is settled. */
  | 'moves'
  | 'moved';

const OPEN = 0;
/** The outcome is known here and not yet to the relay. */
const RECORDED = 1;
/** The outcome is in the database, or on its way there before all that comes after. */
const COMMITTED = 2;

/**
 * How far a run has come: which of the claimed deliveries are done, which keys stopped, where the head may stand.
 *
 * Deliveries go by their place among the claimed ones, counted from 0. A strict lane is one key.
 */
export class Progress {
  /** Those that can be read, then those that can't. */
  readonly claimed: readonly ClaimedDelivery[];
  /** Claim one by one up to this position. */
  carefulTo: number | null = null;
  /** Whether all that can be read was gone through. */
  isThrough = false;
  readonly #lane: ClaimedLane;
  readonly #states: Uint8Array;
  readonly #blocks = new Map<string, Block>();
  /** All before this one is done with. */
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

  /** Where the head stood when the database was last told. */
  get from(): number {
    return this.#from;
  }

  get hasNews(): boolean {
    return this.#delivered.length > 0 || this.#unfinished.length > 0 || this.#leaving.length > 0;
  }

  /** The first place from this one on whose key may go on; null when there is none. */
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

  /** A delivery is early: its key waits. */
  wait(place: number, untilMs: number): void {
    this.#blocks.set(this.keyOf(place), 'stays');
    this.#retryAtMs = Math.min(untilMs, this.#retryAtMs ?? Infinity);
  }

  /** The key of a shared lane goes on elsewhere from here: see `LeavingKey`. */
  leave(place: number, how: Pick<LeavingKey, 'keepUntilMs' | 'neededVersion'>): void {
    const key = this.keyOf(place);
    this.#blocks.set(key, 'moves');
    this.#leaving.push({ key, position: this.claimed[place]!.position, ...how });
  }

  deliver(place: number, atMs: number, durationMs: number): void {
    this.#states[place] = RECORDED;
    this.#delivered.push({ position: this.claimed[place]!.position, atMs, durationMs });
  }

  /**
   * Records an attempt that did not deliver.
   *
   * @param isDoubtful whether it may have delivered all the same: its commit was not answered.
   */
  fail(place: number, attempt: UnfinishedAttempt, isDoubtful: boolean): void {
    const { isShared, subscription } = this.#lane;
    const key = this.keyOf(place);
    this.#unfinished.push(attempt);
    if (attempt.nextAttemptAtMs === null) {
      this.#states[place] = RECORDED;
      // The next transaction of the key would commit before the dead letter is recorded.
      if (subscription.subscriber.transactional) this.#blocks.set(key, 'stays');
    } else if (isShared) this.#blocks.set(key, isDoubtful ? 'stays' : 'moves');
    else this.wait(place, attempt.nextAttemptAtMs);
  }

  /** Where the head may stand when these are committed as well: never beyond what the database does not know. */
  headAfter(places: readonly number[]): number {
    return this.#positionAt(this.#placeAfter(places));
  }

  /** These are in the database as delivered, and the head where `headAfter` put it. */
  commit(places: readonly number[]): void {
    for (const place of places) this.#states[place] = COMMITTED;
    this.#place = this.#placeAfter([]);
    this.#from = this.#positionAt(this.#place);
  }

  /** @param isDone whether the run is. */
  take(isDone: boolean): Unsettled {
    while (this.#isPassed(this.#place)) this.#place += 1;
    const to = this.#positionAt(this.#place);
    const unsettled: Unsettled = {
      from: this.#from,
      to,
      // A lane that is shared and was not gone through has others to hand over.
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

  /** The position up to which all is done with when all before this place is. */
  #positionAt(place: number): number {
    // Past the end there may be settled deliveries only: what a replay once moved the head back over.
    if (place === this.claimed.length && this.#lane.isWhole) return Math.max(this.#from, this.#lane.newest);
    return place === 0 ? this.#from : this.claimed[place - 1]!.position;
  }

  /** Of what is next, if this release can't read it. */
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
