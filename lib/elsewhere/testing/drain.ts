import { relay } from '../../bus/relay/relay.ts';
import type { RelayReport } from '../../bus/relay/relay.ts';
import { addReports, emptyReport } from '../../bus/relay/report.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import type { Call, Recorder } from './recorder.ts';

/** The relay could not end: a handler does not end, or never lets go of an event, or a transaction is open. */
export class BusStuck extends Error {
  readonly code = 'bus_stuck';

  constructor(message: string) {
    super(message);
    this.name = 'BusStuck';
  }
}

export interface Draining {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  readonly recorder: Recorder;
  readonly now: Date;
  /** After this long without any progress, in real milliseconds, the drain fails. */
  readonly stuckAfterMs: number;
}

/** No relay takes longer than that: the drain has failed before, or the test runner has given up. */
const RELAY_MS = 3_600_000;

/** How often a drain checks for progress. */
const LOOK_MS = 50;

/** Relays until nothing is due. @returns what the relay did in all. @throws BusStuck */
export async function relayAll(draining: Draining): Promise<RelayReport> {
  requireRealTimers();
  const abort = new AbortController();
  const watch = new Watch(draining);
  // Such a handler leaves the watch's timer no time, so it is the recorder that notices.
  draining.recorder.onEndless = (call) =>
    abort.abort(
      new BusStuck(
        `${nameOf(call)} was handed over again and again: a handler that throws RetryAfter must wait at least 1 ms, so that the clock has to move.`,
      ),
    );
  try {
    const relayed = relayUntilIdle(draining, abort.signal, () => watch.onTurn());
    // Its end is of no interest where the watch has failed.
    relayed.catch(() => undefined);
    return await Promise.race([relayed, watch.stuck]);
  } catch (error) {
    abort.abort(error);
    throw error;
  } finally {
    watch.end();
  }
}

async function relayUntilIdle(
  { db, subscribers, now }: Draining,
  signal: AbortSignal,
  onTurn: () => void,
): Promise<RelayReport> {
  let total = emptyReport();
  let report: RelayReport;
  do {
    report = await relay({ db, subscribers, until: Date.now() + RELAY_MS, now, signal, onTurn });
    signal.throwIfAborted();
    total = addReports(total, report);
  } while (didAnything(report));
  return total;
}

function didAnything({ placed, delivered, failed, waited, deadLettered }: RelayReport): boolean {
  return placed + delivered + failed + waited + deadLettered > 0;
}

/** Notices that a drain makes no progress. */
class Watch {
  readonly stuck: Promise<never>;
  readonly #draining: Draining;
  readonly #timer: NodeJS.Timeout;
  #movedAt = performance.now();

  constructor(draining: Draining) {
    this.#draining = draining;
    let fail: (error: BusStuck) => void;
    this.stuck = new Promise<never>((_, reject) => (fail = reject));
    let seen: string | null = null;
    // Seen twice: after a standstill of the whole process, the timers of what was due in it come first.
    this.#timer = setInterval(() => {
      const reason = this.#reason();
      if (reason !== null && reason === seen) fail(new BusStuck(reason));
      seen = reason;
    }, LOOK_MS);
  }

  onTurn(): void {
    this.#movedAt = performance.now();
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #reason(): string | null {
    const { recorder, stuckAfterMs } = this.#draining;
    const longAgo = performance.now() - stuckAfterMs;
    const longest = recorder.calls.find(({ hasEnded, beganAt }) => !hasEnded && beganAt < longAgo);
    if (longest) return slow(longest, this.#draining);
    if (this.#movedAt >= longAgo || recorder.calls.some(({ hasEnded }) => !hasEnded)) return null;
    return `The embedded database has not answered for ${stuckAfterMs} ms. It has one connection: end the transaction that is open, then drain.`;
  }
}

function slow(call: Call, { subscribers, stuckAfterMs }: Draining): string {
  const isTransactional = subscribers.some(
    ({ name, transactional }) => name === call.subscriber && transactional,
  );
  const advice = isTransactional
    ? 'A transactional handler may use only its tx: the embedded database has one connection, and anything else waits for it forever.'
    : 'If it has to take that long, give testBus a larger stuckAfterMs.';
  return `The handler of ${nameOf(call)} has not ended after ${stuckAfterMs} ms. ${advice}`;
}

function nameOf({ subscriber, event, attempt }: Call): string {
  return `${subscriber} for ${event.topic} (event ${event.id}, attempt ${attempt})`;
}

const realSetTimeout = globalThis.setTimeout;

function requireRealTimers(): void {
  if (globalThis.setTimeout === realSetTimeout) return;
  throw new TypeError(
    `setTimeout is a fake, and the relay needs the real one. Move the bus's clock with bus.clock.advance('1m'); where a handler reads Date, fake only that, for example vi.useFakeTimers({ toFake: ['Date'] }).`,
  );
}
