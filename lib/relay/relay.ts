import type { Database } from '../db/connect.ts';
import { LogBatch } from '../log.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';
import { inTickSpan } from '../telemetry/tick.ts';
import { SECOND, sleep } from '../time.ts';
import { addressEvents } from '../deliveries/address-events.ts';
import { claim } from '../deliveries/claim.ts';
import type { Claim } from '../deliveries/claim.ts';
import { LaneRun } from './lane-run.ts';
import { QuietFence, fanOut } from '../deliveries/fan-out.ts';
import type { Survey } from '../deliveries/fan-out.ts';
import { settle } from '../deliveries/settle.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';
import { Slots } from './slots.ts';
import { subscriptionsOf } from '../deliveries/subscription.ts';
import type { Subscription } from '../deliveries/subscription.ts';

export interface RelayOptions {
  readonly db: Database;
  /** Who is attached. The lanes of all others wait. */
  readonly subscribers: readonly AttachedSubscriber[];
  /** When to begin nothing more, in milliseconds since the epoch. */
  readonly until: number;
  /**
   * By when every handler must have ended, in milliseconds since the epoch; without it there is no bound. One whose time
   * limit ends later is not begun, and its lane waits for a relay that has the time.
   */
  readonly handlersUntil?: number | undefined;
  /** Overrides the database's clock, in tests only. */
  readonly now?: number | Date | (() => number | Date);
  /** Aborts at once: what runs is cut off and counts as not tried. */
  readonly signal?: AbortSignal;
  /** Whether each delivery, and the whole, leaves a line in the log. */
  readonly isLogged?: boolean;
}

/** What a relay did, counted from what the database confirmed. */
export interface RelayReport {
  fannedOut: number;
  delivered: number;
  /** Attempts that failed and will be made again. */
  failed: number;
  /** Attempts whose handler asked for time with `RetryAfter`. */
  waited: number;
  deadLettered: number;
  /** Lanes that another relay took while this one held them. */
  leasesLost: number;
  ticks: number;
  /** The earliest retry that this relay set, in epoch milliseconds; null when it set none. */
  nextRetryAt: number | null;
}

/** Lanes in the hands of one relay. Each costs a connection only while a transactional handler runs. */
const MAX_LANES = 256;

/** Deliveries of one claim, over all lanes; fewer while handlers are too slow to get through them in a slice. */
const MAX_DELIVERIES = 6000;
const MIN_DELIVERIES = 64;

/**
 * Hands that a busy relay has besides its first: while the database settles what one has done, another has its handlers
 * run, and a third claims. More gain nothing; each costs a connection.
 */
const MAX_OTHER_HANDS = 2;

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

/** How soon a relay that has lanes in its hands, or producers to wait for, looks again; doubled at each vain look. */
const LOOK_AGAIN_MS = 5;
const LOOK_AGAIN_LIMIT_MS = 250;

/**
 * Delivers what is due, until nothing is or the time is up: fans out, claims, delivers, settles, and again.
 *
 * Any number of relays may run at once, in one process or many. What is in the hands of a relay that dies is
 * delivered by another when its leases have run out. Handlers that run when the time is up are waited for, up to
 * their own limits.
 *
 * @throws TypeError when a subscription is attached twice; what the database throws when it is down.
 */
export async function relay(options: RelayOptions): Promise<RelayReport> {
  return await inTickSpan(options.isLogged === true, () => drain(options));
}

async function drain(options: RelayOptions): Promise<RelayReport> {
  const report: RelayReport = {
    fannedOut: 0,
    delivered: 0,
    failed: 0,
    waited: 0,
    deadLettered: 0,
    leasesLost: 0,
    ticks: 0,
    nextRetryAt: null,
  };
  const subscriptions = subscriptionsOf(options.subscribers);
  const others = new Set<Promise<void>>();
  const call = () => {
    if (others.size === MAX_OTHER_HANDS) return;
    const other = work(new Pass(options, subscriptions, report)).finally(() => others.delete(other));
    // Told when it is waited for.
    other.catch(() => undefined);
    others.add(other);
  };
  try {
    await work(new Pass(options, subscriptions, report), call);
  } finally {
    await Promise.all(others);
  }
  return report;
}

/**
 * Works until nothing is due or the time is up.
 *
 * @param whenBusy called when there is more to do than one claim takes.
 */
async function work(pass: Pass, whenBusy?: () => void): Promise<void> {
  try {
    while (await pass.tick()) if (pass.isBusy) whenBusy?.();
  } finally {
    await pass.end();
  }
}

/** One pair of hands: the lanes that it holds, of all that the relay does. */
class Pass {
  readonly report: RelayReport;
  /** Whether the last claim was about as large as claims are. */
  isBusy = false;
  readonly #options: RelayOptions;
  readonly #subscriptions: readonly Subscription[];
  readonly #overAt: number;
  readonly #handlersOverAt: number;
  readonly #runs = new Set<LaneRun>();
  readonly #fence: QuietFence;
  readonly #transactions: Slots;
  readonly #lines: LogBatch | undefined;
  #maxDeliveries = MAX_DELIVERIES;
  #lookAgainMs = LOOK_AGAIN_MS;
  #lastWorkAt = performance.now();
  #lastPartialAt = performance.now();
  #hasEnded = false;

  constructor(options: RelayOptions, subscriptions: readonly Subscription[], report: RelayReport) {
    this.#options = options;
    this.report = report;
    this.#fence = QuietFence.of(options.db);
    this.#transactions = slots.get(options.db) ?? new Slots(MAX_TRANSACTIONS);
    slots.set(options.db, this.#transactions);
    this.#lines = options.isLogged ? new LogBatch() : undefined;
    this.#subscriptions = subscriptions;
    this.#overAt = performance.now() + remainingMs(options);
    this.#handlersOverAt = performance.now() + ((options.handlersUntil ?? Infinity) - Date.now());
  }

  /** Looks for work, does it, and settles what is done. @returns whether there may be more to do. */
  async tick(): Promise<boolean> {
    if (this.#isOver()) return false;
    this.report.ticks += 1;
    const claimed = await this.#claim();
    const deliveries = claimed.lanes.reduce((count, lane) => count + lane.deliveries.length, 0);
    this.isBusy = deliveries * 2 > MAX_DELIVERIES;
    const fannedOut = claimed.survey ? await this.#fanOut(claimed.survey) : 0;
    if (claimed.lanes.length > 0 || fannedOut > 0) {
      this.#lookAgainMs = LOOK_AGAIN_MS;
      this.#lastWorkAt = performance.now();
      if (this.#runs.size > 0) await this.#runsDoneWithin(GATHER_MS);
      await this.#settle();
      return true;
    }
    if (this.#runs.size > 0) {
      await this.#runsDoneWithin(this.#lookAgain());
      await this.#settle();
      return true;
    }
    // Nothing to do, but events wait for a producer's transaction to end, or for another relay that fans out.
    if (!claimed.survey || performance.now() - this.#lastWorkAt > FENCE_PATIENCE_MS) return false;
    await sleep(this.#lookAgain(), this.#options.signal);
    return true;
  }

  /** Lets what runs come to its end, settles it and lets the lanes go. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    while (this.#runs.size > 0) {
      await this.#runsDoneWithin(PARTIAL_MS);
      await this.#settle();
    }
  }

  async #claim(): Promise<Claim> {
    const { db, now, signal } = this.#options;
    const since = performance.now();
    const beginnable = this.#subscriptions.filter(({ subscriber }) => this.#fits(subscriber.timeoutMs));
    const claimed = await claim(db, {
      subscriptions: rotated(beginnable, this.report.ticks),
      maxLanes: MAX_LANES - this.#runs.size,
      maxDeliveries: this.#maxDeliveries,
      now: instantOf(now),
    });
    const received = performance.now();
    // With the clock overridden time stands still, so that a test can meet a retry to the millisecond. The database
    // read its clock between `since` and `received`, which can be far apart where a connection was waited for.
    const clockFrom = (readAt: number) => () =>
      claimed.nowMs + (now === undefined ? performance.now() - readAt : 0);
    const clocks = { clock: clockFrom(received), leaseClock: clockFrom(since) };
    for (const lane of claimed.lanes) {
      const isOver = () => this.#isOver();
      const fits = (limitMs: number) => this.#fits(limitMs);
      const own = { fits, transactions: this.#transactions, lines: this.#lines };
      const run = new LaneRun(lane, claimed.nowMs, { db, ...clocks, isOver, signal, ...own });
      this.#runs.add(run);
      run.start();
    }
    return claimed;
  }

  async #fanOut(survey: Survey): Promise<number> {
    const openings = this.#fence.pass(survey);
    const { db, now } = this.#options;
    const { events, hasUnaddressed } = await fanOut(db, survey, openings, instantOf(now));
    this.report.fannedOut += events;
    return hasUnaddressed ? events + (await addressEvents(db)) : events;
  }

  async #settle(): Promise<void> {
    this.#lines?.write();
    const isPartialDue = performance.now() - this.#lastPartialAt > PARTIAL_MS;
    if (isPartialDue) this.#lastPartialAt = performance.now();
    const taken: { run: LaneRun; outcome: LaneOutcome }[] = [];
    for (const run of this.#runs) {
      this.report.delivered += run.takeCommitted();
      const outcome = run.takeOutcome(isPartialDue);
      if (outcome) taken.push({ run, outcome });
      else if (run.isDone) {
        this.report.leasesLost += 1;
        this.#runs.delete(run);
      }
      if (run.failure !== undefined) throw run.failure;
    }
    if (taken.length === 0) return;
    const settled = await settleSurely(
      this.#options.db,
      taken.map(({ outcome }) => outcome),
      instantOf(this.#options.now),
    );
    this.report.delivered += settled.delivered;
    this.report.failed += settled.failed;
    this.report.waited += settled.waited;
    this.report.deadLettered += settled.deadLettered;
    for (const { run, outcome } of taken) {
      if (!settled.held.has(outcome.id)) {
        if (outcome.keepUntilMs === null) this.report.leasesLost += 1;
        run.lose();
      } else run.keep(outcome.keepUntilMs);
      if (outcome.keepUntilMs === null) {
        this.#runs.delete(run);
        this.#adaptTo(run);
      }
      if (outcome.retryAtMs !== null) {
        this.report.nextRetryAt = Math.min(outcome.retryAtMs, this.report.nextRetryAt ?? Infinity);
      }
    }
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

  async #runsDoneWithin(ms: number): Promise<void> {
    const woken = new AbortController();
    const done = Promise.all(Array.from(this.#runs, (run) => run.pauses()));
    await Promise.race([done, sleep(ms, woken.signal)]);
    woken.abort();
  }
}

/** Another first one at each turn, so that with more lanes due than fit, all get theirs. */
function rotated<Item>(items: readonly Item[], turn: number): readonly Item[] {
  const start = items.length > 0 ? (turn * 7) % items.length : 0;
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

/** A broken connection leaves it unknown whether a settlement was made; making it again changes nothing if it was. */
async function settleSurely(db: Database, outcomes: readonly LaneOutcome[], now: string | null) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await settle(db, outcomes, now);
    } catch (error) {
      if (attempt === 3) throw error;
      await sleep(attempt * 200);
    }
  }
}
