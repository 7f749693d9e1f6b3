import { hidePersonalData, personalTexts } from '../../bus/catalog/personal-data.ts';
import { inSchemaOrder } from '../../bus/catalog/schema-order.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { attemptsOf, lastErrorOf } from '../deliveries/attempts.ts';
import { heedlessOf } from '../kit/pauses.ts';
import { maxAttemptsOf } from '../kit/handling.ts';
import { namesIn } from '../kit/document.ts';
import type { Reveal } from '../kit/payload.ts';
import { readFamily } from './family.ts';
import type { Family } from './family.ts';
import { findEvent } from './found.ts';
import type { Found, FoundDelivery } from './found.ts';
import { verdictOf, outageOf, whyOf } from './why.ts';
import type { EventDelivery, EventView } from './view.ts';
import type { Circumstances } from './why.ts';

interface EventOptions {
  /** The subscribers attached in this process: a relay here would deliver to them. */
  readonly attached: readonly AttachedSubscriber[];
  /** Shows personal data. The log has who asked for it, and why. */
  readonly reveal?: Reveal | null;
  /** Whose delivery alone is read; null or left out: all. */
  readonly subscriber?: string | null;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/**
 * Reads one event with its deliveries, why each of them waits, its causes and its effects.
 *
 * @returns null for an unknown event or delivery.
 */
export async function readEvent(
  db: Database,
  eventId: string,
  options: EventOptions,
): Promise<EventView | null> {
  const found = await findEvent(db, eventId, options.now);
  if (!found) return null;
  const view = viewOf(found, options);
  // A delivery of an event that awaits its place has no id yet.
  if (options.subscriber && !view.deliveries[0]?.deliveryId) return null;
  return { ...view, ...(await readFamily(db, eventId)) };
}

function viewOf(
  found: Found,
  { attached, reveal = null, subscriber }: EventOptions,
): Omit<EventView, keyof Family> {
  const handled = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  const circumstances = { found, attached, handled, heedless: heedlessOf(attached) };
  const isRevealed = reveal !== null;
  const { payload, subscribers: _, ...event } = found.event;
  const { topic, version, dedupeKey } = event;
  const shown = hidePersonalData(topic, payload, version);
  const texts = personalTexts(topic, payload, version);
  const generatedAt = instantOf(found.now);
  const deliveries = deliveriesOf(circumstances, isRevealed ? null : texts).filter(
    (one) => !subscriber || one.subscriber === subscriber,
  );
  return {
    generatedAt,
    event: {
      ...event,
      subject: subjectOf(topic, payload, version),
      dedupeKey: dedupeKey === null ? null : maskPersonalData(dedupeKey, texts),
      payload: isRevealed ? inSchemaOrder(topic, payload, version) : shown.payload,
      hidden: [...shown.hidden],
      isValid: shown.isValid,
      isRevealed,
      reveal,
    },
    verdict: verdictOf(deliveries, { now: generatedAt, names: namesIn(found.names) }),
    deliveries,
  };
}

/** Before it has its place there are no records, but it is known whom the event is for. */
function deliveriesOf(circumstances: Circumstances, texts: readonly string[] | null): EventDelivery[] {
  const { attached } = circumstances;
  const { deliveries, event, isAwaiting, timer } = circumstances.found;
  if (!isAwaiting && timer === null)
    return deliveries.map((found) => deliveryOf(found, circumstances, texts));
  return event.subscribers.toSorted().map((subscriber) => ({
    deliveryId: null,
    subscriber,
    state: 'pending',
    attempts: [],
    failures: 0,
    maxAttempts: maxAttemptsOf(event.topic, subscriber, attached),
    replays: 0,
    nextAttemptAt: null,
    deliveredAt: null,
    deadLetteredAt: null,
    dismissedAt: null,
    isHalting: false,
    lastError: null,
    why: whyOf(subscriber, null, circumstances),
  }));
}

function deliveryOf(
  delivery: FoundDelivery,
  circumstances: Circumstances,
  texts: readonly string[] | null,
): EventDelivery {
  const { tries: counted, errorGroup, place: _, ...found } = delivery;
  const nextAtMs = counted.next_attempt_at;
  // In an outage, not before the next probe.
  const probeAt = outageOf(found.subscriber, circumstances)?.until ?? '';
  const tries = { ...counted, next_attempt_at: nextAtMs && Math.max(nextAtMs, Date.parse(probeAt) || 0) };
  const attempts = attemptsOf(tries, texts);
  const error = lastErrorOf(attempts);
  const isWaiting = found.state === 'pending' || found.state === 'failing';
  const why = isWaiting ? whyOf(found.subscriber, delivery, circumstances) : null;
  const { topic } = circumstances.found.event;
  return {
    ...found,
    attempts,
    failures: tries.attempts - (found.state === 'delivered' ? 1 : 0),
    maxAttempts: maxAttemptsOf(topic, found.subscriber, circumstances.attached),
    nextAttemptAt: instantOrNull(tries.next_attempt_at),
    lastError: error && { ...error, group: errorGroup },
    why,
  };
}
