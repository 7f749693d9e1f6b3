import { violations } from '../chaos/checker.ts';
import type { DeliveryVersion, End, History, LaneVersion, LogEntry, Start } from '../chaos/history.ts';

const CATALOG = { 'payment.captured': { subscribers: ['ledger'], version: 1 } };

const LIMITS = { timeoutMs: 200, maxAttempts: 2 };

/** The events' ids. */
export const A = '01900000-0000-7000-8000-00000000000a';
export const B = '01900000-0000-7000-8000-00000000000b';

/** An ordering key. */
export const KEY = 'a key';

/**
 * A small history, written by hand to see what the checker makes of it: two events of a topic with one subscriber
 * (`ledger`), at positions 1 and 2 of lane 1. Times are milliseconds.
 */
export class Story {
  readonly #log: LogEntry[] = [];
  readonly #lanes: LaneVersion[] = [];
  readonly #deliveries: DeliveryVersion[] = [];
  #starts = 0;
  #history: Partial<History> = {};
  #isTransactional = false;
  #isBatch = false;

  /** Sets the final state; by default both events are committed and delivered. */
  ends(history: Partial<History>): this {
    this.#history = { ...this.#history, ...history };
    return this;
  }

  /** Makes the subscriber's handler a transactional one. */
  withTransactions(): this {
    this.#isTransactional = true;
    return this;
  }

  /** Makes the subscriber's handler one of batches, which is called with one event after the other. */
  inBatches(): this {
    this.#isBatch = true;
    return this;
  }

  /** Somebody writes to the journal of lane 1; what is not given stays as it is. */
  lane(at: number, by: string, version: Partial<LaneVersion>): this {
    const before = this.#lanes.at(-1) ?? {
      id: '1',
      topic: 'payment.captured',
      subscriber: 'ledger',
      head: 0,
      carefulTo: null,
      dueAt: 0,
      token: null,
    };
    this.#lanes.push({ ...before, ...version, at, by });
    return this;
  }

  /** Somebody writes a delivery; what is not given stays as it is. */
  delivery(at: number, by: string, position: number, version: Partial<DeliveryVersion> = {}): this {
    const before = this.#deliveries.findLast((delivery) => delivery.position === position) ?? {
      transaction: '',
      laneId: '1',
      laneKey: null,
      position,
      eventId: position === 1 ? A : B,
      state: 'pending',
      attempts: 0,
      replays: 0,
      attemptedAt: null,
      dismissedAt: null,
      backfilled: false,
      durationMs: null,
      nextAttemptAt: null,
      log: [],
    };
    this.#deliveries.push({ ...before, ...version, at, by, transaction: String(at) });
    return this;
  }

  /** A handler is called, and ends unless `end` is null. */
  call(
    t: number,
    relay: string,
    position: number,
    end: (Pick<End, 'end' | 't'> & Partial<Pick<End, 'ms'>>) | null,
    start: Partial<Start> = {},
  ): this {
    this.#starts += 1;
    const n = this.#starts;
    const tag = `event ${position}`;
    const eventId = position === 1 ? A : B;
    this.#log.push({
      k: 'start',
      n,
      relay,
      t,
      real: t,
      tag,
      eventId,
      subscriber: 'ledger',
      release: 'present',
      version: 1,
      attempt: 1,
      replayed: false,
      plan: 'returns at once',
      ...start,
    });
    if (end) this.#log.push({ k: 'end', n, relay, real: end.t, ...end });
    return this;
  }

  fault(t: number, fault: string, relay = '', ms?: number): this {
    this.#log.push({ k: 'fault', t, real: t, relay, fault, ...(ms === undefined ? {} : { ms }) });
    return this;
  }

  error(t: number, relay: string, code: string): this {
    this.#log.push({ k: 'error', t, real: t, relay, code, message: '' });
    return this;
  }

  get history(): History {
    const event = { topic: 'payment.captured', state: 'delivered', dueAt: null } as const;
    return {
      subscribers: [
        { name: 'ledger', transactional: this.#isTransactional, batch: this.#isBatch, ...LIMITS },
      ],
      releases: { present: CATALOG, next: CATALOG },
      emits: [
        { release: 'present', id: A, tag: 'event 1', fate: 'committed' },
        { release: 'present', id: B, tag: 'event 2', fate: 'committed' },
      ],
      cancels: [],
      log: this.#log,
      events: [
        { ...event, id: A, createdAt: '2031-05-04T10:00:00.000001Z', seq: 1 },
        { ...event, id: B, createdAt: '2031-05-04T10:00:00.000002Z', seq: 2 },
      ],
      markers: 0,
      lanes: this.#lanes,
      deliveries: this.#deliveries,
      timers: [],
      outages: [],
      backfills: [],
      effects: [],
      contradictions: [],
      ...this.#history,
    };
  }

  /** The violations that the checker finds. */
  get broken(): string[] {
    return violations(this.history).map(({ rule, what }) => `${rule}: ${what}`);
  }
}
