import { catalog, isTopicName, subscribersOf } from '../../bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { attemptsOf, lastErrorOf } from '../deliveries/attempts.ts';
import { limitOf } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { namesIn } from '../kit/operator-names.ts';
import { STALLED_AFTER_MS } from '../overview/read.ts';
import type { Found, FoundAhead, FoundDelivery, FoundPlace, FoundTries } from './found.ts';
import { reasonWords, written } from './sentences.ts';
import type { Reason } from './sentences.ts';
import type { InFront, Why } from './view.ts';

/** The circumstances that all deliveries of an event share. */
export interface Circumstances {
  readonly found: Found;
  /** The subscribers of this process. */
  readonly attached: readonly AttachedSubscriber[];
  /** `topic subscriber` of each subscription that a relay here would hand over. */
  readonly handled: ReadonlySet<string>;
  /** Those of them that do not wait while their subscriber does not answer. */
  readonly heedless: ReadonlySet<string>;
}

/**
 * Says why a subscriber does not have the event yet. Several reasons may hold at once; the widest comes first, since the
 * others matter only when it is gone:
 *
 * 1. it has not happened: `timer`; nothing moves: `relay_stopped`
 * 2. the event: `producer_open`, else `not_fanned_out`
 * 3. the subscription: `not_in_catalog`, else `unattached`; then `paused`; then `outage`
 * 4. the lane: `backfill`, else `halted`, else `behind`
 * 5. the delivery: `leased`, else `newer_version`, else `backoff`, else `rate_limited`, else `due`
 *
 * A lease that has not run out proves that some relay hands the lane over, also one of another release. So under a lease
 * this release's own catalog and handlers are no reason.
 *
 * @param delivery null while the event awaits its place.
 */
export function whyOf(subscriber: string, delivery: FoundDelivery | null, circumstances: Circumstances): Why {
  const { found } = circumstances;
  const isHeld = isLeased(delivery?.place?.leasedUntil ?? null, found.now);
  const down = outageOf(subscriber, circumstances);
  const reasons = [
    notDue(found),
    stopped(found),
    delivery === null && found.timer === null ? notPlaced(found) : null,
    isHeld ? null : notHandled(subscriber, delivery, circumstances),
    paused(subscriber, found),
    down,
    delivery?.place ? inLane(delivery, delivery.place, found, down !== null) : null,
  ].filter((reason) => reason !== null);
  const now = instantOf(found.now);
  const names = namesIn(found.names);
  const inWords = (reason: Reason) => written(reasonWords(reason), now, names);
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

function stopped({ now, lastPass }: Found): Reason | null {
  if (lastPass !== null && now - lastPass <= STALLED_AFTER_MS) return null;
  return reasonOf('relay_stopped', { since: instantOrNull(lastPass) });
}

function notDue({ timer }: Found): Reason | null {
  if (timer === null) return null;
  const { dueAt, setAt, isRefused } = timer;
  return reasonOf('timer', { since: setAt, until: dueAt, reason: isRefused ? 'refused' : null });
}

function notPlaced({ event, producers }: Found): Reason {
  const [oldest] = producers;
  return oldest
    ? reasonOf('producer_open', { since: oldest.since, producers })
    : reasonOf('not_fanned_out', { since: event.createdAt });
}

function notHandled(
  subscriber: string,
  delivery: FoundDelivery | null,
  { found, handled }: Circumstances,
): Reason | null {
  const { topic } = found.event;
  const since = waitsSince(found.event, delivery?.tries ?? null, found.now);
  // A relay hands the event of a smoke test to whoever is attached.
  if (topic === SMOKE_TEST.topic) return null;
  if (!subscribersOf(topic).includes(subscriber)) return reasonOf('not_in_catalog', { since });
  return handled.has(`${topic} ${subscriber}`) ? null : reasonOf('unattached', { since });
}

function paused(subscriber: string, { pauses }: Found): Reason | null {
  const pause = pauses.find((one) => one.subscriber === subscriber);
  if (!pause) return null;
  const { subscriber: _, ...facts } = pause;
  return reasonOf('paused', facts);
}

/** Says that a subscriber does not answer, where its deliveries wait for that. */
export function outageOf(subscriber: string, { found, heedless }: Circumstances): Reason | null {
  const silent = found.outages.find((one) => one.subscriber === subscriber);
  const { topic } = found.event;
  if (!silent || topic === SMOKE_TEST.topic || heedless.has(`${topic} ${subscriber}`)) return null;
  const { subscriber: _, ...facts } = silent;
  return reasonOf('outage', { since: facts.since, until: facts.nextProbeAt, outage: facts });
}

/** @param isDown whether the subscriber does not answer. */
function inLane(
  { subscriber, tries }: FoundDelivery,
  place: FoundPlace,
  found: Found,
  isDown: boolean,
): Reason {
  const limit = found.limits.find((one) => one.subscriber === subscriber)?.reached ?? null;
  const { first, backfill } = place;
  if (backfill !== null) return reasonOf('backfill', backfill);
  if (first === null) return inItself(found.event, { ...place, tries }, limit, found.now);
  if (first.deadLetteredAt !== null)
    return reasonOf('halted', { since: first.deadLetteredAt, behind: haltInFront(place, first, found) });
  return reasonOf('behind', {
    since: waitsSince(found.event, tries, found.now),
    behind: inFrontOf(place, first, limit, found, isDown),
  });
}

function inFrontOf(
  { leasedUntil, inFront, isMoreInFront }: FoundPlace,
  first: FoundAhead,
  limit: FoundLimit | null,
  found: Found,
  isDown: boolean,
): InFront {
  const { code: ownCode, lastError } = inItself(first, { ...first, leasedUntil }, limit, found.now);
  const code = isDown && ownCode === 'backoff' ? 'outage' : ownCode;
  return {
    ...named(first, found),
    count: inFront,
    isMore: isMoreInFront,
    code,
    nextAttemptAt: code === 'backoff' ? instantOrNull(first.tries.next_attempt_at) : null,
    lastError,
  };
}

function haltInFront({ inFront, isMoreInFront }: FoundPlace, halt: FoundAhead, found: Found): InFront {
  return {
    ...named(halt, found),
    count: inFront,
    isMore: isMoreInFront,
    code: 'halted',
    nextAttemptAt: null,
    lastError: lastErrorIn(halt, halt.tries),
  };
}

function named(ahead: FoundAhead, { event }: Found) {
  const { deliveryId, eventId, topic } = ahead;
  const subject = subjectOf(topic, ahead.payload, ahead.version);
  // A sentence would seem to speak of one and the same event.
  const isSame = subject === subjectOf(event.topic, event.payload, event.version);
  return { deliveryId, eventId, topic, subject: isSame ? null : subject };
}

type ReadEvent = Pick<FoundAhead, 'topic' | 'payload' | 'version' | 'createdAt'>;

function lastErrorIn({ topic, payload, version }: ReadEvent, tries: FoundTries) {
  return lastErrorOf(attemptsOf(tries, personalTexts(topic, payload, version)));
}

interface Standing {
  readonly tries: FoundTries;
  readonly leasedUntil: number | null;
  readonly isInHand: boolean;
}

/** Says why the first delivery of a lane, or of a key, waits. */
function inItself(
  event: ReadEvent,
  { tries, leasedUntil, isInHand }: Standing,
  limit: FoundLimit | null,
  now: number,
): Reason {
  const { topic, version } = event;
  const nextAttemptAt = tries.next_attempt_at;
  // Errors from before a replay no longer hold it.
  const lastError = tries.state === 'failing' ? lastErrorIn(event, tries) : null;
  const since = waitsSince(event, tries, now);
  if (isInHand) return reasonOf('leased', { since, until: instantOrNull(leasedUntil), lastError });
  if (isTopicName(topic) && version > catalog[topic].version) {
    return reasonOf('newer_version', { since, neededVersion: version, lastError });
  }
  if (nextAttemptAt !== null && nextAttemptAt > now) {
    const attemptedAt = instantOrNull(tries.attempted_at);
    return reasonOf('backoff', { since: attemptedAt, until: instantOf(nextAttemptAt), lastError });
  }
  if (limit !== null) {
    const { limit: reason, until } = limitOf(limit, now);
    return reasonOf('rate_limited', { since, until, reason, lastError });
  }
  return reasonOf('due', { since, lastError });
}

/** A lease that has run out is none: its relay died. */
function isLeased(leasedUntil: number | null, now: number): boolean {
  return leasedUntil !== null && leasedUntil > now;
}

/** Since it was recorded, its retry was due, or an operator replayed it. */
function waitsSince(
  { createdAt }: Pick<ReadEvent, 'createdAt'>,
  tries: FoundTries | null,
  now: number,
): string {
  const dueAt = tries?.next_attempt_at ?? 0;
  return instantOf(Math.max(Date.parse(createdAt), dueAt > now ? 0 : dueAt, tries?.replayed_at ?? 0));
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
