import type { ClaimedLane } from '../deliveries/claim.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';
import { inBatches } from './batch.ts';
import { LaneWork } from './lane-work.ts';
import type { DeliverOptions } from './lane-work.ts';
import { oneByOne } from './one-by-one.ts';
import { inSharedCommits } from './shared-commit.ts';

/** So long a handler may keep the other keys of its lane from what has come for them since the claim. */
const LONG_MS = 100;

/**
 * Hands a lane's deliveries to its handler, each key in order, until all are handed over or must wait.
 *
 * Outcomes gather in the run; the relay takes and settles them, when the lane is done or while it goes on.
 */
export class LaneRun {
  lane: ClaimedLane;
  readonly #work: LaneWork;
  #isDone = false;
  #successors: readonly LaneRun[] = [];
  #committed = 0;
  #failure: unknown;
  #whenPaused: () => void = () => undefined;

  constructor(lane: ClaimedLane, claimedAtMs: number, options: DeliverOptions) {
    this.lane = lane;
    this.#work = new LaneWork(lane, claimedAtMs, options, () => this.#whenPaused());
  }

  /** Begins. @param run what there is to do; all that was claimed, unless told otherwise. */
  start(run: () => Promise<void> = () => this.#run()): void {
    void run()
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

  /** Whether the slice was over before the batch was: the claim was too large for such slow handlers. */
  get isCutShort(): boolean {
    return this.#work.isCutShort;
  }

  /** Resolves when the run is done, or can't go on before its lease is made longer. Never rejects. */
  async pauses(): Promise<void> {
    if (this.#isDone || this.#work.lease.isAwaited) return;
    await new Promise<void>((resolve) => (this.#whenPaused = resolve));
  }

  /** How many deliveries transactional handlers have settled themselves since the last call. */
  takeCommitted(): number {
    const { committed } = this.#work.progress;
    const taken = committed - this.#committed;
    this.#committed = committed;
    return taken;
  }

  /**
   * What is to be settled now, or null when nothing is. A lane that is done is let go.
   *
   * @param partial whether to take what a lane that goes on has done so far.
   */
  takeOutcome(partial: boolean): LaneOutcome | null {
    const { lease, progress } = this.#work;
    if (lease.isLost) return null;
    if (this.#isHeldUp()) this.#leave();
    const isDone = this.#isDone || this.#work.isLeft;
    if (!isDone && !lease.isAwaited && !lease.isEnding && !(partial && progress.hasNews)) return null;
    const { id, home, token } = this.lane;
    return { id, home, token, keepUntilMs: isDone ? null : lease.untilMs, ...progress.take(isDone) };
  }

  /**
   * Tells the run until when it has the lane now; null when it was let go.
   *
   * @param laneOf gives the lane of a key that has left.
   * @returns the runs of keys that have left: they wait for the handlers that this one began.
   */
  keep(untilMs: number | null, laneOf: (key: string) => string | undefined): readonly LaneRun[] {
    if (untilMs !== null) this.#work.lease.keep(untilMs);
    return this.#successors.filter((successor) => {
      const id = laneOf(successor.lane.deliveries[0]!.event.orderingKey);
      successor.lane = { ...successor.lane, id: id ?? '' };
      return id !== undefined;
    });
  }

  /** Tells the run that another relay has the lane: it begins nothing more. */
  lose(): void {
    this.#work.lease.lose();
  }

  /** Whether keys of a shared lane wait for the handlers of others: because those take long, or the relay's time is up. */
  #isHeldUp(): boolean {
    const { underWay, options, isLeft } = this.#work;
    if (!this.lane.isShared || this.#isDone || isLeft || underWay.size === 0) return false;
    const longAgo = performance.now() - LONG_MS;
    return options.isOver() || [...underWay].some(({ beganAt }) => beganAt < longAgo);
  }

  /** Has each key whose handler runs go on in a lane of its own, so that this one can be let go. */
  #leave(): void {
    const { lane } = this;
    const { underWay, options, progress, lease } = this.#work;
    this.#work.isLeft = true;
    const keepUntilMs = lease.untilMs;
    this.#successors = Array.from(underWay, ({ attempt, ended }) => {
      const { delivery, place } = attempt;
      progress.leave(place, { keepUntilMs, neededVersion: null });
      const head = delivery.position - 1;
      const ofKey = {
        ...lane,
        isShared: false,
        head,
        newest: delivery.position,
        isWhole: false,
        lapsedAtMs: null,
      };
      const run = new LaneRun(
        { ...ofKey, deliveries: [delivery], unreadable: [] },
        keepUntilMs - lane.subscription.leaseMs,
        options,
      );
      attempt.work = run.#work;
      attempt.place = 0;
      run.start(() => ended);
      return run;
    });
  }

  async #run(): Promise<void> {
    const { progress } = this.#work;
    if (this.#recordLapse()) return;
    const { batch, transactional } = this.lane.subscription.subscriber;
    if (batch) progress.isThrough = await inBatches(this.#work, batch);
    else progress.isThrough = await (transactional ? inSharedCommits : oneByOne)(this.#work);
  }

  /**
   * The relay before this one died while it held the lane. The first open delivery is the one that it surely began;
   * which of the others it began is unknown, so they are claimed one by one until they are through. Nor is it known which
   * of those that shared a commit it was that the relay died of: none of them has failed for that.
   *
   * @returns whether there was something to record.
   */
  #recordLapse(): boolean {
    const { lapsedAtMs, lapsedVersion, subscription } = this.lane;
    const { progress, isAborted } = this.#work;
    // Also where this release can't read it, if the relay that died could.
    const head = progress.claimed[0];
    const wasBegun = head && head.event.version <= (lapsedVersion ?? Infinity);
    if (!wasBegun || lapsedAtMs === null || isAborted || this.#work.isEarly(head)) return false;
    progress.carefulTo = progress.claimed.at(-1)!.position;
    const { transactional, sharesCommits, batch } = subscription.subscriber;
    const mayHaveShared = transactional && sharesCommits && batch === null && progress.claimed.length > 1;
    if (!mayHaveShared) this.#work.lapsed(0, lapsedAtMs);
    return true;
  }
}
