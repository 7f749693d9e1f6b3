import { visibleName } from '../../platform/visible.ts';
import { inTerminal, link, mono, whenAndAgo } from '../kit/document.ts';
import type { Facts } from '../kit/document.ts';
import { timeText } from '../kit/instants.ts';
import { eventPath, eventsWithPath, topicPath } from '../kit/links.ts';
import type { EventView, RelatedEvent } from './view.ts';

/** What is known of an event. Its webhook, its causes and its effects are a tree in a browser, and facts in a terminal. */
export function eventFacts({ event, webhook, causes, effects, generatedAt: now }: EventView): Facts {
  const { eventId, orderingKey, dedupeKey, correlationId, causationId, traceparent } = event;
  return [
    ['Event id', mono(eventId)],
    ['Topic', link(topicPath(event.topic), event.topic)],
    ['About', inTerminal(event.subject ?? '')],
    ['Producer', mono(event.producer)],
    ['Recorded', whenAndAgo(event.createdAt, now)],
    webhook && [
      'Webhook',
      inTerminal(
        `${webhook.webhookId} of ${webhook.provider}, received ${timeText(webhook.receivedAt, now)}`,
      ),
    ],
    orderingKey !== '' && ['Ordering key', link(eventsWithPath(orderingKey), visibleName(orderingKey))],
    dedupeKey !== null && ['Dedupe key', mono(visibleName(dedupeKey))],
    correlationId !== null && ['Correlation id', link(eventsWithPath(correlationId), correlationId)],
    causationId !== null && [
      'Caused by',
      { ...link(eventPath(causationId), causationId), text: causes.map(nameOf).join(' → ') },
    ],
    ['Caused', inTerminal(effects.map(nameOf).join(', '))],
    traceparent !== null && ['Trace', mono(traceparent)],
  ];
}

function nameOf({ topic, eventId }: RelatedEvent): string {
  return topic === null ? `${eventId} (no longer kept)` : `${topic} ${eventId}`;
}
