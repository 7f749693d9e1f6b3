import type { Database } from '../db/connect.ts';
import { addressEvents } from '../deliveries/address-events.ts';
import type { ClaimedLane } from '../deliveries/claim.ts';
import type { LaneOutcome, Settled } from '../deliveries/settle.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import { turn } from '../deliveries/turn.ts';
import type { Turn, TurnOptions } from '../deliveries/turn.ts';
import { vacuumAfter } from '../deliveries/vacuum.ts';
import { LogBatch } from '../log.ts';
import { SECOND, sleep } from '../time.ts';
import { Bell } from './bell.ts';
import { LaneRun } from './lane-run.ts';
import type { RelayOptions, RelayReport } from './relay.ts';
import { Slots } from './slots.ts';

/** Lanes that one loop holds. Each costs a connection only while a transactional handler runs. */
const MAX_LANES = 256;

/** Deliveries of one claim, over all lanes; fewer while handlers are too slow to get through them in a slice. */
const MAX_DELIVERIES = 6000;
const MIN_DELIVERIES = 64;

/** Relays of one process share the pool, and so these. */
const slots = new WeakMap<Database, Slots>();

/** Transactional handlers at once: the pool's ten connections less what the relay itself and its host need. */
const MAX_TRANSACTIONS = 6;

/** Outcomes of lanes that are done wait this long at most to be settled together with those of others. */
const GATHER_MS = 25;

/** Outcomes of a lane that goes on are settled this often: what a crash would repeat. */
const PARTIAL_MS = 500;

/** How long a relay with nothing else to do waits for producers whose transactions are open. */
const FENCE_PATIENCE_MS = 1 * SECOND;

/** How soon a loop that holds lanes, or waits for producers, looks again; doubled each time it finds nothing. */
const LOOK_AGAIN_MS = 2;
const LOOK_AGAIN_LIMIT_MS = 250;

/** How often a loop asks for all lanes that are due while its own fan-out brings work. */
const LOOK_EVERYWHERE_MS = 100;

/** Events after which a loop that is busy vacuums. */
const VACUUM_WHEN_BUSY = 10_000;

/** One claim loop and the lanes it holds. */
export class ClaimLoop {
  readonly #options: RelayOptions;
  readonly #subscriptions: ReadonlyMap<string, Subscription>;
  readonly #report: RelayReport;
  readonly #whenBusy: (() => void) | undefined;
  /** Whether the last claim was about as large as claims are. */
  #isBusy = false;
  readonly #overAt: number;
  readonly #handlersOverAt: number;
  readonly #runs = new Set<LaneRun>();
  readonly #bell: Bell;
  readonly #transactions: Slots;
  readonly #lines: LogBatch | undefined;
  #rings: number;
  #maxDeliveries = MAX_DELIVERIES;
  #lookAgainMs = LOOK_AGAIN_MS;
  #lastWorkAt = performance.now();
  #lastPartialAt = performance.now();
  #lastLookAt = performance.now();
  #hasEnded = false;
  #isAwaited = false;

  /**
   * @param whenBusy called when there is more to do than one claim takes. Only a loop that has it waits for events that
   *   are not committed yet.
   */
  constructor(
    options: RelayOptions,
    subscriptions: ReadonlyMap<string, Subscription>,
    report: RelayReport,
    whenBusy?: () => void,
  ) {
    this.#options = options;
    this.#report = report;
    this.#whenBusy = whenBusy;
    this.#bell = Bell.of(options.db);
    this.#rings = this.#bell.rings;
    this.#transactions = slots.get(options.db) ?? new Slots(MAX_TRANSACTIONS);
    slots.set(options.db, this.#transactions);
    this.#lines = options.isLogged ? new LogBatch() : undefined;
    this.#subscriptions = subscriptions;
    this.#overAt = performance.now() + remainingMs(options);
    this.#handlersOverAt = performance.now() + ((options.handlersUntil ?? Infinity) - Date.now());
  }

  /** Takes turns until nothing is due or the time is up. */
  async run(): Promise<void> {
    try {
      while ((await this.#turn()) || (await this.#isWoken())) if (this.#isBusy) this.#whenBusy?.();
    } finally {
      await this.#end();
    }
  }

  /** Settles what is done, looks for work and begins it. @returns whether there may be more to do. */
  async #turn(): Promise<boolean> {
    if (this.#isOver()) return false;
    this.#report.ticks += 1;
    this.#rings = this.#bell.rings;
    const since = performance.now();
    const taken = await this.#settling({
      subscriptions: this.#beginnable(),
      maxLanes: Math.max(1, MAX_LANES - this.#runs.size),
      maxDeliveries: this.#maxDeliveries,
      isLooking: this.#isLooking(),
    });
    const { lanes, fannedOut, isAwaited, hasUnaddressed } = taken;
    this.#isAwaited = isAwaited;
    this.#report.fannedOut += fannedOut;
    this.#loseTakenAgain(lanes);
    for (const lane of lanes) this.#begin(lane, taken, since);
    const addressed = hasUnaddressed ? await addressEvents(this.#options.db) : 0;
    this.#isBusy = lanes.reduce((count, { deliveries }) => count + deliveries.length, 0) * 2 > MAX_DELIVERIES;
    if (lanes.length > 0 || fannedOut > 0) {
      this.#lookAgainMs = LOOK_AGAIN_MS;
      this.#lastWorkAt = performance.now();
      // Of a lane that is whole nothing is left to be looked for.
      if (!lanes.every(({ isWhole }) => isWhole)) this.#lastLookAt = -Infinity;
    }
    await vacuumAfter(this.#options.db, fannedOut, VACUUM_WHEN_BUSY);
    if (lanes.length > 0) await this.#runsPause(GATHER_MS);
    else if (this.#runs.size > 0) await this.#runsPause(this.#lookAgain());
    else return addressed > 0 || (fannedOut > 0 && isAwaited);
    return true;
  }

  /** Waits for what is known to come: an event that a producer has not committed yet, or that was just committed. */
  async #isWoken(): Promise<boolean> {
    if (!this.#whenBusy || this.#isOver()) return false;
    if (this.#bell.rings !== this.#rings) return true;
    if (!this.#isAwaited || performance.now() - this.#lastWorkAt > FENCE_PATIENCE_MS) return false;
    await this.#runsPause(this.#lookAgain());
    return true;
  }

  /** Lets what runs come to its end, settles it and lets the lanes go. */
  async #end(): Promise<void> {
    this.#hasEnded = true;
    while (this.#runs.size > 0) {
      await this.#runsPause(PARTIAL_MS);
      await this.#settling(NOTHING_NEW);
    }
  }

  /** Takes a turn with the outcomes of what is done, and tells the runs what became of them. */
  async #settling(looking: Omit<TurnOptions, 'outcomes' | 'now'>): Promise<Turn> {
    this.#lines?.write();
    const taken = this.#outcomes();
    const options = { ...looking, now: instantOf(this.#options.now) };
    const outcomes = taken.map(({ outcome }) => outcome);
    const taking = await turnSurely(this.#options.db, { ...options, outcomes });
    if (taking.settled) this.#confirm(taken, taking.settled);
    return taking;
  }

  #outcomes(): { run: LaneRun; outcome: LaneOutcome }[] {
    const isPartialDue = performance.now() - this.#lastPartialAt > PARTIAL_MS;
    if (isPartialDue) this.#lastPartialAt = performance.now();
    const taken: { run: LaneRun; outcome: LaneOutcome }[] = [];
    for (const run of this.#runs) {
      this.#report.delivered += run.takeCommitted();
      const outcome = run.takeOutcome(isPartialDue);
      if (outcome) taken.push({ run, outcome });
      else if (run.isDone) {
        this.#report.leasesLost += 1;
        this.#runs.delete(run);
      }
      if (run.failure !== undefined) throw run.failure;
    }
    return taken;
  }

  #confirm(taken: readonly { run: LaneRun; outcome: LaneOutcome }[], settled: Settled): void {
    const report = this.#report;
    report.delivered += settled.delivered;
    report.failed += settled.failed;
    report.waited += settled.waited;
    report.deadLettered += settled.deadLettered;
    for (const { run, outcome } of taken) {
      if (!settled.held.has(outcome.id)) {
        if (outcome.keepUntilMs === null) report.leasesLost += 1;
        run.lose();
      } else {
        const laneOf = (key: string) => settled.leftFor.get(`${outcome.id} ${key}`);
        for (const successor of run.keep(outcome.keepUntilMs, laneOf)) this.#runs.add(successor);
      }
      if (outcome.keepUntilMs === null) {
        this.#runs.delete(run);
        this.#adaptTo(run);
      }
      const retries = [
        outcome.retryAtMs,
        ...outcome.unfinished.map(({ nextAttemptAtMs }) => nextAttemptAtMs),
      ].filter((at) => at !== null);
      report.nextRetryAt = retries.reduce((first, at) => Math.min(first, at), report.nextRetryAt ?? Infinity);
      if (report.nextRetryAt === Infinity) report.nextRetryAt = null;
    }
  }

  /**
   * After its process was suspended a relay may claim a lane that it still works for: its lease ran out, and perhaps another
   * relay has had the lane meanwhile. The settlement goes by lanes, and takes one outcome of each.
   */
  #loseTakenAgain(lanes: readonly ClaimedLane[]): void {
    const taken = new Set(lanes.map(({ id }) => id));
    for (const run of this.#runs) if (taken.has(run.lane.id)) run.lose();
  }

  #begin(lane: ClaimedLane, { nowMs, clockMs }: Turn, since: number): void {
    const { db, now, signal } = this.#options;
    const received = performance.now();
    // With the clock overridden time stands still, so that a test can meet a retry to the millisecond. The database
    // read its clock between `since` and `received`, which can be far apart where a connection was waited for.
    const clockFrom = (ms: number, readAt: number) => () =>
      ms + (now === undefined ? performance.now() - readAt : 0);
    const run = new LaneRun(lane, nowMs, {
      db,
      clock: clockFrom(clockMs, received),
      leaseClock: clockFrom(nowMs, since),
      isOver: () => this.#isOver(),
      signal,
      fits: (limitMs) => this.#fits(limitMs),
      transactions: this.#transactions,
      lines: this.#lines,
    });
    this.#runs.add(run);
    run.start();
  }

  /** Another first one each time, so that with more lanes due than fit, all get theirs. */
  #beginnable(): ReadonlyMap<string, Subscription> {
    const all = [...this.#subscriptions];
    const fitting = all.filter(([, { subscriber }]) => this.#fits(subscriber.timeoutMs));
    if (fitting.length === all.length && !this.#isBusy) return this.#subscriptions;
    return new Map(rotated(fitting, this.#report.ticks));
  }

  #isLooking(): boolean {
    if (performance.now() - this.#lastLookAt < LOOK_EVERYWHERE_MS) return false;
    this.#lastLookAt = performance.now();
    return true;
  }

  /** Reading deliveries that the slice has no time for is wasted: claim fewer when handlers are slow. */
  #adaptTo(run: LaneRun): void {
    const claimable = run.isCutShort ? this.#maxDeliveries / 4 : this.#maxDeliveries * 2;
    this.#maxDeliveries = Math.trunc(Math.min(MAX_DELIVERIES, Math.max(MIN_DELIVERIES, claimable)));
  }

  #isOver(): boolean {
    return this.#hasEnded || this.#options.signal?.aborted === true || performance.now() >= this.#overAt;
  }

  /** Whether a handler that is begun now ends in time, if it takes all of its limit. */
  #fits(limitMs: number): boolean {
    return performance.now() + limitMs <= this.#handlersOverAt;
  }

  #lookAgain(): number {
    const ms = this.#lookAgainMs;
    this.#lookAgainMs = Math.min(LOOK_AGAIN_LIMIT_MS, ms * 2);
    return ms;
  }

  /** Waits until all runs pause, an event is committed, or so long. */
  async #runsPause(ms: number): Promise<void> {
    const woken = new AbortController();
    const waits = [this.#bell.rung(woken.signal), sleep(ms, woken.signal)];
    if (this.#runs.size > 0) waits.push(allPause(this.#runs));
    this.#options.signal?.addEventListener('abort', () => woken.abort(), {
      once: true,
      signal: woken.signal,
    });
    await Promise.race(waits);
    woken.abort();
  }
}

const NOTHING_NEW = { subscriptions: new Map(), maxLanes: 0, maxDeliveries: 0, isLooking: false };

async function allPause(runs: ReadonlySet<LaneRun>): Promise<void> {
  await Promise.all(Array.from(runs, (run) => run.pauses()));
}

/**
 * A broken connection leaves it unknown whether a settlement was made; making it again changes nothing if it was. What the
 * broken turn has claimed is lost with its answer, and claimed again when the leases have run out.
 */
async function turnSurely(db: Database, options: TurnOptions): Promise<Turn> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await turn(db, attempt === 1 ? options : { ...options, ...NOTHING_NEW });
    } catch (error) {
      if (options.outcomes.length === 0 || attempt === 3) throw error;
      await sleep(attempt * 200);
    }
  }
}

function rotated<Item>(items: readonly Item[], turns: number): readonly Item[] {
  const start = items.length > 0 ? (turns * 7) % items.length : 0;
  return [...items.slice(start), ...items.slice(0, start)];
}

function remainingMs({ until, now }: RelayOptions): number {
  const remaining = until - Date.now();
  // A test that overrides the clock may count `until` from its own clock or from the real one.
  return now === undefined ? remaining : Math.max(remaining, until - Date.parse(instantOf(now)!));
}

function instantOf(now: RelayOptions['now']): string | null {
  if (now === undefined) return null;
  return new Date(typeof now === 'function' ? now() : now).toISOString();
}
