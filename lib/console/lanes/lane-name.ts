import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import type { HeldLane } from '../held-lanes/held-lane.ts';
import type { TopicView } from './read.ts';

/** Names a lane on its topic's page: its subscriber, and below it its ordering key. */
export function laneName(
  { subscriber, orderingKey }: Pick<HeldLane, 'subscriber' | 'orderingKey'>,
  { topic, orderedBy }: TopicView,
): Html {
  const key =
    orderingKey === ''
      ? 'whole topic'
      : html`${orderedBy ?? 'key'} <span class="mono">${visibleName(orderingKey)}</span>`;
  return html`<b>${subscriberLink(subscriber, topic.topic)}</b><span class="s wrap">${key}</span>`;
}
