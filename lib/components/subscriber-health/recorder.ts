import { waitUntil } from '@vercel/functions';

import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { onSettled } from '../../bus/relay/settled.ts';
import { beforeClose } from '../../platform/db/connect.ts';
import type { Database } from '../../platform/db/connect.ts';
import { logError } from '../../platform/log.ts';
import { SECOND } from '../../platform/time.ts';
import { addHealth } from './add-health.ts';
import { addDelivered, addTally, addUndelivered, emptyTally } from './tally.ts';
import type { Delivered, Tally, Undelivered } from './tally.ts';

/** The attempts of one subscription that the database has recorded. */
export interface Recorded {
  readonly topic: string;
  readonly subscriber: string;
  readonly delivered: readonly Delivered[];
  readonly unfinished: readonly Undelivered[];
}

/** How long attempts are gathered before they are written. */
const GATHER_MS = 3 * SECOND;

/** One recorder for each database: the relays of a process write together. */
const recorders = new WeakMap<Database, HealthRecorder>();

/**
 * Gathers the times of attempts by subscriber.
 *
 * They are kept in memory and written in one statement a few seconds later, so that no delivery waits for it. They are
 * approximate: a process that is killed loses those it has not written, and a connection lost at the commit counts some
 * twice. Exact counts are in `lane_totals`.
 */
export class HealthRecorder {
  readonly #db: Database;
  #gathered = new Map<string, Tally>();
  #isWriteDue = false;
  #written = Promise.resolve();

  private constructor(db: Database) {
    this.#db = db;
    onSettled(db, (attempts, leftMs) => this.count(attempts, leftMs));
    beforeClose(db, async () => await this.write());
  }

  /** Gives the recorder of a database. From the first call on it counts what the relays of this process settle there. */
  static of(db: Database): HealthRecorder {
    const recorder = recorders.get(db) ?? new HealthRecorder(db);
    recorders.set(db, recorder);
    return recorder;
  }

  /**
   * Counts attempts; returns at once and never throws.
   *
   * @param leftMs how long the process may still work: they are written by then. At most a few seconds matter.
   */
  count({ topic, subscriber, delivered, unfinished }: Recorded, leftMs: number): void {
    if (topic === SMOKE_TEST.topic || delivered.length + unfinished.length === 0) return;
    const tally = this.#tallyOf(subscriber);
    for (const attempt of delivered) addDelivered(tally, attempt);
    for (const attempt of unfinished) addUndelivered(tally, attempt);
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    waitUntil(this.#writeAfter(Math.max(0, Math.min(GATHER_MS, leftMs))));
  }

  /**
   * Writes what was gathered, after a write that is under way. If that fails, it stays for the write after the next attempt.
   * Never rejects.
   */
  async write(): Promise<void> {
    this.#written = this.#written.then(async () => await this.#writeGathered());
    await this.#written;
  }

  async #writeGathered(): Promise<void> {
    const tallies = [...this.#gathered.values()];
    this.#gathered = new Map();
    if (tallies.length === 0) return;
    try {
      await addHealth(this.#db, tallies);
    } catch (error) {
      for (const tally of tallies) addTally(this.#tallyOf(tally.subscriber), tally);
      logError('the health of subscribers was not written', error);
    }
  }

  async #writeAfter(ms: number): Promise<void> {
    // Lets a process with nothing else to do end.
    await new Promise<void>((resolve) => setTimeout(resolve, ms).unref());
    this.#isWriteDue = false;
    await this.write();
  }

  #tallyOf(subscriber: string): Tally {
    const tally = this.#gathered.get(subscriber) ?? emptyTally(subscriber);
    this.#gathered.set(subscriber, tally);
    return tally;
  }
}
