import { personalTexts } from '../catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { isTraced, observeAttempt } from '../../platform/telemetry/delivery.ts';
import type { AttemptEnd, ObservedAttempt } from '../../platform/telemetry/delivery.ts';
import { deliveryIdOf } from '../deliveries/delivery-id.ts';
import { errorGroupOf } from '../deliveries/error-group.ts';
import type { ErrorGroup } from '../deliveries/error-group.ts';
import { ABSENT_KINDS } from '../deliveries/outage.ts';
import { CommitUnknown, EVENT_MISSING, LEASE_EXPIRED, failureOf } from './failure.ts';
import type { AttemptFailure } from './failure.ts';
import { waitAfter } from '../subscribers/backoff.ts';
import type { BusEvent, DeliveryContext } from '../subscribers/subscriber.ts';
import type { DeliveredAttempt } from '../deliveries/settle.ts';
import type { InHand } from './progress.ts';
import type { RunState } from './run-state.ts';

/** Gives null where nothing is logged or traced, because there are tens of thousands of attempts a second. */
function observe({ lane, options }: RunState, { delivery }: InHand): ObservedAttempt | null {
  const { lines } = options;
  const { attempts, event } = delivery;
  if (!event || (!lines && !isTraced(event))) return null;
  const { topic, subscriber } = lane.subscription;
  const named = {
    topic,
    subscriber: subscriber.name,
    eventId: event.id,
    deliveryId: deliveryIdOf(event.id, subscriber.name),
    attempt: attempts + 1,
    traceparent: event.traceparent,
  };
  return observeAttempt(named, lines);
}

/** One attempt of a delivery, from its begin until its outcome is recorded. */
export class Attempt {
  readonly one: InHand;
  /** When it began, by the database's clock, in epoch milliseconds. */
  readonly atMs: number;
  /** How long its handler took; set once a transactional handler has ended. */
  durationMs = 0;
  readonly #state: RunState;
  readonly #observed: ObservedAttempt | null;

  constructor(state: RunState, one: InHand, atMs = state.clocks.clock()) {
    this.one = one;
    this.atMs = atMs;
    this.#state = state;
    this.#observed = observe(state, one);
  }

  /** The event that is handed over; a delivery without one fails before. */
  get event(): BusEvent {
    return this.one.delivery.event!;
  }

  get elapsedMs(): number {
    return this.#state.clocks.clock() - this.atMs;
  }

  get deliveryId(): string {
    return deliveryIdOf(this.event.id, this.#state.lane.subscription.subscriber.name);
  }

  /** The context of a handler that takes one event. */
  contextWith(limit: { readonly signal: AbortSignal }): DeliveryContext {
    const { one, atMs } = this;
    return {
      deliveryId: this.deliveryId,
      attempt: one.delivery.attempts + 1,
      attemptedAt: new Date(atMs),
      replayed: one.delivery.replays > 0,
      get signal() {
        return limit.signal;
      },
    };
  }

  /** Calls a handler as part of this attempt's trace. */
  within<Result>(call: () => Result): Result {
    return this.#observed ? this.#observed.within(call) : call();
  }

  /** Records a delivery, for the loop to settle. */
  deliver(durationMs = this.elapsedMs): void {
    this.#state.progress.deliver(this.one, this.delivered(durationMs));
    this.end('delivered', durationMs);
  }

  /** The attempt as one that delivered. */
  delivered(durationMs = this.durationMs): DeliveredAttempt {
    const { position, replays, backfilled, event } = this.one.delivery;
    const recordedAtMs = backfilled ? null : event!.createdAt.getTime();
    return { position, atMs: this.atMs, durationMs, replays, recordedAtMs };
  }

  /** Records the error that a handler threw or its commit met, and when the next attempt is due, if there is one. */
  fail(error: unknown): void {
    const isDoubtful = error instanceof CommitUnknown;
    this.#record(failureOf(isDoubtful ? error.cause : error), this.elapsedMs);
  }

  /** Records a failure that no handler has told: of a relay that died, or an event that is missing. */
  failBy(failure: AttemptFailure): void {
    this.#record(failure, 0);
  }

  /** Ends the attempt without an outcome: it does not count. */
  drop(): void {
    this.#state.progress.leave(this.one);
    this.forget();
  }

  /** Leaves no line and no span of it, because it is begun again. */
  forget(): void {
    this.#observed?.end(null);
  }

  /** Writes the outcome to the log and the trace. */
  end(outcome: AttemptEnd['outcome'], durationMs = this.elapsedMs, kind: string | null = null): void {
    this.#observed?.end({ outcome, durationMs, kind });
  }

  #record(failure: AttemptFailure, durationMs: number): void {
    const { one, atMs } = this;
    const { delivery } = one;
    const { lane, clocks, progress } = this.#state;
    const { kind, message } = failure;
    const { afterDeadLetter, maxAttempts, outage, transactional } = lane.subscription.subscriber;
    const keptAtMs = failure.waitMs === null ? delivery.keptAttemptAtMs : null;
    const outcome = failure.waitMs === null && keptAtMs === null ? 'failed' : 'waited';
    // A subscriber may ask to wait every second for a day, and each wait is logged: one answer says why.
    const isSaid = outcome === 'failed' || keptAtMs !== null || delivery.nextAttemptAtMs === null;
    const backoffMs = failure.isPermanent ? null : waitAfter(delivery.attempts + 1, maxAttempts);
    const delayMs = failure.waitMs ?? backoffMs;
    // A relay that died stopped trying when its lease ran out.
    const endedAtMs = failure === LEASE_EXPIRED ? atMs : clocks.clock();
    const nextAttemptAtMs = keptAtMs ?? (delayMs === null ? null : endedAtMs + delayMs);
    const errorGroup = outcome === 'failed' ? this.#errorGroup(failure) : null;
    progress.fail(
      one,
      {
        position: delivery.position,
        atMs,
        durationMs,
        replays: delivery.replays,
        isLapse: failure === LEASE_EXPIRED,
        outcome,
        nextAttemptAtMs,
        kind,
        message,
        answer: isSaid ? failure.answer : null,
        errorGroup,
        // Nothing depends on an event that does not exist.
        halts: nextAttemptAtMs === null && afterDeadLetter === 'halt' && failure !== EVENT_MISSING,
        isAbsent: outage === 'wait' && outcome === 'failed' ? isAbsence(failure) : null,
      },
      // The key's next transaction would commit before the dead letter is recorded.
      transactional,
    );
    this.end(nextAttemptAtMs === null ? 'dead_lettered' : outcome, durationMs, kind);
  }

  /** Every operator sees the groups, so they must contain nothing of the payload. */
  #errorGroup({ kind, message }: AttemptFailure): ErrorGroup {
    const { topic, subscriber } = this.#state.lane.subscription;
    const { event } = this.one.delivery;
    const known = event ? personalTexts(topic, event.payload, event.version) : [];
    // A kind is a code or a class, but a handler may throw anything under any name.
    const mask = (text: string) => maskPersonalData(text, known);
    return errorGroupOf(topic, subscriber.name, mask(kind), mask(message));
  }
}

/** Whether nobody was there. @returns null where the error does not tell: the relay died. */
function isAbsence(failure: AttemptFailure): boolean | null {
  if (failure === LEASE_EXPIRED || failure === EVENT_MISSING) return null;
  return ABSENT_KINDS.includes(failure.kind);
}
