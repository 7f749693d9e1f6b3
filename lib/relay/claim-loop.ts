import { onAbort } from '../abort.ts';
import { addressEvents } from '../deliveries/address-events.ts';
import { endOutages } from '../deliveries/end-outages.ts';
import { giveBack } from '../deliveries/give-back.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import { takeBackTimes } from '../deliveries/take-back-times.ts';
import { takeTurn } from '../deliveries/turn.ts';
import type { Turn, TurnOptions } from '../deliveries/turn.ts';
import { vacuumAfter } from '../deliveries/vacuum.ts';
import { logError } from '../log.ts';
import { sleep } from '../time.ts';
import { Bell } from './bell.ts';
import { LeasedLanes, foundNobody } from './leased-lanes.ts';
import type { Clocks, Relaying, Yielded } from './leased-lanes.ts';
import { Pace } from './pace.ts';

/** Outcomes of finished lanes wait at most this long, to be settled together with those of others. */
const GATHER_MS = 25;

/** How often a loop that has stopped claiming settles the outcomes of its last handlers. */
const ENDING_MS = 500;

/** Events that one turn fans out. */
const MAX_FANNED_OUT = 3000;

/** Events fanned out after which a busy loop vacuums. */
const VACUUM_WHEN_BUSY = 10_000;

/**
 * One claim loop of a relay and the lanes it holds. It takes turns; each turn has five steps:
 *
 * 1. gather the outcomes that the runs of its lanes yield;
 * 2. in one round trip to the database: settle these outcomes, fan out new events, claim due lanes;
 * 3. confirm to the runs which of their outcomes were settled;
 * 4. deliver: begin a run for each claimed lane;
 * 5. wait until the runs pause, a commit makes deliveries due, or it is time to look again.
 */
export class ClaimLoop {
  readonly #relaying: Relaying;
  readonly #lanes: LeasedLanes;
  readonly #pace = new Pace();
  readonly #bell: Bell;
  readonly #whenBusy: (() => void) | undefined;
  #isBusy = false;

  /**
   * @param whenBusy called when more is due than one claim takes. Only the relay's first loop has it; the others do not
   *   wait for new events.
   */
  constructor(relaying: Relaying, whenBusy?: () => void) {
    this.#relaying = relaying;
    this.#lanes = new LeasedLanes(relaying);
    this.#bell = Bell.of(relaying.db);
    this.#whenBusy = whenBusy;
  }

  /** Takes turns until nothing is due or the time is up, then ends all runs and releases their lanes. */
  async run(): Promise<void> {
    const { time, report } = this.#relaying;
    try {
      for (let isMoreToDo = true; isMoreToDo && !time.isOver();) {
        report.ticks += 1;
        isMoreToDo = await this.#takeTurn();
        if (isMoreToDo && this.#isBusy) this.#whenBusy?.();
      }
    } finally {
      await this.#end();
    }
  }

  /** @returns whether there may be more to do. */
  async #takeTurn(): Promise<boolean> {
    const { rings } = this.#bell;
    const yielded = this.#lanes.gather(this.#pace.settlesPartially());
    const turn = await this.#settleFanOutAndClaim(yielded, this.#nextClaim());
    this.#lanes.confirm(yielded, turn.settled);
    this.#isBusy = this.#lanes.deliver(turn);
    if (turn.isClockBack) await takeBackTimes(this.#relaying.db);
    const hurried = await this.#followOutages(yielded, turn.hasRecovered);
    const addressed = await this.#addressAndVacuum(turn);
    return await this.#waitForMore(turn, addressed + hurried, rings);
  }

  async #settleFanOutAndClaim(yielded: readonly Yielded[], claim: Claim): Promise<TimedTurn> {
    const { lines, time, report, onTurn } = this.#relaying;
    lines?.write();
    const outcomes = yielded.map(({ outcome }) => outcome);
    const sentAt = performance.now();
    const taken = await this.#takeTurnSurely({ ...claim, outcomes, now: time.overriddenNow() });
    const receivedAt = performance.now();
    const { lanes, fannedOut } = taken;
    report.fannedOut += fannedOut;
    onTurn?.();
    if (lanes.length > 0 || fannedOut > 0) this.#pace.foundWork(!lanes.every(({ isWhole }) => isWhole));
    // The database read its clock between the two, which are far apart if the turn had to wait for a connection.
    const clock = time.clockFrom(taken.clockMs, receivedAt);
    const leaseClock = time.clockFrom(taken.nowMs, sentAt);
    return { ...taken, clocks: { clock, leaseClock } };
  }

  /**
   * Repeats the settlement when the connection breaks: its outcome is then unknown, and a second settlement changes
   * nothing. Lanes that the broken turn claimed are lost with its answer, and claimed again when their leases run out.
   */
  async #takeTurnSurely(options: TurnOptions): Promise<Turn> {
    const { db } = this.#relaying;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await takeTurn(db, attempt === 1 ? options : { ...options, ...NO_CLAIM });
      } catch (error) {
        if (options.outcomes.length === 0 || attempt === 3) throw error;
        await sleep(attempt * 200);
      }
    }
  }

  /**
   * Gives back what an outage used up, once it is known and when it is over. If that fails, the cron does it within a minute:
   * the outcomes of handlers that still run are not lost for it.
   *
   * @returns how many deliveries are due because a subscriber answers again.
   */
  async #followOutages(yielded: readonly Yielded[], hasRecovered: boolean): Promise<number> {
    const { db, subscriptions, time } = this.#relaying;
    const now = time.overriddenNow();
    const isNobodyThere = yielded.some(({ outcome }) => foundNobody(outcome));
    try {
      const nextProbes = isNobodyThere ? await giveBack(db, subscriptions, now) : NO_PROBES;
      this.#lanes.noteRetries(yielded, nextProbes);
      return hasRecovered ? await endOutages(db, subscriptions, now) : 0;
    } catch (error) {
      logError('what an outage used up was not given back yet', error);
      return 0;
    }
  }

  /** @returns how many events were addressed. */
  async #addressAndVacuum({ fannedOut, hasUnaddressed }: Turn): Promise<number> {
    const { db } = this.#relaying;
    const addressed = hasUnaddressed ? await addressEvents(db) : 0;
    await vacuumAfter(db, fannedOut, VACUUM_WHEN_BUSY);
    return addressed;
  }

  /**
   * Waits for expected work.
   *
   * @param found events that were addressed, and deliveries made due because a subscriber answers again.
   * @param rings how often the bell had rung before the turn.
   * @returns false if none is expected.
   */
  async #waitForMore({ lanes, fannedOut, isAwaited }: Turn, found: number, rings: number): Promise<boolean> {
    if (lanes.length > 0) await this.#pause(GATHER_MS);
    else if (this.#lanes.count > 0) await this.#pause(this.#pace.nextLookMs());
    else if (found > 0 || (fannedOut > 0 && isAwaited)) return true;
    else if (!this.#whenBusy) return false;
    else if (this.#bell.rings !== rings) return true;
    else if (!isAwaited || !this.#pace.waitsForProducers()) return false;
    else await this.#pause(this.#pace.nextLookMs());
    return true;
  }

  /** Lets the running handlers end, settles their outcomes and releases the lanes. */
  async #end(): Promise<void> {
    this.#lanes.startNothingMore();
    while (this.#lanes.count > 0) {
      await this.#pause(ENDING_MS);
      const yielded = this.#lanes.gather(this.#pace.settlesPartially());
      const { settled, hasRecovered } = await this.#settleFanOutAndClaim(yielded, NO_CLAIM);
      this.#lanes.confirm(yielded, settled);
      await this.#followOutages(yielded, hasRecovered);
    }
  }

  #nextClaim(): Claim {
    return {
      ...this.#lanes.room,
      subscriptions: this.#claimable(),
      isLooking: this.#pace.looksEverywhere(),
      maxFannedOut: MAX_FANNED_OUT,
    };
  }

  /**
   * Lists the subscriptions whose handlers still have enough time. A busy loop rotates them, so that none is always
   * last.
   */
  #claimable(): ReadonlyMap<string, Subscription> {
    const { subscriptions, time, report } = this.#relaying;
    const fitting = [...subscriptions].filter(([, { subscriber }]) => time.fits(subscriber.timeoutMs));
    if (fitting.length === subscriptions.size && !this.#isBusy) return subscriptions;
    return new Map(rotate(fitting, report.ticks));
  }

  /** Waits until all runs pause, a commit makes deliveries due, the relay has to stop, or this long. */
  async #pause(ms: number): Promise<void> {
    let endings: readonly (() => void)[] = [];
    await new Promise<void>((wake) => {
      const timer = setTimeout(wake, ms);
      endings = [
        () => clearTimeout(timer),
        this.#bell.onRing(wake),
        onAbort(this.#relaying.time.signal, wake),
      ];
      if (this.#lanes.count > 0) void this.#lanes.allPause().then(wake);
    });
    for (const end of endings) end();
  }
}

/** How much a turn claims, and where. */
type Claim = Omit<TurnOptions, 'outcomes' | 'now'>;

const NO_PROBES: ReadonlyMap<string, number> = new Map();

const NO_CLAIM: Claim = {
  subscriptions: new Map(),
  maxLanes: 0,
  maxDeliveries: 0,
  isLooking: false,
  maxFannedOut: 0,
};

/** A turn, and the clocks that the runs of its lanes use. */
type TimedTurn = Turn & { readonly clocks: Clocks };

function rotate<Item>(items: readonly Item[], turns: number): readonly Item[] {
  const start = items.length > 0 ? (turns * 7) % items.length : 0;
  return [...items.slice(start), ...items.slice(0, start)];
}
