import type { Database } from '../../platform/db/connect.ts';
import type { RelayReport } from './report.ts';
import { noteSettled } from './settled.ts';
import type { Subscription } from '../deliveries/subscription.ts';
import type { LaneOutcome } from '../deliveries/settle.ts';
import type { Turn } from '../deliveries/turn.ts';
import type { Bell, Calls } from './bell.ts';
import { LaneRun } from './lane-run.ts';
import type { Clocks, RunOptions } from './run-state.ts';

/** The state that all claim loops of one relay share. */
export interface Relaying extends Pick<RunOptions, 'time' | 'lines'> {
  readonly db: Database;
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  readonly report: RelayReport;
  readonly onTurn: ((report: RelayReport) => void) | undefined;
  readonly bell: Bell;
  /** What the next turns are to ask for. */
  readonly calls: Calls;
  /** The lanes that any of its loops holds. */
  readonly inHand: Set<number>;
  readonly looks: {
    /** How often the bell had rung when a loop last sent a turn that looks, unless that failed. */
    heard: number;
    /** Whether such a turn left subscriptions out, whose handlers no longer have enough time. */
    leavesOut: boolean;
  };
}

/** An outcome that a run has yielded, until the database has settled it. */
export interface Yielded {
  readonly run: LaneRun;
  readonly outcome: LaneOutcome;
  /** When the run's lease ends, by `performance.now()`: another relay may settle the lane's deliveries then. */
  readonly endsAt: number;
  /** Whether a turn failed that it was part of, and perhaps settled it all the same. */
  isRepeated: boolean;
}

/** The latest clock by which outcomes say until when lanes wait. A run goes by that of its claim. */
export function latestClockOf(yielded: readonly Yielded[]): number {
  const waiting = yielded.filter(
    ({ outcome: { keepMs, exceptional } }) => keepMs !== null || exceptional.length > 0,
  );
  return Math.max(...waiting.map(({ run }) => run.state.clocks.clock()));
}

/** Lanes that one loop holds. Each costs a connection only while a transactional handler runs. */
const MAX_LANES = 256;

/** Deliveries of one claim, over all lanes; fewer while handlers are too slow to finish them in a slice. */
const MAX_DELIVERIES = 6000;
const MIN_DELIVERIES = 64;

/** The lanes that a claim loop holds, each with the run that delivers it. */
export class Runs {
  readonly #relaying: Relaying;
  readonly #runs = new Map<number, LaneRun>();
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
   * How many of its lanes, by their ids, to keep where another loop is to have the others: half of them, but those of a stream
   * stay together, which share its events. 0 where all are of one stream.
   */
  get share(): number {
    const lanes = [...this.#runs.values()]
      .map(({ lane }) => lane)
      .toSorted((one, other) => one.lane - other.lane);
    const streams = lanes.map(({ stream }) => stream);
    const middle = streams[streams.length >> 1];
    if (middle === undefined) return 0;
    const end = streams.lastIndexOf(middle) + 1;
    return end < streams.length ? end : streams.indexOf(middle);
  }

  /** The lanes that may go on while their handlers run. */
  get continued(): Pick<LaneOutcome, 'lane' | 'token'>[] {
    return [...this.#runs.values()]
      .filter((run) => run.mayGoOn && !this.#unsettled.has(run))
      .map(({ lane: { lane, token } }) => ({ lane, token }));
  }

  /**
   * Begins a run for each claimed lane, or lets its run go on.
   *
   * @returns whether the claim was large, so that more is probably due.
   */
  deliver({ lanes, nowMs }: Pick<Turn, 'lanes' | 'nowMs'>, clocks: Clocks): boolean {
    const options = this.#runOptions();
    for (const lane of lanes) {
      const known = this.#runs.get(lane.lane);
      if (known && lane.isContinued) {
        known.goOn(lane, clocks);
        known.keep(lane.number, nowMs + lane.subscription.leaseMs);
        continue;
      }
      // A relay whose process was suspended may claim a lane that one of its runs still delivers: the lease ran out, and
      // another relay may have held the lane meanwhile.
      if (known) {
        known.lose();
        this.#forget(known);
      }
      this.#runs.set(lane.lane, new LaneRun(lane, nowMs, clocks, options));
      this.#relaying.inHand.add(lane.lane);
    }
    return lanes.reduce((count, { deliveries }) => count + deliveries.length, 0) * 2 > MAX_DELIVERIES;
  }

  /**
   * Gathers the outcomes that are ready to be settled, with those that no turn has settled yet.
   *
   * @param partially whether to include those of unfinished runs.
   */
  gather(partially: boolean): Yielded[] {
    this.#giveUpOverdue();
    for (const run of this.#runs.values()) {
      if (this.#unsettled.has(run)) continue;
      if (run.error !== undefined) {
        this.error ??= run.error;
        this.#drop(run);
        continue;
      }
      const endsAt = performance.now() + run.state.lease.leftMs;
      const outcome = run.yieldOutcome(partially);
      if (outcome) {
        run.state.beginSettling();
        this.#unsettled.set(run, { run, outcome, endsAt, isRepeated: false });
      } else if (run.isLost) this.#dropLost(run);
    }
    return [...this.#unsettled.values()];
  }

  /** Outcomes are repeated until their leases end: then other relays have the lanes. */
  #giveUpOverdue(): void {
    for (const { run, endsAt, isRepeated } of this.#unsettled.values()) {
      if (!isRepeated || performance.now() < endsAt) continue;
      this.#forget(run);
      run.lose();
      if (run.isOver) this.#dropLost(run);
    }
  }

  /** Notes that a turn failed: it is unknown which outcomes it settled, and with which lanes it was to go on. */
  noteFailure(continued: readonly { readonly lane: number }[]): void {
    for (const yielded of this.#unsettled.values()) yielded.isRepeated = true;
    const lanes = new Set(continued.map(({ lane }) => lane));
    for (const [lane, { state }] of this.#runs) state.isDoubtful ||= lanes.has(lane);
  }

  /**
   * Tells the runs which of their outcomes were settled. Drops those that are done.
   *
   * @param leaseClock by which the leases that the turn extended are measured from now on.
   */
  confirm(
    yielded: readonly Yielded[],
    { settled, nowMs }: Pick<Turn, 'settled' | 'nowMs'>,
    leaseClock: Clocks['leaseClock'],
  ): void {
    if (!settled) return;
    for (const { run, outcome } of yielded) {
      const { lane, number, keepMs, isDoubtful } = outcome;
      const settledAs = number + (isDoubtful ? 2 : 1);
      if (settled.held.has(lane) || settled.repeated.has(lane)) {
        this.#count(run, outcome);
        run.state.hasLapsed ||= settled.lapsed.has(lane);
        if (keepMs === null) this.#drop(run);
        else if (settled.held.has(lane)) {
          run.state.clocks = { ...run.state.clocks, leaseClock };
          run.keep(settledAs, nowMs + keepMs);
        }
        // Its lease in the database counts from the earlier turn, which had settled it.
        else run.keep(settledAs, null);
      } else {
        run.lose();
        if (keepMs === null) this.#dropLost(run);
      }
      if (keepMs === null) this.#adaptClaims(run.state.isCutShort);
      // Now that the run knows its number, its next transaction may begin.
      this.#forget(run);
    }
  }

  #forget(run: LaneRun): void {
    if (this.#unsettled.delete(run)) run.state.endSettling();
  }

  #count(run: LaneRun, { delivered, exceptional }: LaneOutcome): void {
    const { db, time, report } = this.#relaying;
    const attempts = exceptional.flatMap(({ attempt }) => attempt ?? []);
    const made = [...delivered, ...attempts].flatMap((one) => (one && !('outcome' in one) ? [one] : []));
    const unfinished = attempts.filter((one) => 'outcome' in one);
    noteSettled(db, run.lane.subscription, { delivered: made, unfinished }, time.handlersLeftMs());
    report.delivered += delivered.filter((one) => one !== null).length;
    for (const { kind, attempt } of exceptional) {
      if (kind === 'delivered') report.delivered += 1;
      else if (kind === 'failed') report.failed += 1;
      else if (kind === 'dead') report.deadLettered += 1;
      else if (kind === 'waited' && attempt) report.waited += 1;
      if (attempt && 'nextAttemptAtMs' in attempt) this.noteNext(attempt.nextAttemptAtMs);
    }
  }

  /** Notes in the report that something is due then; null: nothing is. */
  noteNext(atMs: number | null): void {
    const { report } = this.#relaying;
    if (atMs !== null) report.nextRetryAt = Math.min(atMs, report.nextRetryAt ?? Infinity);
  }

  /** Whether there are runs, and each waits for a settlement, or for handlers that run for long. */
  get arePaused(): boolean {
    return this.#runs.size > 0 && [...this.#runs.values()].every(({ isPaused }) => isPaused);
  }

  /** Whether one of the runs has something to settle. */
  get isAnyPaused(): boolean {
    return [...this.#runs.values()].some(({ isPaused }) => isPaused);
  }

  /** Resolves when every run has something to settle. */
  async allPause(): Promise<void> {
    await Promise.all(Array.from(this.#runs.values(), (run) => run.pauses()));
  }

  #drop(run: LaneRun): void {
    const { lane } = run.lane;
    if (this.#runs.get(lane) !== run) return;
    this.#runs.delete(lane);
    this.#relaying.inHand.delete(lane);
  }

  #dropLost(run: LaneRun): void {
    this.#relaying.report.leasesLost += 1;
    this.#drop(run);
  }

  /** Claims fewer deliveries while handlers are slow: the slice would have no time for the others. */
  #adaptClaims(wasCutShort: boolean): void {
    const claimable = wasCutShort ? this.#maxDeliveries / 4 : this.#maxDeliveries * 2;
    this.#maxDeliveries = Math.trunc(Math.min(MAX_DELIVERIES, Math.max(MIN_DELIVERIES, claimable)));
  }

  #runOptions(): RunOptions {
    const { db, time, lines, report, calls } = this.#relaying;
    return {
      db,
      time,
      lines,
      isOver: () => this.areEnding || time.isOver(),
      owe: (topics) => calls.owe(topics),
      countCommitted: (subscription, delivered) => {
        report.delivered += delivered.length;
        noteSettled(db, subscription, { delivered, unfinished: [] }, time.handlersLeftMs());
      },
    };
  }
}
