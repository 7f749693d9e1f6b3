import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { hidePersonalData, personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { inSchemaOrder } from '../../bus/catalog/schema-order.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { attemptsOf, lastErrorOf } from '../dead-letters/delivery.ts';
import { haltsOf } from '../dead-letters/halts.ts';
import type { Reveal } from '../dead-letters/reveal.ts';
import { heedlessOf } from '../incidents/outage.ts';
import { maxAttemptsOf } from '../kit/handling.ts';
import { namesIn } from '../kit/operator-names.ts';
import { readFamily } from './family.ts';
import type { Family } from './family.ts';
import { findEvent } from './found.ts';
import type { FoundDelivery } from './found.ts';
import { verdictOf, written } from './sentences.ts';
import type { EventDelivery, EventView } from './view.ts';
import { whyOf } from './why.ts';
import type { Circumstances } from './why.ts';

interface EventOptions {
  /** The subscribers attached in this process: a relay here would deliver to them. */
  readonly attached: readonly AttachedSubscriber[];
  /** Shows personal data. The log has who asked for it, and why. */
  readonly reveal?: Reveal | null;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/**
 * Reads one event with its deliveries, why each of them waits, its causes and its effects.
 *
 * @returns null for an unknown event.
 */
export async function readEvent(
  db: Database,
  eventId: string,
  { attached, reveal = null, now }: EventOptions,
): Promise<EventView | null> {
  const found = await findEvent(db, eventId, now);
  if (found === null) return null;
  const family = await readFamily(db, found.event);
  const handled = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  return viewOf({ found, attached, handled, heedless: heedlessOf(attached) }, family, reveal);
}

function viewOf(circumstances: Circumstances, family: Family, reveal: Reveal | null): EventView {
  const isRevealed = reveal !== null;
  const { payload, subscribers: _, seq: __, ...event } = circumstances.found.event;
  const { topic, version, dedupeKey } = event;
  const shown = hidePersonalData(topic, payload, version);
  const texts = personalTexts(topic, payload, version);
  const generatedAt = instantOf(circumstances.found.now);
  const deliveries = deliveriesOf(circumstances, isRevealed ? null : texts);
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
    verdict: written(verdictOf(deliveries), generatedAt, namesIn(circumstances.found.names)),
    deliveries,
    ...family,
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
    halts: null,
    lastError: null,
    why: whyOf(subscriber, null, circumstances),
  }));
}

function deliveryOf(
  delivery: FoundDelivery,
  circumstances: Circumstances,
  texts: readonly string[] | null,
): EventDelivery {
  const { tries, errorGroup, place: _, halt, ...found } = delivery;
  const attempts = attemptsOf(tries, texts);
  const error = lastErrorOf(attempts);
  const isWaiting = found.state === 'pending' || found.state === 'failing';
  const why = isWaiting ? whyOf(found.subscriber, delivery, circumstances) : null;
  const nextAttemptAt = instantOrNull(tries.next_attempt_at);
  // In an outage, not before the next probe.
  const probeAt = why?.code === 'outage' ? (why.until ?? '') : '';
  const { topic } = circumstances.found.event;
  return {
    ...found,
    attempts,
    failures: tries.attempts - (found.state === 'delivered' ? 1 : 0),
    maxAttempts: maxAttemptsOf(topic, found.subscriber, circumstances.attached),
    nextAttemptAt: nextAttemptAt !== null && probeAt > nextAttemptAt ? probeAt : nextAttemptAt,
    halts: haltsOf(halt),
    lastError: error && { ...error, group: errorGroup },
    why,
  };
}
