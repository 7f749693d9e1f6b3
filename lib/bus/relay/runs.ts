import type { LaneOutcome, Settled } from '../deliveries/settle.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import type { Turn } from '../deliveries/turn.ts';
import type { Bell, DueLooks, OutageEnds } from './bell.ts';
import { LaneRun } from './lane-run.ts';
import { sizeOf, split } from './portion.ts';
import type { RelayReport } from './report.ts';
import type { RunOptions } from './run-state.ts';
import { noteSettled } from './settled.ts';

/** The state that all claim loops of one relay share. */
export interface Relaying extends Pick<RunOptions, 'db' | 'time' | 'lines' | 'absences'> {
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  readonly report: RelayReport;
  readonly onTurn: ((report: RelayReport) => void) | undefined;
  readonly bell: Bell;
  readonly dueLooks: DueLooks;
  readonly outageEnds: OutageEnds;
  readonly looks: {
    /** How often the bell had rung when a loop last sent a turn that looks, unless that failed. */
    heard: number;
    /** Whether such a turn left subscriptions out, whose handlers no longer have enough time. */
    leavesOut: boolean;
  };
}

/** The database's clocks, as the runs of a turn's lanes read them. */
export type Clocks = Pick<RunOptions, 'clock' | 'leaseClock'>;

/** An outcome that a run has yielded, until the database has settled it. */
export interface Yielded {
  readonly run: LaneRun;
  readonly outcome: LaneOutcome;
  /** What is to be settled after it, where the whole would be too much for a turn. */
  readonly rest: LaneOutcome | null;
  /** When the run's lease ends, by `performance.now()`: another relay may settle the lane's deliveries then. */
  readonly endsAt: number;
  /** Whether a turn failed that it was part of, and perhaps settled it all the same. */
  isRepeated: boolean;
}

/** The latest clock by which outcomes say until when lanes wait. A run goes by that of its claim. */
export function latestClockOf(yielded: readonly Yielded[]): number {
  const waiting = yielded.filter(
    ({ outcome: { keepUntilMs, unfinished, leaving } }) =>
      keepUntilMs !== null || unfinished.length > 0 || leaving.length > 0,
  );
  return Math.max(...waiting.map(({ run }) => run.state.options.clock()));
}

/** Lanes that one loop holds. Each costs a connection only while a transactional handler runs. */
const MAX_LANES = 256;

/** Deliveries of one claim, over all lanes; fewer while handlers are too slow to finish them in a slice. */
const MAX_DELIVERIES = 6000;
const MIN_DELIVERIES = 64;

/** The lanes that a claim loop holds, each with the run that delivers it. */
export class Runs {
  readonly #relaying: Relaying;
  readonly #runs = new Set<LaneRun>();
  /** What was yielded and is not settled: a run yields nothing more before that. */
  readonly #unsettled = new Map<LaneRun, Yielded>();
  /** The error that ended a run, which is a bug in the relay. Its lane is left to its lease; the others go on. */
  error: unknown;
  #maxDeliveries = MAX_DELIVERIES;
  /** Whether they start no further handlers, so that they end soon. */
  areEnding = false;

  constructor(relaying: Relaying) {
    this.#relaying = relaying;
  }

  get count(): number {
    return this.#runs.size;
  }

  /** How much the next claim may take. */
  get room(): { readonly maxLanes: number; readonly maxDeliveries: number } {
    return { maxLanes: Math.max(1, MAX_LANES - this.#runs.size), maxDeliveries: this.#maxDeliveries };
  }

  /**
   * Begins a run for each claimed lane.
   *
   * @returns whether the claim was large, so that more is probably due.
   */
  deliver({ lanes, nowMs, clocks }: Pick<Turn, 'lanes' | 'nowMs'> & { readonly clocks: Clocks }): boolean {
    if (lanes.length === 0) return false;
    // A relay whose process was suspended may claim a lane that one of its runs still delivers: the lease ran out, and
    // another relay may have held the lane meanwhile. A settlement takes one outcome of each lane.
    const claimed = new Set(lanes.map(({ id }) => id));
    for (const run of this.#runs) {
      if (!claimed.has(run.lane.id)) continue;
      run.lose();
      this.#unsettled.delete(run);
    }

    const options = this.#runOptions(clocks);
    for (const lane of lanes) {
      const run = new LaneRun(lane, nowMs, options);
      this.#runs.add(run);
      run.start();
    }
    return lanes.reduce((count, { deliveries }) => count + deliveries.length, 0) * 2 > MAX_DELIVERIES;
  }

  /**
   * Gathers the outcomes that are ready to be settled, with those that no turn has settled yet.
   *
   * @param partially whether to include those of unfinished runs.
   * @param most deliveries in them; the others wait for the next turn.
   */
  gather(partially: boolean, most: number): Yielded[] {
    this.#giveUpOverdue();
    for (const run of this.#runs) {
      if (this.#unsettled.has(run)) continue;
      if (run.error !== undefined) {
        this.error ??= run.error;
        this.#runs.delete(run);
        continue;
      }
      const endsAt = performance.now() + run.state.lease.leftMs;
      const outcome = run.yieldOutcome(partially);
      if (outcome) this.#unsettled.set(run, { run, outcome, rest: null, endsAt, isRepeated: false });
      else if (run.isLost) this.#dropLost(run);
    }
    return firstOf(this.#unsettled.values(), most);
  }

  /** Outcomes are repeated until their leases end: then other relays have the lanes. */
  #giveUpOverdue(): void {
    for (const { run, outcome, endsAt, isRepeated } of this.#unsettled.values()) {
      if (!isRepeated || performance.now() < endsAt) continue;
      this.#unsettled.delete(run);
      run.lose();
      if (outcome.keepUntilMs === null) this.#dropLost(run);
    }
  }

  /** Notes that a turn failed: it is unknown which outcomes it settled. */
  noteFailure(): void {
    for (const yielded of this.#unsettled.values()) yielded.isRepeated = true;
  }

  /** Tells the runs which of their outcomes were settled. Drops those that are done. */
  confirm(yielded: readonly Yielded[], settled: Settled | null): void {
    if (!settled) return;
    const { db, time, report, absences } = this.#relaying;
    report.delivered += settled.delivered;
    report.failed += settled.failed;
    report.waited += settled.waited;
    report.deadLettered += settled.deadLettered;
    for (const { run, outcome, rest, isRepeated } of yielded) {
      this.#unsettled.delete(run);
      const isReleased = outcome.keepUntilMs === null;
      if (settled.held.has(outcome.id)) {
        noteSettled(db, run.lane.subscription, outcome, time.handlersLeftMs());
        if (foundNobody(outcome)) absences.forget(run.lane.subscription.subscriber.name);
        run.state.hasLapsed ||= settled.lapsed.has(outcome.id);
        this.#keep(run, outcome, settled);
        if (rest) {
          const endsAt = performance.now() + run.state.lease.leftMs;
          this.#unsettled.set(run, { run, outcome: rest, rest: null, endsAt, isRepeated: false });
        }
      } else if (isReleased && isRepeated) {
        // Settled the first time, when the answer was lost.
        this.#keep(run, outcome, settled);
      } else {
        run.lose();
        if (isReleased) this.#dropLost(run);
      }
      if (isReleased) this.#adaptClaims(run.state.isCutShort);
    }
  }

  /**
   * Notes in the report when the next tries of settled outcomes are due.
   *
   * @param nextProbes of the subscribers in an outage: their lanes wait for these, whatever their deliveries are due.
   */
  noteRetries(yielded: readonly Yielded[], nextProbes?: ReadonlyMap<string, number>): void {
    for (const { run, outcome } of yielded) {
      const { retryAtMs, unfinished } = outcome;
      const { name } = run.lane.subscription.subscriber;
      const probeAt = foundNobody(outcome) ? nextProbes?.get(name) : undefined;
      this.noteNext(probeAt ?? retryAtMs);
      if (probeAt === undefined) for (const { nextAttemptAtMs } of unfinished) this.noteNext(nextAttemptAtMs);
    }
  }

  /** Notes in the report that something is due then; null: nothing is. */
  noteNext(atMs: number | null): void {
    const { report } = this.#relaying;
    if (atMs !== null) report.nextRetryAt = Math.min(atMs, report.nextRetryAt ?? Infinity);
  }

  #keep(run: LaneRun, { id, keepUntilMs }: LaneOutcome, { leftFor }: Settled): void {
    for (const successor of run.keep(keepUntilMs, (key) => leftFor.get(`${id} ${key}`)))
      this.#runs.add(successor);
    if (keepUntilMs === null) this.#runs.delete(run);
  }

  /** Whether there are runs, and each is done, or waits for a longer lease. */
  get arePaused(): boolean {
    return this.#runs.size > 0 && [...this.#runs].every(({ isPaused }) => isPaused);
  }

  /** Whether one of the runs is done, or waits for a longer lease. */
  get isAnyPaused(): boolean {
    return [...this.#runs].some(({ isPaused }) => isPaused);
  }

  /** Resolves when every run is done, or waits for a longer lease. */
  async allPause(): Promise<void> {
    await Promise.all(Array.from(this.#runs, (run) => run.pauses()));
  }

  #dropLost(run: LaneRun): void {
    this.#relaying.report.leasesLost += 1;
    this.#runs.delete(run);
  }

  /** Claims fewer deliveries while handlers are slow: the slice would have no time for the others. */
  #adaptClaims(wasCutShort: boolean): void {
    const claimable = wasCutShort ? this.#maxDeliveries / 4 : this.#maxDeliveries * 2;
    this.#maxDeliveries = Math.trunc(Math.min(MAX_DELIVERIES, Math.max(MIN_DELIVERIES, claimable)));
  }

  #runOptions(clocks: Clocks): RunOptions {
    const { db, time, report } = this.#relaying;
    return {
      ...this.#relaying,
      ...clocks,
      isOver: () => this.areEnding || time.isOver(),
      countCommitted: (subscription, delivered) => {
        report.delivered += delivered.length;
        noteSettled(db, subscription, { delivered, unfinished: [] }, time.handlersLeftMs());
      },
    };
  }
}

/** Takes the first outcomes, as many as a turn may settle; of the last of them perhaps a part. */
function firstOf(unsettled: Iterable<Yielded>, most: number): Yielded[] {
  const first: Yielded[] = [];
  let left = most;
  for (const yielded of unsettled) {
    if (left <= 0) break;
    const { run, outcome } = yielded;
    const size = sizeOf(outcome);
    if (size <= left) first.push(yielded);
    else {
      const { part, rest } = split(outcome, left, run.state.lease.untilMs);
      first.push({ ...yielded, outcome: part, rest });
    }
    left -= size;
  }
  return first;
}

/** Whether an attempt of a subscriber that may be in an outage found nobody there. */
export function foundNobody({ unfinished }: Pick<LaneOutcome, 'unfinished'>): boolean {
  return unfinished.some(({ presence }) => presence === 'absent');
}
