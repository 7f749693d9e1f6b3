import { onAbort } from '../../platform/abort.ts';
import { clockJumpsOf } from '../../platform/db/clock-jumps.ts';
import { logError } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import type { EarlyLook } from './bell.ts';
import { Pace } from './pace.ts';
import { portionOf } from './portion.ts';
import type { Portion } from './portion.ts';
import type { ClaimedLane } from '../deliveries/claim.ts';
import { hasLostClaims, releaseLostClaims } from '../deliveries/lost-claims.ts';
import { takeBackTimes } from '../deliveries/take-back-times.ts';
import { takeTurn } from '../deliveries/turn.ts';
import type { Turn, TurnOptions } from '../deliveries/turn.ts';
import { releaseTimers } from '../outbox/release-timers.ts';
import { latestClockOf, Runs } from './runs.ts';
import type { Relaying } from './runs.ts';

/** Outcomes of finished lanes wait at most this long, to be settled together with those of others. */
const GATHER_MS = 25;

/** How often a loop that has stopped claiming settles the outcomes of its last handlers. */
const ENDING_MS = 500;

/** How long to wait after a failed turn: longer each time. */
const TRY_AGAIN_MS = 200;
const TRY_AGAIN_LIMIT_MS = 1 * SECOND;

/** Turns that may fail one after the other although the handlers' time is up. */
const HURRIED_TRIES = 2;

/** No ring of the bell: the turn that should have answered it failed, or has not been sent. */
const UNHEARD = -1;

/** A smaller step back of the database's clock keeps no lane waiting for long. */
const STEP_MS = 10 * SECOND;

/** Events of a topic that get their places in one turn. */
const MAX_PLACED = 3000;

/**
 * One claim loop of a relay and the lanes it holds. It takes turns; each turn has five steps:
 *
 * 1. gather the outcomes that the runs of its lanes yield;
 * 2. in one round trip to the database: give events their places, settle these outcomes, claim due lanes;
 * 3. confirm to the runs which of their outcomes were settled;
 * 4. deliver: begin a run for each claimed lane;
 * 5. wait until the runs pause, a commit makes deliveries due, or it is time to look again.
 */
export class ClaimLoop {
  readonly #relaying: Relaying;
  readonly #runs: Runs;
  readonly #pace = new Pace();
  readonly #portion: Portion;
  readonly #loops: RelaysLoops;
  #isBusy = false;
  /** Whether its next turn looks for work, and is not sent yet. */
  isAboutToLook = true;
  /** How often the bell had rung when its last turn that looks was sent. */
  #heard = UNHEARD;
  /** Ends its wait for the next look; null when it does not wait. */
  wake: (() => void) | null = null;
  /** How many turns have failed since the last one that did all. */
  #failures = 0;
  /** Whether the last turn failed, so that the next one only settles. */
  isRepeating = false;
  /** Whether it took too long, and the next one does less. */
  #isSmaller = false;
  /** Whether a clock was ahead and is back, and its times are not taken back yet. */
  #isClockBack = false;

  /** @param loops it and those beside it. */
  constructor(relaying: Relaying, loops: RelaysLoops) {
    this.#relaying = relaying;
    this.#runs = new Runs(relaying);
    this.#portion = portionOf(relaying.db);
    this.#loops = loops;
  }

  /**
   * Takes turns until nothing is due or the time is up, then ends all runs and releases their lanes. While the database
   * does not answer, it holds on to what its lanes have done.
   *
   * @throws the error of a turn when it has nothing to hold on to; the error that ended a run, which is a bug.
   */
  async run(): Promise<void> {
    const { time, report } = this.#relaying;
    try {
      for (let isMoreToDo = true; isMoreToDo && !time.isOver() && this.#runs.error === undefined;) {
        report.ticks += 1;
        isMoreToDo = await this.#takeTurn();
        if (isMoreToDo && this.#isBusy) this.#loops.start();
      }
    } finally {
      await this.#end();
    }
    if (this.#runs.error !== undefined) throw this.#runs.error;
  }

  /** Whether it holds lanes. */
  get isHolding(): boolean {
    return this.#runs.count > 0;
  }

  /** @returns whether there may be more to do. */
  async #takeTurn(): Promise<boolean> {
    const isRepeated = this.isRepeating;
    const { db, time, calls } = this.#relaying;
    let turn: Turn;
    let released = 0;
    try {
      turn = await this.#settlePlaceAndClaim(!isRepeated);
      await this.#takeBackTimes();
      released = await releaseTimers(db, time.overriddenNow());
      if (released > 0) calls.owe();
    } catch (error) {
      await this.#outlast(error);
      return true;
    }
    this.isRepeating = false;
    if (isRepeated) return true;
    this.#failures = 0;
    return (this.isAboutToLook = await this.#waitForMore(turn, released));
  }

  /** @param isLooking whether it places and claims too. */
  async #settlePlaceAndClaim(isLooking: boolean): Promise<Turn> {
    const { db, lines, time, report, onTurn, bell, calls, inHand } = this.#relaying;
    lines?.write();
    const now = time.overriddenNow();
    await releaseLostClaims(db, now);
    const yielded = this.#runs.gather(this.#pace.settlesPartially());
    const outcomes = yielded.map(({ outcome }) => outcome);
    const early = isLooking ? [...bell.early] : [];
    const claim = isLooking ? this.#nextClaim(early) : NO_CLAIM;
    const writtenByMs = latestClockOf(yielded);
    const sentAt = performance.now();
    let turn: Turn;
    try {
      turn = await takeTurn(db, { ...claim, outcomes, clockMs: this.#clock(), now });
    } catch (error) {
      this.#isSmaller = this.#portion.shrinkAfter(error);
      this.#runs.noteFailure(claim.continued);
      if (isLooking) {
        this.#giveBack(claim);
        // The lanes of these outcomes may have more, and the turn that settles them claims nothing.
        calls.owe();
      }
      for (const look of early) look.end(false);
      throw error;
    }
    const receivedAt = performance.now();
    // Older open transactions may be before the events of the commits that it waited for.
    const isMet = turn.isMet && (turn.placed > 0 || !turn.isAwaited);
    for (const look of early) look.end(isMet);
    this.#portion.grow();
    report.placed += turn.placed;
    onTurn?.(report);
    // The database read its clock between the two, which are far apart if the turn had to wait for a connection.
    const clock = time.clockFrom(turn.clockMs, receivedAt);
    const leaseClock = time.clockFrom(turn.nowMs, sentAt);
    this.#clock = clock;
    if (now === null) clockJumpsOf(db).note({ clockMs: turn.clockMs, sentAt, receivedAt });
    // What runs have written by a clock that was ahead is known by their own.
    this.#isClockBack ||= turn.isClockBack || (now === null && turn.nowMs < writtenByMs - STEP_MS);
    this.#runs.confirm(yielded, turn, leaseClock);
    if (turn.hasMore || claim.share !== null) calls.owe();
    const hasFoundWork = turn.lanes.length > 0 || turn.placed > 0;
    if (hasFoundWork) this.#pace.foundWork();
    if (isLooking) calls.noteTurn(claim.isLooking, hasFoundWork);
    if (turn.isAwaited) this.#giveBack(claim);
    calls.awaitLanes(turn.behind.filter((lane) => !inHand.has(lane)));
    if (turn.limitedInMs !== null) this.#runs.noteNext(turn.nowMs + turn.limitedInMs);
    const { nowMs } = turn;
    this.#isBusy = this.#runs.deliver(
      { nowMs, lanes: this.#withoutJumps(turn.lanes) },
      { clock, leaseClock },
    );
    return turn;
  }

  /** Those that were there when the clock stepped back, and those that runs of earlier claims have written since. */
  async #takeBackTimes(): Promise<void> {
    if (!this.#isClockBack) return;
    await takeBackTimes(this.#relaying.db);
    this.#isClockBack = false;
    this.#relaying.calls.owe();
  }

  /** A relay whose lease only a jump of the clock has ended did not die: nothing is charged for it. */
  #withoutJumps(lanes: readonly ClaimedLane[]): readonly ClaimedLane[] {
    const jumps = clockJumpsOf(this.#relaying.db);
    return lanes.map((lane) =>
      lane.lapsedAtMs !== null && jumps.hasSkipped(lane.lapsedAtMs) ? { ...lane, lapsedAtMs: null } : lane,
    );
  }

  /** The database's, as the last turn read it. */
  #clock: () => number = () => Date.now();

  /** Has the next turn ask for the same. */
  #giveBack({ topics, isLooking, behind }: Claim): void {
    const { calls } = this.#relaying;
    if (behind) calls.awaitLanes(behind);
    if (topics) calls.owe(topics);
    if (isLooking) calls.owe();
  }

  /**
   * After a failed turn, waits before the next one, which only settles: a second settlement of the same outcomes changes
   * nothing. So the outcomes are settled once the database answers, however the turn failed, and handlers that still run
   * may end meanwhile.
   *
   * A turn that took too long is followed at once by a smaller one.
   *
   * @throws the error when no lane is in hand, and none may be leased that no run knows of; or when the handlers' time is
   *   up.
   */
  async #outlast(error: unknown): Promise<void> {
    const { db, time } = this.#relaying;
    const isSmaller = this.#isSmaller;
    this.#isSmaller = false;
    this.isRepeating = true;
    if (isSmaller && time.handlersLeftMs() > 0) return;
    this.#failures += 1;
    const isHolding = this.#runs.count > 0 || hasLostClaims(db);
    if (!isHolding || (this.#failures > HURRIED_TRIES && time.handlersLeftMs() <= 0)) throw error;
    if (this.#failures === 1)
      logError('a turn of the relay failed; its outcomes are kept and sent again', error);
    await sleep(Math.min(this.#failures * TRY_AGAIN_MS, TRY_AGAIN_LIMIT_MS));
  }

  /** Waits for expected work. @param released timers that were due. @returns false if none is expected. */
  async #waitForMore({ lanes, placed, isAwaited }: Turn, released: number): Promise<boolean> {
    const { bell, calls, looks } = this.#relaying;
    if (lanes.length > 0) await this.#pause(GATHER_MS);
    else if (this.#runs.count > 0) await this.#pause(this.#pace.nextLookMs());
    else if (released > 0 || (placed > 0 && isAwaited) || this.#isCalled()) return true;
    else if (calls.areBehind) await this.#pause(this.#pace.nextLookMs());
    else if (!isAwaited) {
      if (calls.isOwed) return true;
      if (!looks.leavesOut) bell.answered = Math.max(bell.answered, this.#heard);
      return false;
    }
    // One of the loops waits for producers.
    else if (this.#loops.isWaiting || !this.#pace.waitsForProducers()) return false;
    else await this.#pause(this.#pace.nextLookMs());
    return true;
  }

  /** Whether the bell has rung since any loop of this relay sent a turn that looks. */
  #isCalled(): boolean {
    const { bell, looks } = this.#relaying;
    return bell.rings !== looks.heard;
  }

  /**
   * Lets the running handlers end, settles their outcomes and releases the lanes. What was leased and not begun is given
   * back before anybody hears that it looks no more, so that a relay that begins then finds it.
   */
  async #end(): Promise<void> {
    const { time, calls } = this.#relaying;
    this.#runs.areEnding = true;
    this.isAboutToLook = false;
    // What it has claimed and not begun is left to the relay of the next kick.
    if (time.isOver()) calls.owe();
    try {
      if (this.#runs.count > 0) await handlersThatWaitForNothing();
      if (this.#runs.isAnyPaused) await this.#settle();
    } finally {
      this.#loops.noteEnding(this);
    }
    while (this.#runs.count > 0 || hasLostClaims(this.#relaying.db)) {
      await this.#pause(ENDING_MS);
      await this.#settle();
    }
  }

  async #settle(): Promise<void> {
    try {
      await this.#settlePlaceAndClaim(false);
      await this.#takeBackTimes();
    } catch (error) {
      await this.#outlast(error);
    }
  }

  /** @param early looks that it answers. */
  #nextClaim(early: readonly EarlyLook[]): Claim {
    const { bell, calls, looks } = this.#relaying;
    looks.heard = this.#heard = bell.rings;
    bell.early.clear();
    this.isAboutToLook = false;
    const { maxLanes, maxDeliveries } = this.#runs.room;
    // While the handlers of one loop run, the database works for another.
    const share = this.#isBusy && this.#loops.isAnyIdle ? this.#runs.share : 0;
    return {
      ...calls.take(),
      continued: this.#runs.continued,
      share: share > 0 ? share : null,
      maxLanes: this.#portion.of(maxLanes),
      maxDeliveries: this.#portion.of(maxDeliveries),
      maxEvents: this.#portion.of(MAX_PLACED),
      subscriptions: this.#claimable(),
      awaited: early.map(({ backend }) => backend),
    };
  }

  /**
   * Lists the subscriptions whose handlers still have enough time. A busy loop rotates them, so that none is always
   * last.
   */
  #claimable(): ReadonlyMap<string, Subscription> {
    const { subscriptions, time, report, looks } = this.#relaying;
    const fitting = [...subscriptions].filter(([, { subscriber }]) => time.fits(subscriber.timeoutMs));
    looks.leavesOut ||= fitting.length < subscriptions.size;
    if (fitting.length === subscriptions.size && !this.#isBusy) return subscriptions;
    const start = (report.ticks * 7) % Math.max(1, fitting.length);
    return new Map([...fitting.slice(start), ...fitting.slice(0, start)]);
  }

  /** Waits until all runs pause, the bell rings for a loop that looks, the relay has to stop, or this long. */
  async #pause(ms: number): Promise<void> {
    await handlersThatWaitForNothing();
    const isLooking = !this.#runs.areEnding;
    if (this.#runs.arePaused || (isLooking && this.#isCalled())) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        forget();
        if (this.wake === wake) this.wake = null;
        this.isAboutToLook = isLooking;
        resolve();
      };
      const timer = setTimeout(wake, ms);
      const forget = onAbort(this.#relaying.time.signal, wake);
      if (isLooking) this.wake = wake;
      if (this.#runs.count > 0) void this.#runs.allPause().then(wake);
    });
  }
}

/** All loops of the relay, see `Loops`. */
interface RelaysLoops {
  readonly isWaiting: boolean;
  readonly isAnyIdle: boolean;
  start(): void;
  noteEnding(loop: ClaimLoop): void;
}

/** How much a turn claims, and where. */
type Claim = Omit<TurnOptions, 'outcomes' | 'now' | 'clockMs'>;

const NO_CLAIM: Claim = {
  subscriptions: new Map(),
  topics: null,
  continued: [],
  behind: null,
  maxLanes: 0,
  share: null,
  maxDeliveries: 0,
  isLooking: false,
  awaited: [],
  maxEvents: 0,
};

/** Resolves when those have ended, which is no time at all. */
const handlersThatWaitForNothing = () => new Promise<void>((resolve) => process.nextTick(resolve));
