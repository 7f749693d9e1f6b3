import type { ClaimedDelivery, ClaimedLane } from '../deliveries/claim.ts';
import type {
  DeliveredAttempt,
  ExceptionalDelivery,
  LaneOutcome,
  UnfinishedAttempt,
} from '../deliveries/settle.ts';

/** The part of an outcome that a run has recorded and no turn has settled. */
export type Unsettled = Pick<LaneOutcome, 'head' | 'first' | 'delivered' | 'exceptional' | 'nextClaimed'>;

/** A handler may keep the other keys of its lane waiting this long; then its delivery becomes an exception. */
const LONG_MS = 100;

/** A claimed delivery that the run has in hand. */
export interface InHand {
  readonly delivery: ClaimedDelivery;
  /** Whether it has a row of its own, so that the lane's head does not wait for it. */
  isException: boolean;
  /** `left`: its attempt ended without an outcome, or it was not begun: the next claim finds it again. */
  state: 'open' | 'running' | 'delivered' | 'recorded' | 'left';
  /** By `performance.now()`. */
  beganAt: number;
  attempt: DeliveredAttempt | null;
  /** Whether its row says that the relay has it in hand. */
  isHeld: boolean;
}

/**
 * A run's progress: what became of the claimed deliveries, which keys stopped, and where the lane's head may stand.
 *
 * A lane without ordering keys counts as one key.
 */
export class Progress {
  /** Up to this position deliveries are handed over one at a time. */
  carefulTo: number | null = null;
  readonly #isKeyed: boolean;
  /** The exceptions, then the deliveries of the log, each in order. */
  #inHand: InHand[] = [];
  /** Keys of which the run hands over nothing more. */
  #blocked = new Set<string>();
  /** Keys whose deliveries in the log wait behind an exception. */
  #openKeys: ReadonlySet<string> = new Set();
  /** Positions of the dead letters of this run. */
  readonly #givenUp = new Set<number>();
  #exceptional: ExceptionalDelivery[] = [];
  #head: number;
  /** The index of the first delivery of the log that the head has not passed. */
  #next = 0;

  constructor(lane: ClaimedLane) {
    this.#isKeyed = lane.isKeyed;
    this.#head = lane.head;
    this.add(lane);
  }

  /** Which claim `inHand` is of. */
  claims = 0;

  /** Adds what was claimed, once all of the earlier claim has ended but for handlers that run for long. */
  add({ deliveries, openKeys }: ClaimedLane): void {
    const running = this.#inHand.filter(({ state }) => state === 'running');
    this.#blocked = new Set(running.map((one) => this.keyOf(one)));
    this.#openKeys = openKeys;
    const added = deliveries
      // A replay may have made due what stands behind a running one.
      .filter((delivery) => !delivery.isException || !this.#blocked.has(this.#keyOf(delivery)))
      .map((delivery): InHand => ({
        delivery,
        isException: delivery.isException,
        state: 'open',
        beganAt: 0,
        attempt: null,
        isHeld: false,
      }));
    this.#inHand = [...running, ...added];
    this.#next = 0;
    this.claims += 1;
  }

  get inHand(): readonly InHand[] {
    return this.#inHand;
  }

  /** Gives the first index, from this one on, of a delivery that may begin; null when there is none. */
  next(index: number): number | null {
    for (let next = index; next < this.#inHand.length; next += 1)
      if (this.#mayBegin(this.#inHand[next]!)) return next;
    return null;
  }

  keyOf({ delivery }: InHand): string {
    return this.#keyOf(delivery);
  }

  /** Makes the key of a delivery wait: it is not due yet, halts it, or may not be followed yet. */
  block(one: InHand): void {
    this.#blocked.add(this.keyOf(one));
  }

  isBlocked(key: string): boolean {
    return this.#blocked.has(key);
  }

  begin(one: InHand): void {
    one.state = 'running';
    one.beganAt = performance.now();
  }

  /** Notes that an attempt ended without an outcome: it does not count. */
  leave(one: InHand): void {
    one.state = 'left';
    this.block(one);
    // Its row says that it is in hand.
    if (one.isHeld) this.#record(one, 'waited');
  }

  deliver(one: InHand, attempt: DeliveredAttempt): void {
    one.attempt = attempt;
    one.state = 'delivered';
    if (one.isException) this.#record(one, 'delivered', attempt);
  }

  /** Records an attempt that did not deliver. @param stops whether nothing more of its key is handed over in this run. */
  fail(one: InHand, attempt: UnfinishedAttempt, stops: boolean): void {
    const isDead = attempt.nextAttemptAtMs === null;
    if (isDead) this.#givenUp.add(attempt.position);
    this.#record(one, isDead ? 'dead' : attempt.outcome, attempt);
    one.state = 'recorded';
    if (!isDead || attempt.halts || stops) this.block(one);
  }

  isGivenUp(position: number): boolean {
    return this.#givenUp.has(position);
  }

  /** Whether there is something to settle. */
  get hasNews(): boolean {
    if (this.#exceptional.some((one) => this.#mayStand(one))) return true;
    for (let next = this.#next; next < this.#inHand.length; next += 1) {
      const one = this.#inHand[next]!;
      if (!one.isException) return this.#mayPass(one);
    }
    return false;
  }

  /** Whether handlers run for long, whose deliveries are exceptions, and all else that it claimed has ended. */
  get isIdle(): boolean {
    let isRunning = false;
    for (const one of this.#inHand) {
      if (one.state === 'running' ? !one.isHeld : this.#mayBegin(one)) return false;
      isRunning ||= one.state === 'running';
    }
    return isRunning;
  }

  /** Whether a handler of a lane with keys runs so long that the others need not wait for it. */
  get isHeldUp(): boolean {
    return this.#isKeyed && this.#inHand.some((one) => !one.isHeld && this.#isLong(one));
  }

  /**
   * Takes the recorded outcomes, for a turn to settle. In a lane with keys what runs for long becomes an exception, and so does
   * what waits behind one. No exception stands beyond the head: until the head has passed what is before it, it is kept.
   *
   * @param isThrough whether the run begins nothing more of its claim. What the head could not pass becomes exceptions then.
   */
  take(isThrough: boolean): Unsettled {
    let first: number | null = null;
    const recordedTo = isThrough ? this.#inHand.findLastIndex(({ state }) => state === 'recorded') : -1;
    const delivered: (DeliveredAttempt | null)[] = [];
    for (; this.#next < this.#inHand.length; this.#next += 1) {
      const one = this.#inHand[this.#next]!;
      const { position } = one.delivery;
      if (one.isException) continue;
      if (!this.#mayPass(one) && this.#next > recordedTo) break;
      if (one.state === 'running') this.#hold(one);
      else if (one.state === 'open' || one.state === 'left') this.#park(one);
      if (one.state === 'delivered') {
        first ??= position;
        while (delivered.length < position - first) delivered.push(null);
        delivered.push(one.attempt);
      }
      this.#head = position;
    }
    if (this.#isKeyed)
      for (const one of this.#inHand)
        if (one.isException && !one.isHeld && this.#isLong(one)) this.#hold(one);
    const exceptional = this.#exceptional.filter((one) => this.#mayStand(one));
    this.#exceptional = this.#exceptional.filter((one) => !this.#mayStand(one));
    return { head: this.#head, first, delivered, exceptional, nextClaimed: this.#nextClaimed() };
  }

  /**
   * Takes the recorded outcomes as if these deliveries were delivered too, for the transaction that delivers them.
   *
   * @returns also a function that takes this back, where the transaction is rolled back.
   */
  takeWith(attempts: readonly { readonly one: InHand; readonly attempt: DeliveredAttempt }[]) {
    const before = {
      head: this.#head,
      next: this.#next,
      exceptional: [...this.#exceptional],
      inHand: this.#inHand.map((one) => ({ one, was: { ...one } })),
    };
    for (const { one, attempt } of attempts) this.deliver(one, attempt);
    const unsettled = this.take(false);
    const undo = () => {
      this.#head = before.head;
      this.#next = before.next;
      this.#exceptional = before.exceptional;
      for (const { one, was } of before.inHand) Object.assign(one, was);
    };
    return { unsettled, undo };
  }

  #mayBegin(one: InHand): boolean {
    const key = this.keyOf(one);
    return one.state === 'open' && !this.#blocked.has(key) && (one.isException || !this.#openKeys.has(key));
  }

  /** Whether the head may pass a delivery of the log: it has an outcome, runs for long, or waits and gets a row of its own. */
  #mayPass(one: InHand): boolean {
    if (one.state === 'delivered' || one.state === 'recorded') return true;
    if (!this.#isKeyed || one.state === 'left') return false;
    return one.state === 'running' ? this.#isLong(one) : !this.#mayBegin(one);
  }

  #mayStand({ position, replays }: ExceptionalDelivery): boolean {
    return replays !== null || position <= this.#head;
  }

  #park(one: InHand): void {
    this.#record(one, 'parked');
    one.state = 'recorded';
  }

  #isLong({ state, beganAt }: InHand): boolean {
    return state === 'running' && performance.now() - beganAt > LONG_MS;
  }

  #hold(one: InHand): void {
    this.#record(one, 'running');
    one.isException = true;
    one.isHeld = true;
    this.block(one);
  }

  #record(
    one: InHand,
    kind: ExceptionalDelivery['kind'],
    attempt?: UnfinishedAttempt | DeliveredAttempt,
  ): void {
    const { position, isException, replays } = one.delivery;
    this.#exceptional.push({
      position,
      kind,
      replays: isException ? replays : null,
      ...(attempt && { attempt }),
    });
  }

  /** The first position of what the run has begun, or may begin. */
  #nextClaimed(): number | null {
    const ahead = this.#inHand.filter(
      (one) => one.state === 'running' || one.state === 'left' || this.#mayBegin(one),
    );
    return ahead.length === 0 ? null : Math.min(...ahead.map(({ delivery }) => delivery.position));
  }

  #keyOf({ event }: ClaimedDelivery): string {
    return this.#isKeyed && event ? event.orderingKey : '';
  }
}
