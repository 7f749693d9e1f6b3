import { EVENT_MISSING, LEASE_EXPIRED } from './failure.ts';
import type { ClaimedLane } from '../deliveries/claim.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';
import { Attempt } from './attempt.ts';
import { inBatches } from './batch.ts';
import { oneByOne } from './one-by-one.ts';
import { RunState } from './run-state.ts';
import type { Clocks, RunOptions } from './run-state.ts';
import { inSharedCommits } from './shared-commit.ts';

/**
 * Delivers a lane's claimed deliveries, each key in order, until all are delivered or must wait.
 *
 * The run records outcomes as its handlers end, and yields them when its loop gathers: all of them when it is through, and
 * those so far when its lease must be extended. Where handlers still run when it is through, the lane is kept, and may go on
 * with a further claim. The loop settles the outcomes and answers with `keep` or `lose`.
 */
export class LaneRun {
  readonly state: RunState;
  /** Claims whose deliveries, or handlers, have not all ended. */
  #underWay = 0;
  /** The error that ended the run, which is a bug in the relay. */
  error: unknown;
  #whenPaused: () => void = () => undefined;

  constructor(lane: ClaimedLane, claimedAtMs: number, clocks: Clocks, options: RunOptions) {
    this.state = new RunState(lane, claimedAtMs, clocks, options);
    this.state.lease.whenAwaited = () => this.#whenPaused();
    void this.#run();
  }

  get lane(): ClaimedLane {
    return this.state.lane;
  }

  /** Goes on with a further claim of its lane. */
  goOn(lane: ClaimedLane, clocks: Clocks): void {
    this.state.goOn(lane, clocks);
    void this.#run();
  }

  async #run(): Promise<void> {
    this.#underWay += 1;
    try {
      await this.#deliver();
    } catch (error) {
      this.error = error;
    }
    this.#underWay -= 1;
    if (this.isOver) this.#whenPaused();
  }

  /** Whether all that it claimed has ended. */
  get isOver(): boolean {
    return this.#underWay === 0;
  }

  /** Whether it has ended and another relay has the lane: it yields nothing more. */
  get isLost(): boolean {
    return this.isOver && this.state.lease.isLost;
  }

  /** Whether it has ended, or can't go on before its lease is extended. */
  get isPaused(): boolean {
    return this.isOver || this.state.lease.isAwaited;
  }

  /** Whether it may go on with a further claim, while handlers run for long. */
  get mayGoOn(): boolean {
    const { progress, lease, lane, options, isDoubtful } = this.state;
    // The places of a limited subscriber count until its handlers end.
    const isLimited = lane.subscription.subscriber.limits !== null;
    if (this.isOver || !lane.isKeyed || isLimited || lease.isLost || isDoubtful || options.isOver())
      return false;
    // A claim would read again what is not settled.
    return progress.isIdle && !progress.hasNews;
  }

  /** Resolves when the run is paused. Never rejects. */
  async pauses(): Promise<void> {
    if (this.isPaused) return;
    await new Promise<void>((resolve) => (this.#whenPaused = resolve));
  }

  /**
   * Yields the outcomes to settle now. With the last of them, a run lets its lane go.
   *
   * @param partially whether an unfinished run yields its outcomes so far.
   * @returns null when there is nothing to settle, or another relay has the lane.
   */
  yieldOutcome(partially: boolean): LaneOutcome | null {
    const { lease, progress, lane, number, isDoubtful, isInTransaction } = this.state;
    if (lease.isLost || isInTransaction) return null;
    const isLast = this.isOver;
    const isNews = progress.hasNews && (partially || progress.isIdle);
    if (!isLast && !lease.isAwaited && !lease.isEnding && !isNews && !progress.isHeldUp) return null;
    const carefulTo = progress.carefulTo;
    progress.carefulTo = null;
    return {
      lane: lane.lane,
      number,
      token: lane.token,
      ...progress.take(isLast || progress.isIdle),
      keepMs: isLast ? null : lane.subscription.leaseMs,
      carefulTo,
      isDoubtful,
    };
  }

  /** Tells the run that its outcome was settled, and when its lease ends now; null: as before. */
  keep(number: number, untilMs: number | null): void {
    this.state.number = number;
    this.state.isDoubtful = false;
    if (untilMs !== null) this.state.lease.extend(untilMs);
  }

  /** Tells the run that another relay has the lane: it starts no further handler. */
  lose(): void {
    this.state.lease.lose();
  }

  async #deliver(): Promise<void> {
    const { lane, state } = this;
    const { progress } = state;
    const lacking = progress.inHand.find(
      ({ delivery, state: of }) => delivery.event === null && of === 'open',
    );
    if (lacking) {
      new Attempt(state, lacking).failBy(EVENT_MISSING);
      return;
    }
    if (lane.lapsedAtMs !== null) {
      this.#recordLapse(lane.lapsedAtMs);
      return;
    }
    const { batch, transactional, place } = lane.subscription.subscriber;
    if (place === 'elsewhere' && !(await state.readPrevious())) return;
    if (batch) await inBatches(state, batch);
    else await (transactional ? inSharedCommits : oneByOne)(state);
  }

  /**
   * Charges the first delivery that the relay before this one may have begun: it died, or lost its database. If deliveries may
   * have shared a commit, none has failed, because it is unknown which of them killed the relay.
   */
  #recordLapse(lapsedAtMs: number): void {
    const { state, lane } = this;
    const [first] = state.progress.inHand;
    if (!first || state.isAborted || state.isEarly(first.delivery)) return;
    const { claimedTo, subscription } = lane;
    state.progress.carefulTo = claimedTo;
    const { transactional, sharesCommits, batch } = subscription.subscriber;
    const mayHaveShared =
      transactional && sharesCommits && batch === null && claimedTo !== first.delivery.position;
    // It counts from the moment at which that relay's lease ran out.
    if (!mayHaveShared) new Attempt(state, first, lapsedAtMs).failBy(LEASE_EXPIRED);
    else state.progress.block(first);
  }
}
