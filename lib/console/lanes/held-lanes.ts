import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { mayReplay, retryForm, skipForm } from '../kit/actions.ts';
import { until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath } from '../kit/links.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { failureLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, quantity, shortId } from '../kit/words.ts';
import type { HeldLane, TopicView } from './read.ts';

/** Draws the lanes whose first delivery waits for a retry, with the number of deliveries that wait behind it. */
export function heldLanesSection(view: TopicView, context: PageContext): Html | null {
  const { heldLanes, topic } = view;
  if (heldLanes.length === 0 && topic.failing === 0) return null;
  return section({
    id: 'held',
    title: 'Held lanes',
    hint: 'A lane is a subscriber’s deliveries in order. While its first delivery fails, the others wait behind it.',
    content: card(
      heldLanes.length === 0
        ? emptyLine(
            topic.subscribers.some(({ paused, failing }) => paused && failing > 0)
              ? 'The failing deliveries are retried when their subscriber is resumed.'
              : 'Retrying. The result appears here in seconds.',
          )
        : laneTable(view, context),
    ),
  });
}

function laneTable(view: TopicView, context: PageContext): Html {
  return table({
    name: 'Held lanes',
    caption: 'Lanes whose first delivery waits for a retry, the next retry first',
    columns: ['Lane', ['Waiting', 'num'], 'Held by', 'Last error', ACTIONS],
    rows: view.heldLanes.map((lane) => laneRow(lane, view, context)),
  });
}

function laneRow(lane: HeldLane, { topic, orderedBy, generatedAt }: TopicView, context: PageContext): Html {
  const { subscriber, orderingKey, deliveryId, subject, nextAttemptAt } = lane;
  const key =
    orderingKey === ''
      ? 'whole topic'
      : html`${orderedBy ?? 'key'} <span class="mono">${visibleName(orderingKey)}</span>`;
  const of = `${topic.topic} to ${subscriber} ${orderingKey}`.trimEnd();
  const { paused: isPaused = false, outage = null } =
    topic.subscribers.find((one) => one.subscriber === subscriber) ?? {};
  const next = isPaused
    ? 'after the pause'
    : outage !== null
      ? `when ${subscriber} answers again`
      : until(nextAttemptAt, generatedAt);
  return html`<tr class="r">
    <th class="row" scope="row">
      <b>${subscriberLink(subscriber, topic.topic)}</b><span class="s wrap">${key}</span>
    </th>
    <td class="num">${waitingCount(lane)}</td>
    <td>
      <a class="mono nowrap" href="${eventPath(lane.eventId)}#to-${subscriber}"
        >${topic.topic} ${shortId(lane.eventId)}</a
      >
      <span class="s">${subject !== null && `${subject}, `}${attemptWords(lane.attempts)}</span>
      <span class="s">next attempt ${next}</span>
    </td>
    <td class="message">
      ${lane.lastError === null ? 'The handler asked to wait.' : failureLabel(lane.lastError)}
    </td>
    <td class="end">
      ${
        mayReplay(context.operator) &&
        html`<div class="acts">
          ${retryForm(deliveryId, of, context)} ${skipForm(deliveryId, of, context)}
        </div>`
      }
    </td>
  </tr>`;
}

function waitingCount({ behind, isMoreBehind }: HeldLane): Html {
  if (isMoreBehind) return html`over ${count(behind)}`;
  return html`${count(behind)}<span class="vh">
      ${behind === 1 ? 'delivery waits' : 'deliveries wait'}</span
    >`;
}

function attemptWords(attempts: number): string {
  return attempts === 0 ? 'not attempted yet' : quantity(attempts, 'attempt');
}
