import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { firstOfLaneForms, mayReplay } from '../kit/actions.ts';
import { until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath } from '../kit/links.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { failureLabel } from '../kit/states.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, quantity, shortId } from '../kit/words.ts';
import { laneName } from './lane-name.ts';
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
    columns: [
      { label: 'Lane', isRowHeader: true, cell: (lane) => laneName(lane, view) },
      { label: 'Waiting', tone: 'num', cell: waitingCount },
      { label: 'Held by', cell: (lane) => heldBy(lane, view) },
      {
        label: 'Last error',
        look: 'message',
        cell: ({ lastError }) =>
          lastError === null ? 'The handler asked to wait.' : failureLabel(lastError),
      },
      { ...ACTIONS, cell: (lane) => mayReplay(context.operator) && laneActions(lane, view, context) },
    ],
    rows: view.heldLanes,
  });
}

function heldBy(lane: HeldLane, { topic: { topic, subscribers }, generatedAt: now }: TopicView): Html {
  const { subscriber, eventId, subject, attempts, nextAttemptAt } = lane;
  const { paused: isPaused = false, outage = null } =
    subscribers.find((one) => one.subscriber === subscriber) ?? {};
  const next = isPaused
    ? 'after the pause'
    : outage !== null
      ? `when ${subscriber} answers again`
      : until(nextAttemptAt, now);
  return html`<a class="mono nowrap" href="${eventPath(eventId)}#to-${subscriber}"
      >${topic} ${shortId(eventId)}</a
    >
    <span class="s">${subject !== null && `${subject}, `}${attemptWords(attempts)}</span>
    <span class="s">next attempt ${next}</span>`;
}

function laneActions(lane: HeldLane, { topic: { topic } }: TopicView, context: PageContext): Html {
  const { subscriber, orderingKey, deliveryId, attempts } = lane;
  const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
  return html`<div class="acts">
    ${firstOfLaneForms({ deliveryId, topic, subscriber, attempts }, of, context)}
  </div>`;
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
