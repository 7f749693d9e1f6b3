import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import { personalTexts } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../platform/masking/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { attemptsOf, lastErrorOf } from '../dead-letters/delivery.ts';
import type { FoundAttempts } from '../dead-letters/delivery.ts';
import { preparedOf } from '../kit/prepared.ts';
import { STALLED_AFTER_MS } from '../overview/read.ts';
import type { Found, FoundDelivery, FoundFirst, FoundLane } from './found.ts';
import { reasonWords, written } from './sentences.ts';
import type { Reason } from './sentences.ts';
import type { InFront, OpenProducer, Why } from './view.ts';

/** The circumstances that all deliveries of an event share. */
export interface Circumstances {
  readonly found: Found;
  /** `topic subscriber` of each subscription that a relay here would hand over. */
  readonly handled: ReadonlySet<string>;
  /** Those of them that do not wait while their subscriber does not answer. */
  readonly heedless: ReadonlySet<string>;
}

/**
 * Says why a subscriber does not have the event yet. Several reasons may hold at once; the widest comes first, since the
 * others matter only when it is gone:
 *
 * 1. nothing moves: `relay_stopped`
 * 2. the event: `producer_open`, else `not_fanned_out`
 * 3. the subscription: `not_in_catalog`, else `unattached`; then `paused`; then `outage`
 * 4. the lane: `backfill`, else `halted`, else `behind`
 * 5. the delivery: `leased`, else `newer_version`, else `backoff`, else `due`
 *
 * A lease that has not run out proves that some relay hands the lane over, also one of another release. So under a lease
 * this release's own catalog and handlers are no reason.
 *
 * @param delivery null before fan-out.
 */
export function whyOf(subscriber: string, delivery: FoundDelivery | null, circumstances: Circumstances): Why {
  const { found } = circumstances;
  const isHeld = isLeased(delivery?.lane ?? null, found.now);
  const down = outage(subscriber, circumstances);
  const reasons = [
    stopped(found),
    delivery === null ? notFannedOut(found) : null,
    isHeld ? null : notHandled(subscriber, delivery, circumstances),
    paused(subscriber, found),
    down,
    delivery === null ? null : inLane(delivery, found, down !== null),
  ].filter((reason) => reason !== null);
  const now = instantOf(found.now);
  const inWords = (reason: Reason) => written(reasonWords(reason), now);
  const [first, ...others] = reasons;
  return {
    ...first!,
    text: inWords(first!),
    // What is merely due follows by itself, and so does a retry once the subscriber answers again.
    also: others
      .filter(({ code }) => code !== 'due' && !(code === 'backoff' && down !== null))
      .map((reason) => ({ code: reason.code, text: inWords(reason) })),
  };
}

function stopped({ now, last_pass: lastPass }: Found): Reason | null {
  if (lastPass !== null && now - lastPass <= STALLED_AFTER_MS) return null;
  return reasonOf('relay_stopped', { since: instantOrNull(lastPass) });
}

function notFannedOut({ event, producers }: Found): Reason {
  const open = producers.map((producer): OpenProducer => ({
    pid: producer.pid,
    applicationName: producer.application_name || null,
    clientAddress: producer.client_address,
    state: producer.state,
    since: instantOrNull(producer.since),
    prepared: preparedOf(producer),
  }));
  return open.length > 0
    ? reasonOf('producer_open', { since: open[0]!.since, producers: open })
    : reasonOf('not_fanned_out', { since: instantOf(event.created_at) });
}

function notHandled(
  subscriber: string,
  delivery: FoundDelivery | null,
  { found, handled }: Circumstances,
): Reason | null {
  const { topic } = found.event;
  const since = waitsSince(found.event, delivery, found.now);
  const listed: readonly string[] = isTopicName(topic) ? catalog[topic].subscribers : [];
  if (!listed.includes(subscriber)) return reasonOf('not_in_catalog', { since });
  return handled.has(`${topic} ${subscriber}`) ? null : reasonOf('unattached', { since });
}

function paused(subscriber: string, { pauses }: Found): Reason | null {
  const pause = pauses.find((one) => one.subscriber === subscriber);
  if (!pause) return null;
  const { by, reason, topic } = pause;
  return reasonOf('paused', { since: instantOf(pause.at), by, reason, pausedTopic: topic || null });
}

function outage(subscriber: string, { found, heedless }: Circumstances): Reason | null {
  const silent = found.outages.find((one) => one.subscriber === subscriber);
  if (!silent || heedless.has(`${found.event.topic} ${subscriber}`)) return null;
  const { subscriber: _, ...facts } = silent;
  return reasonOf('outage', { since: facts.since, until: facts.nextProbeAt, outage: facts });
}

/** @param isDown whether the subscriber does not answer. */
function inLane(delivery: FoundDelivery, found: Found, isDown: boolean): Reason {
  const { first, lane, halt, backfill } = delivery;
  if (backfill !== null) {
    return reasonOf('backfill', { since: instantOf(backfill.at), by: backfill.by, reason: backfill.reason });
  }
  if (halt !== null) {
    const behind = haltInFront(delivery, halt, found);
    return reasonOf('halted', { since: instantOf(halt.halted_at), behind });
  }
  if (first === null) return inItself(found.event, delivery, lane, found.now);
  return reasonOf('behind', {
    since: waitsSince(found.event, delivery, found.now),
    behind: inFrontOf(delivery, first, found, isDown),
  });
}

function inFrontOf(delivery: FoundDelivery, first: FoundFirst, found: Found, isDown: boolean): InFront {
  const { code: ownCode, lastError } = inItself(first, first, delivery.lane, found.now);
  const code = isDown && ownCode === 'backoff' ? 'outage' : ownCode;
  return {
    ...named(first, found),
    count: delivery.in_front,
    isMore: delivery.is_more_in_front,
    code,
    nextAttemptAt: code === 'backoff' ? instantOrNull(first.next_attempt_at) : null,
    lastError,
  };
}

function haltInFront(delivery: FoundDelivery, halt: FoundFirst, found: Found): InFront {
  const lastError = lastErrorOf(attemptsOf(halt, personalTexts(halt.topic, halt.payload, halt.version)));
  return {
    ...named(halt, found),
    count: delivery.in_front + 1,
    isMore: delivery.is_more_in_front,
    code: 'halted',
    nextAttemptAt: null,
    lastError,
  };
}

function named(first: FoundFirst, { event }: Found) {
  const subject = subjectOf(first.topic, first.payload, first.version);
  return {
    deliveryId: first.delivery_id,
    eventId: first.event_id,
    topic: first.topic,
    // A sentence would seem to speak of one and the same event.
    subject: subject === subjectOf(event.topic, event.payload, event.version) ? null : subject,
  };
}

interface ReadEvent {
  readonly topic: string;
  readonly payload: unknown;
  readonly version: number;
  readonly created_at: number;
}

/** Says why the first delivery of a lane waits. */
function inItself(
  event: ReadEvent,
  delivery: FoundAttempts & { readonly replayed_at: number | null },
  lane: FoundLane | null,
  now: number,
): Reason {
  const { topic, payload, version } = event;
  const nextAttemptAt = delivery.next_attempt_at;
  // Errors from before a replay no longer hold it.
  const isFailing = delivery.state === 'failing';
  const lastError = isFailing
    ? lastErrorOf(attemptsOf(delivery, personalTexts(topic, payload, version)))
    : null;
  const since = waitsSince(event, delivery, now);
  if (isLeased(lane, now)) {
    return reasonOf('leased', { since, until: instantOrNull(lane?.next_look_at ?? null), lastError });
  }
  if (isTopicName(topic) && version > catalog[topic].version) {
    return reasonOf('newer_version', { since, neededVersion: version, lastError });
  }
  if (nextAttemptAt !== null && nextAttemptAt > now) {
    const attemptedAt = instantOrNull(delivery.attempted_at);
    return reasonOf('backoff', { since: attemptedAt, until: instantOf(nextAttemptAt), lastError });
  }
  return reasonOf('due', { since, lastError });
}

/** A lease that has run out is none: its relay died. */
function isLeased(lane: FoundLane | null, now: number): boolean {
  return lane !== null && lane.is_leased && lane.next_look_at !== null && lane.next_look_at > now;
}

/** Since it was recorded, its retry was due, or an operator replayed it. */
function waitsSince(
  { created_at: createdAt }: Pick<ReadEvent, 'created_at'>,
  delivery: Pick<FoundDelivery, 'next_attempt_at' | 'replayed_at'> | null,
  now: number,
): string {
  const dueAt = delivery?.next_attempt_at ?? 0;
  return instantOf(Math.max(createdAt, dueAt > now ? 0 : dueAt, delivery?.replayed_at ?? 0));
}

function reasonOf(code: Reason['code'], facts: Partial<Reason>): Reason {
  return { ...NONE, ...facts, code };
}

const NONE = {
  since: null,
  until: null,
  by: null,
  reason: null,
  pausedTopic: null,
  behind: null,
  outage: null,
  producers: [],
  neededVersion: null,
  lastError: null,
};
