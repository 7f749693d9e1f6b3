import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { attemptTimeline } from '../dead-letters/attempts.ts';
import { haltWords } from '../dead-letters/halts.ts';
import {
  actionForm,
  dismissLetterForm,
  firstOfLaneForms,
  mayReplay,
  replayLinkTo,
  settleLink,
} from '../kit/actions.ts';
import { time } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { stateLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { attemptsWords, shortId } from '../kit/words.ts';
import { drawn, reasonWords } from './sentences.ts';
import type { EventDelivery, EventView, Why } from './view.ts';

/** Draws the deliveries of an event: why each of them waits, what can be done, and its attempts. */
export function deliveryList(view: EventView, context: PageContext): Html {
  if (view.deliveries.length === 0) return card(emptyLine('It was emitted to no subscriber.'));
  return card(
    html`<ul class="deliveries">
      ${troubleFirst(view.deliveries).map((delivery) => deliveryItem(delivery, view, context))}
    </ul>`,
  );
}

/** What needs an operator comes before what is delivered. */
function troubleFirst(deliveries: readonly EventDelivery[]): readonly EventDelivery[] {
  const rank = ({ state }: EventDelivery) =>
    ['dead_lettered', 'failing', 'pending', 'delivered'].indexOf(state);
  return deliveries.toSorted((one, other) => rank(one) - rank(other));
}

function deliveryItem(delivery: EventDelivery, view: EventView, context: PageContext): Html {
  const { deliveryId, subscriber, state, attempts, nextAttemptAt, why, halts } = delivery;
  const now = view.generatedAt;
  return html`<li id="to-${subscriber}">
    <div>
      <h3>${subscriberLink(subscriber, view.event.topic)} ${stateLabel(state)}${endedAt(delivery, now)}</h3>
      ${why && reasons(why, now, context)} ${halts && html`<p>It ${haltWords(halts)}.</p>`}
      ${
        deliveryId !== null &&
        html`<p class="small muted">
          delivery
          <a class="mono" href="${deadLetterPath(deliveryId)}" title="${deliveryId}"
            >${shortId(view.event.eventId)}.${subscriber}</a
          >${state === 'failing' && `, ${attemptsWords(delivery.failures, delivery.maxAttempts)}`}
        </p>`
      }
    </div>
    <div>
      ${attempts.length > 0 && attemptTimeline({ attempts, nextAttemptAt, generatedAt: now }, context)}
    </div>
    ${mayReplay(context.operator) && actions(delivery, view, context)}
  </li>`;
}

function endedAt({ deliveredAt, deadLetteredAt, dismissedAt }: EventDelivery, now: string): Child {
  const at = dismissedAt ?? deadLetteredAt ?? deliveredAt;
  return (
    at !== null && html` <span class="at">${dismissedAt !== null && 'dismissed '}${time(at, now)}</span>`
  );
}

function reasons(why: Why, now: string, { names }: PageContext): Html {
  return html`<p>${drawn(reasonWords(why), now, names)}</p>
    ${why.also.map(({ text }) => html`<p class="muted">Also: ${text}</p>`)}`;
}

function actions(delivery: EventDelivery, { event }: EventView, context: PageContext): Html | null {
  const { deliveryId, subscriber, state, why } = delivery;
  if (deliveryId === null) return null;
  const of = `${event.topic} to ${subscriber}`;
  if (why === null) {
    const include = state === 'delivered' ? 'all' : null;
    const to = { topic: event.topic, subscriber };
    return html`<div class="acts">
      ${replayLinkTo(to, of, { deliveryIds: deliveryId, include }, context)}
      ${delivery.deadLetteredAt !== null && dismissLetterForm(deliveryId, of, delivery.halts !== null, context)}
    </div>`;
  }
  const codes = new Set([why.code, ...why.also.map(({ code }) => code)]);
  return html`<div class="acts">
    ${codes.has('backoff') && firstOfLaneForms({ ...delivery, deliveryId, topic: event.topic }, of, context)}
    ${!codes.has('backoff') && codes.has('not_in_catalog') && settleLink(event.topic, subscriber)}
    ${why.code === 'paused' && actionForm('resume', { subscriber }, { of: subscriber, hidden: { topic: why.pausedTopic } }, context)}
    ${why.code === 'outage' && actionForm('probe', { subscriber }, { of: subscriber }, context)}
    ${
      why.behind &&
      (why.behind.code === 'halted'
        ? openLink(deadLetterPath(why.behind.deliveryId), 'Open the dead letter', of)
        : openLink(`${eventPath(why.behind.eventId)}#to-${subscriber}`, 'Open the first in line', of))
    }
  </div>`;
}

function openLink(path: string, words: string, of: string): Html {
  return html`<a class="btn sm" href="${path}">${words}<span class="vh"> of ${of}</span></a>`;
}
