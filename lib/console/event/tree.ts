import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, DOT_ICON, RETRY_ICON } from '../kit/icons.ts';
import { duration, time } from '../kit/instants.ts';
import { deadLetterPath, eventPath, eventsPath, eventsWithPath } from '../kit/links.ts';
import { card } from '../kit/sections.ts';
import type { State } from '../kit/shapes.ts';
import { stateWord } from '../kit/states.ts';
import { shortId } from '../kit/words.ts';
import type { EventDelivery, EventView, Receipt, RelatedEvent } from './view.ts';

/** Draws what led to an event, the event with its deliveries, and what it led to, as lists inside lists. */
export function familyTree(view: EventView): Html {
  const { event, webhook, causes, effects } = view;
  const own = node({
    at: event.createdAt,
    after: causes.at(-1)?.createdAt ?? webhook?.receivedAt,
    icon: DOT_ICON,
    words: html`<b class="mono">${event.topic}</b> this event`,
    below: [
      ...view.deliveries.map((delivery) => deliveryNode(delivery, view)),
      ...effectNodes(event.eventId, view),
    ],
    view,
  });
  const withCauses = causes.reduceRight(
    (below, cause, index) =>
      eventNode(cause, causes[index - 1]?.createdAt ?? webhook?.receivedAt, [below], view),
    own,
  );
  const whole = webhook === null ? withCauses : webhookNode(webhook, withCauses, view);
  return card(
    html`<div class="family">
      <ul class="tree">
        ${whole}
      </ul>
      <p class="small muted">
        ${effects.length === 0 && 'No event names this one as its cause. '}
        ${view.areMoreEffects && 'There may be more effects than are listed. '}
        ${
          event.correlationId !== null &&
          html`<a href="${eventsWithPath(event.correlationId)}">All events with the same correlation id</a>`
        }
      </p>
    </div>`,
  );
}

interface Node {
  readonly at: string | null;
  /** When the node above it happened. */
  readonly after: string | null | undefined;
  readonly icon: Html;
  readonly tone?: string;
  readonly words: Child;
  readonly below?: readonly Html[];
  readonly view: EventView;
}

function node({ at, after, icon, tone = '', words, below = [], view }: Node): Html {
  return html`<li>
    <div class="${tone}">
      ${icon}${at !== null && time(at, view.generatedAt)}
      <span class="what">${words}</span>${sinceThen(at, after)}
    </div>
    ${
      below.length > 0 &&
      html`<ul>
        ${below}
      </ul>`
    }
  </li>`;
}

function sinceThen(at: string | null, after: string | null | undefined): Child {
  if (at === null || !after) return null;
  const ms = Date.parse(at) - Date.parse(after);
  return ms >= 0 && html` <span class="muted small">+${duration(ms)}</span>`;
}

function webhookNode(
  { provider, webhookId, receivedAt, duplicates }: Receipt,
  below: Html,
  view: EventView,
): Html {
  const again =
    duplicates > 0 &&
    html` <span class="muted small">sent again ${duplicates === 1 ? 'once' : `${duplicates} times`}</span>`;
  return node({
    at: receivedAt,
    after: null,
    icon: DOT_ICON,
    words: html`webhook of ${provider}
      <a class="mono" href="${eventsPath({ q: webhookId })}">${webhookId}</a>${again}`,
    below: [below],
    view,
  });
}

function eventNode(
  related: RelatedEvent,
  after: string | null | undefined,
  below: readonly Html[],
  view: EventView,
): Html {
  const { eventId, isKept, topic, subject, state, createdAt } = related;
  const words = isKept
    ? html`<a class="mono" href="${eventPath(eventId)}">${topic}</a> ${subject}
        <span class="muted small">${state !== null && stateWord(state)}</span>`
    : html`<span class="mono">${shortId(eventId)}</span>
        <span class="muted small">no longer kept, or no event of this bus</span>`;
  return node({ at: createdAt, after, icon: DOT_ICON, words, below, view });
}

function effectNodes(causedBy: string, view: EventView, above: readonly string[] = []): readonly Html[] {
  const cause = [view.event, ...view.effects].find(({ eventId }) => eventId === causedBy);
  return view.effects
    .filter((effect) => effect.causedBy === causedBy && !above.includes(effect.eventId))
    .map((effect) => {
      const below = effectNodes(effect.eventId, view, [...above, causedBy]);
      return eventNode(effect, cause?.createdAt, below, view);
    });
}

const ICONS: Readonly<Record<State, readonly [Html, string]>> = {
  pending: [CLOCK_ICON, ''],
  failing: [RETRY_ICON, 'fail'],
  dead_lettered: [DEAD_ICON, 'dead'],
  delivered: [CHECK_ICON, 'ok'],
};

function deliveryNode(delivery: EventDelivery, view: EventView): Html {
  const { subscriber, deliveryId, state, deliveredAt, deadLetteredAt, dismissedAt } = delivery;
  const [icon, tone] = ICONS[state];
  const name =
    deliveryId === null ? subscriber : html`<a href="${deadLetterPath(deliveryId)}">${subscriber}</a>`;
  return node({
    at: deliveredAt ?? deadLetteredAt ?? dismissedAt,
    after: view.event.createdAt,
    icon,
    tone,
    words: html`to ${name}
      <span class="muted small">${dismissedAt === null ? stateWord(state) : 'dismissed'}</span>`,
    view,
  });
}
