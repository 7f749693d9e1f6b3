import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { dismissLetterForm, mayReplay, replayLinkTo } from '../kit/actions.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { failureLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, shortId } from '../kit/words.ts';
import type { HaltedLane, TopicView } from './read.ts';

/** Draws the lanes that wait until someone replays or dismisses a dead letter. */
export function haltedLanesSection(view: TopicView, context: PageContext): Html | null {
  if (view.haltedLanes.length === 0) return null;
  return section({
    id: 'halted',
    title: 'Halted lanes',
    hint: 'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
    content: card(
      table({
        name: 'Halted lanes',
        caption: 'Lanes that a dead letter halts, the longest first',
        columns: ['Lane', ['Waiting', 'num'], 'Halted by', 'Last error', ACTIONS],
        rows: view.haltedLanes.map((lane) => laneRow(lane, view, context)),
      }),
    ),
  });
}

function laneRow(lane: HaltedLane, { topic, orderedBy, generatedAt }: TopicView, context: PageContext): Html {
  const { subscriber, orderingKey, deliveryId, eventId, subject, since, waiting, isMore } = lane;
  const key =
    orderingKey === ''
      ? 'whole topic'
      : html`${orderedBy ?? 'key'} <span class="mono">${visibleName(orderingKey)}</span>`;
  const of = `${topic.topic} to ${subscriber} ${orderingKey}`.trimEnd();
  return html`<tr class="r">
    <th class="row" scope="row">
      <b>${subscriberLink(subscriber, topic.topic)}</b><span class="s wrap">${key}</span>
    </th>
    <td class="num">${isMore && 'over '}${count(waiting)}</td>
    <td>
      <a class="mono nowrap" href="${deadLetterPath(deliveryId)}">dead letter ${deliveryId}</a>
      <span class="s"
        >${subject !== null && `${subject}, `}event
        <a class="mono" href="${eventPath(eventId)}#to-${subscriber}">${shortId(eventId)}</a></span
      >
      <span class="s">since ${timeAndAgo(since, generatedAt)}</span>
    </td>
    <td class="message">${lane.lastError && failureLabel(lane.lastError)}</td>
    <td class="end">
      ${
        mayReplay(context.operator) &&
        html`<div class="acts">
          ${replayLinkTo({ topic: topic.topic, subscriber }, of, { deliveryIds: deliveryId }, context)}
          ${dismissLetterForm(deliveryId, of, true, context)}
        </div>`
      }
    </td>
  </tr>`;
}
