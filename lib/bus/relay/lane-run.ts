import type { ClaimedLane } from '../deliveries/claim.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';
import { Attempt } from './attempt.ts';
import { inBatches } from './batch.ts';
import { EVENT_MISSING, LEASE_EXPIRED } from './failure.ts';
import { oneByOne } from './one-by-one.ts';
import { RunState } from './run-state.ts';
import type { RunOptions } from './run-state.ts';
import { inSharedCommits } from './shared-commit.ts';

/** A handler may keep the other keys of its lane waiting this long; then its key leaves for a lane of its own. */
const LONG_MS = 100;

/**
 * Delivers a lane's claimed deliveries, each key in order, until all are delivered or must wait.
 *
 * The run records outcomes as its handlers end, and yields them when its loop gathers: all of them when it is done, and
 * those so far when its lease must be extended. The loop settles them and answers with `keep` or `lose`.
 */
export class LaneRun {
  lane: ClaimedLane;
  readonly state: RunState;
  #isDone = false;
  /** The error that ended the run, which is a bug in the relay. */
  error: unknown;
  #successors: readonly LaneRun[] = [];
  #whenPaused: () => void = () => undefined;

  constructor(lane: ClaimedLane, claimedAtMs: number, options: RunOptions) {
    this.lane = lane;
    this.state = new RunState(lane, claimedAtMs, options);
    this.state.lease.whenAwaited = () => this.#whenPaused();
  }

  /** Begins the run. @param deliver the work of the run; by default, to deliver all that was claimed. */
  start(deliver: () => Promise<unknown> = () => this.#deliver()): void {
    void this.#run(deliver);
  }

  async #run(deliver: () => Promise<unknown>): Promise<void> {
    try {
      await deliver();
    } catch (error) {
      this.error = error;
    }
    this.#isDone = true;
    this.#whenPaused();
  }

  /** Whether the run is done and another relay has the lane: it yields nothing more. */
  get isLost(): boolean {
    return this.#isDone && this.state.lease.isLost;
  }

  /** Whether the run is done, or can't go on before its lease is extended. */
  get isPaused(): boolean {
    return this.#isDone || this.state.lease.isAwaited;
  }

  /** Resolves when the run is paused. Never rejects. */
  async pauses(): Promise<void> {
    if (this.isPaused) return;
    await new Promise<void>((resolve) => (this.#whenPaused = resolve));
  }

  /**
   * Yields the outcomes to settle now. With the last of them, a run releases its lane.
   *
   * @param partially whether an unfinished run yields its outcomes so far.
   * @returns null when there is nothing to settle, or another relay has the lane.
   */
  yieldOutcome(partially: boolean): LaneOutcome | null {
    const { lease, progress } = this.state;
    if (lease.isLost) return null;
    if (this.#isHeldUp()) this.#leave();
    const isDone = this.#isDone || this.state.isLeft;
    if (!isDone && !lease.isAwaited && !lease.isEnding && !(partially && progress.hasNews)) return null;
    const { id, home, token, subscription } = this.lane;
    const waits = subscription.subscriber.outage === 'wait';
    return { id, home, token, waits, keepUntilMs: isDone ? null : lease.untilMs, ...progress.take(isDone) };
  }

  /**
   * Tells the run that its outcome was settled.
   *
   * @param untilMs when its lease ends now; null when the lane was released.
   * @param laneOf gives the lane of a key that has left.
   * @returns the runs of keys that have left: they wait for the handlers that this one began.
   */
  keep(untilMs: number | null, laneOf: (key: string) => string | undefined): readonly LaneRun[] {
    if (untilMs !== null) this.state.lease.extend(untilMs);
    return this.#successors.filter((successor) => {
      const id = laneOf(successor.lane.deliveries[0]!.event.orderingKey);
      successor.lane = { ...successor.lane, id: id ?? '' };
      return id !== undefined;
    });
  }

  /** Tells the run that another relay has the lane: it starts no further handler. */
  lose(): void {
    this.state.lease.lose();
  }

  async #deliver(): Promise<void> {
    const { progress } = this.state;
    if (this.lane.lacksEvent) return new Attempt(this.state, 0).failBy(EVENT_MISSING);
    if (this.#recordLapse()) return;
    const { batch, transactional, place } = this.lane.subscription.subscriber;
    if (place === 'elsewhere' && !(await this.state.readPrevious())) return;
    if (batch) progress.isThrough = await inBatches(this.state, batch);
    else progress.isThrough = await (transactional ? inSharedCommits : oneByOne)(this.state);
  }

  /**
   * Records that the relay before this one died while it held the lane.
   *
   * It certainly began the first open delivery, so that one has failed. Which of the others it began is unknown, so
   * they are claimed one by one until they are settled. If deliveries may have shared a commit, none has failed,
   * because it is unknown which of them killed the relay.
   *
   * @returns whether the run ends with it.
   */
  #recordLapse(): boolean {
    const { lapsedAtMs, lapsedVersion, leavesOut, subscription } = this.lane;
    const { progress, isAborted } = this.state;
    // This may be a delivery that this release can't read, if the relay that died could.
    const first = progress.claimed[0];
    const wasBegun = first && first.event.version <= (lapsedVersion ?? Infinity);
    if (!wasBegun || lapsedAtMs === null || isAborted || this.state.isEarly(first)) return leavesOut;
    progress.carefulTo = progress.claimed.at(-1)!.position;
    const { transactional, sharesCommits, batch } = subscription.subscriber;
    const mayHaveShared = transactional && sharesCommits && batch === null && progress.claimed.length > 1;
    // It counts from the moment at which that relay's lease ran out.
    if (!mayHaveShared) new Attempt(this.state, 0, lapsedAtMs).failBy(LEASE_EXPIRED);
    return true;
  }

  /** Whether keys of a shared lane wait for handlers of other keys: these take long, or the relay's time is up. */
  #isHeldUp(): boolean {
    const { underWay, options, isLeft } = this.state;
    const { limits } = this.lane.subscription.subscriber;
    // The place of the lane counts until its handler ends.
    if (limits !== null && limits.concurrency !== null) return false;
    if (!this.lane.isShared || this.#isDone || isLeft || underWay.size === 0) return false;
    const longAgo = performance.now() - LONG_MS;
    return options.isOver() || [...underWay.values()].some(({ beganAt }) => beganAt < longAgo);
  }

  /** Moves each key whose handler runs to a lane of its own, so that this lane can be released. */
  #leave(): void {
    const { lane } = this;
    const { underWay, options, progress, lease } = this.state;
    this.state.isLeft = true;
    const keepUntilMs = lease.untilMs;
    this.#successors = Array.from(underWay, ([attempt, { ended }]) => {
      const { place } = attempt;
      const delivery = progress.claimed[place]!;
      progress.leave(place, { keepUntilMs, neededVersion: null });
      const laneOfKey: ClaimedLane = {
        ...lane,
        isShared: false,
        head: delivery.position - 1,
        newest: delivery.position,
        isWhole: false,
        leavesOut: false,
        lacksEvent: false,
        lapsedAtMs: null,
        deliveries: [delivery],
        unreadable: [],
      };
      const run = new LaneRun(laneOfKey, keepUntilMs - lane.subscription.leaseMs, options);
      attempt.moveTo(run.state);
      run.start(() => ended);
      return run;
    });
  }
}
