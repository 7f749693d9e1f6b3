import { personalTexts } from '../catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { isTraced, observeAttempt } from '../../platform/telemetry/delivery.ts';
import type { AttemptEnd, ObservedAttempt } from '../../platform/telemetry/delivery.ts';
import type { ClaimedDelivery } from '../deliveries/claim.ts';
import { deliveryIdOf } from '../deliveries/delivery-id.ts';
import { errorGroupOf } from '../deliveries/error-group.ts';
import type { ErrorGroup } from '../deliveries/error-group.ts';
import type { DeliveredAttempt } from '../deliveries/settle.ts';
import { waitAfter } from '../subscribers/backoff.ts';
import type { DeliveryContext } from '../subscribers/subscriber.ts';
import { CommitUnknown, EVENT_MISSING, LEASE_EXPIRED, failureOf } from './failure.ts';
import type { AttemptFailure } from './failure.ts';
import { PROBE_WAIT_MS, presenceOf } from './presence.ts';
import type { RunState } from './run-state.ts';

/** Gives null where nothing is logged or traced, because there are tens of thousands of attempts a second. */
function observe({ lane, options }: RunState, delivery: ClaimedDelivery): ObservedAttempt | null {
  const { lines } = options;
  const { attempts, event } = delivery;
  if (!lines && !isTraced(event)) return null;
  const { topic, subscriber } = lane.subscription;
  const named = {
    topic,
    subscriber: subscriber.name,
    eventId: event.id,
    deliveryId: deliveryIdOf(lane, delivery),
    attempt: attempts + 1,
    traceparent: event.traceparent,
  };
  return observeAttempt(named, lines);
}

/** One attempt of a delivery, from its begin until its outcome is recorded. */
export class Attempt {
  readonly delivery: ClaimedDelivery;
  /** When it began, by the database's clock, in epoch milliseconds. */
  readonly atMs: number;
  /** How long its handler took; set once a transactional handler has ended. */
  durationMs = 0;
  /** Where its outcome is recorded: elsewhere once its key has left the lane. */
  #state: RunState;
  #place: number;
  readonly #observed: ObservedAttempt | null;

  /** @param place of the delivery among the claimed ones. */
  constructor(state: RunState, place: number, atMs = state.options.clock()) {
    this.delivery = state.progress.claimed[place]!;
    this.atMs = atMs;
    this.#state = state;
    this.#place = place;
    this.#observed = observe(state, this.delivery);
  }

  get place(): number {
    return this.#place;
  }

  get elapsedMs(): number {
    return this.#state.options.clock() - this.atMs;
  }

  /** Moves the attempt to another lane, whose only claimed delivery it is; the outcome is recorded there. */
  moveTo(state: RunState): void {
    this.#state = state;
    this.#place = 0;
  }

  /** The context of a handler that takes one event. */
  contextWith(limit: { readonly signal: AbortSignal }): DeliveryContext {
    const { delivery, atMs } = this;
    return {
      deliveryId: deliveryIdOf(this.#state.lane, delivery),
      attempt: delivery.attempts + 1,
      attemptedAt: new Date(atMs),
      replayed: delivery.replays > 0,
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
    this.#state.noteAnswer();
    this.#state.progress.deliver(this.#place, this.delivered(durationMs));
    this.end('delivered', durationMs);
  }

  /** The attempt as one that delivered. */
  delivered(durationMs = this.durationMs): DeliveredAttempt {
    const { position, replays, backfilled, event } = this.delivery;
    const recordedAtMs = backfilled ? null : event.createdAt.getTime();
    return { position, atMs: this.atMs, durationMs, replays, recordedAtMs };
  }

  /** Records the error that a handler threw or its commit met, and when the next attempt is due, if there is one. */
  fail(error: unknown): void {
    const isDoubtful = error instanceof CommitUnknown;
    this.#record(failureOf(isDoubtful ? error.cause : error), this.elapsedMs, isDoubtful);
  }

  /** Records a failure that no handler has told: of a relay that died, or an event that is missing. */
  failBy(failure: AttemptFailure): void {
    this.#record(failure, 0, false);
  }

  /** Ends the attempt without an outcome: it does not count. */
  drop(): void {
    this.#observed?.end(null);
  }

  /** Writes the outcome to the log and the trace. */
  end(outcome: AttemptEnd['outcome'], durationMs = this.elapsedMs, kind: string | null = null): void {
    this.#observed?.end({ outcome, durationMs, kind });
  }

  #record(failure: AttemptFailure, durationMs: number, isDoubtful: boolean): void {
    const { delivery, atMs } = this;
    const { lane, options } = this.#state;
    const { kind, message } = failure;
    const { name, afterDeadLetter, maxAttempts, outage } = lane.subscription.subscriber;
    const presence = outage === 'wait' ? presenceOf(failure) : null;
    // Nobody was there: that is not the event's fault.
    const waitMs = lane.isProbe && presence === 'absent' ? PROBE_WAIT_MS : failure.waitMs;
    const keptAtMs = waitMs === null ? delivery.keptAttemptAtMs : null;
    const outcome = waitMs === null && keptAtMs === null ? 'failed' : 'waited';
    if (presence === 'absent') options.absences.note(name, kind);
    else if (presence === 'present') this.#state.noteAnswer();
    // A subscriber may ask to wait every second for a day, and each wait is logged: one answer says why.
    const isSaid = outcome === 'failed' || keptAtMs !== null || delivery.nextAttemptAtMs === null;
    const answer = isSaid ? failure.answer : null;
    const backoffMs = failure.isPermanent ? null : waitAfter(delivery.attempts + 1, maxAttempts);
    const delayMs = waitMs ?? backoffMs;
    // A relay that died stopped trying when its lease ran out.
    const endedAtMs = failure === LEASE_EXPIRED ? atMs : options.clock();
    const nextAttemptAtMs = keptAtMs ?? (delayMs === null ? null : endedAtMs + delayMs);
    const errorGroup = outcome === 'failed' ? this.#errorGroup(failure) : null;
    this.#state.progress.fail(
      this.#place,
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
        answer,
        errorGroup,
        // Nothing depends on an event that does not exist.
        halts: nextAttemptAtMs === null && afterDeadLetter === 'halt' && failure !== EVENT_MISSING,
        presence,
        isProbe: lane.isProbe,
      },
      isDoubtful,
    );
    this.end(nextAttemptAtMs === null ? 'dead_lettered' : outcome, durationMs, kind);
  }

  /** Every operator sees the groups, so they must contain nothing of the payload. */
  #errorGroup({ kind, message }: AttemptFailure): ErrorGroup {
    const { topic, subscriber } = this.#state.lane.subscription;
    const { event } = this.delivery;
    const known = personalTexts(topic, event.payload, event.version);
    // A kind is a code or a class, but a handler may throw anything under any name.
    const mask = (text: string) => maskPersonalData(text, known);
    return errorGroupOf(topic, subscriber.name, mask(kind), mask(message));
  }
}
