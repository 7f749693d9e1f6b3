import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import {
  dismissLetterForm,
  mayReplay,
  missingReplayScope,
  replayLinkTo,
  retryForm,
  skipForm,
} from '../kit/actions.ts';
import { HALT_ICON } from '../kit/icons.ts';
import { time, timeToMinute, until } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, deadLettersPath, eventPath, eventsWithPath, topicPath } from '../kit/links.ts';
import { alert, card, factList } from '../kit/sections.ts';
import { failureLabel, stateLabel, stateWord } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { quantity } from '../kit/words.ts';
import { attemptTimeline } from './attempts.ts';
import type { DeadLetter } from './delivery.ts';
import { haltWords } from './halts.ts';
import { payloadSection } from './payload-section.ts';

const REFRESH_SECONDS = 15;

/** Draws one dead letter: its history, its payload, and what an operator can do. */
export function deadLetterPage(view: DeadLetter, context: PageContext): Html {
  const content = html`<p class="back"><a href="${deadLettersPath()}">← Dead letters</a></p>
    ${heading({
      title: html`<span class="mono">${view.topic}</span> to ${subscriberLink(view.subscriber, view.topic)}`,
      lead: leadOf(view),
      actions: actions(view, context),
      live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${haltAlert(view)} ${missingReplayScope(context.operator)}
    ${card(
      html`<div class="detail">
        <section aria-labelledby="h-attempts">
          <h2 id="h-attempts">Attempts</h2>
          ${attemptTimeline({ ...view, recorded: { at: view.createdAt, by: view.event.producer } })}
        </section>
        <div>
          ${payloadSection({ ...view, version: view.event.version, path: deadLetterPath(view.deliveryId) }, context)}
          ${eventSection(view)}
        </div>
      </div>`,
    )}`;
  return layout(
    {
      title: `${view.topic} to ${view.subscriber}`,
      section: 'dead-letters',
      refreshSeconds: REFRESH_SECONDS,
      content,
    },
    context,
  );
}

function leadOf(view: DeadLetter): Html {
  const { subject, state, dismissedAt } = view;
  return html`${subject !== null && html`${subject} · `}${stateLabel(state)}${dismissedAt !== null && ', dismissed'}${stateTime(view)}`;
}

function stateTime({
  state,
  deadLetteredAt,
  dismissedAt,
  deliveredAt,
  nextAttemptAt,
  generatedAt: now,
}: DeadLetter): Html | null {
  const endedAt =
    state === 'dead_lettered' ? (dismissedAt ?? deadLetteredAt) : state === 'delivered' ? deliveredAt : null;
  if (endedAt !== null) return html` at ${time(endedAt, now)}`;
  return nextAttemptAt === null ? null : html`, next attempt ${until(nextAttemptAt, now)}`;
}

/** Tells an operator what waits for a decision. */
function haltAlert({ halts, generatedAt: now }: DeadLetter): Html | null {
  if (halts === null) return null;
  return alert(
    'dead',
    HALT_ICON,
    html`<b>This dead letter ${haltWords(halts)}.</b> Since ${timeToMinute(halts.since, now)} nothing behind
      it is delivered.`,
  );
}

function actions(view: DeadLetter, context: PageContext): Html | null {
  const { state, deliveryId, topic, subscriber, deadLetteredAt, halts } = view;
  if (!mayReplay(context.operator) || state === 'pending') return null;
  const of = `${topic} to ${subscriber}`;
  const include = state === 'delivered' ? 'all' : null;
  return html`<div class="acts">
    ${
      state === 'failing'
        ? [retryForm(deliveryId, of, context), skipForm(deliveryId, of, context)]
        : replayLinkTo(view, of, { deliveryIds: deliveryId, include }, context)
    }
    ${deadLetteredAt !== null && dismissLetterForm(deliveryId, of, halts !== null, context)}
  </div>`;
}

function eventSection(view: DeadLetter): Html {
  const { lastError, event, replays } = view;
  return html`<section aria-labelledby="h-event">
    <h2 id="h-event" class="gap">Event</h2>
    ${factList([
      lastError !== null && ['Last error', failureLabel(lastError)],
      ['Event id', linked(eventPath(view.eventId), view.eventId)],
      ['Delivery id', mono(view.deliveryId)],
      ['Topic', html`<a class="mono" href="${topicPath(view.topic)}">${view.topic}</a>`],
      ['Producer', mono(event.producer)],
      ['Recorded', time(view.createdAt, view.generatedAt)],
      view.orderingKey !== '' && [
        'Ordering key',
        linked(eventsWithPath(view.orderingKey), visibleName(view.orderingKey)),
      ],
      event.correlationId !== null && [
        'Correlation id',
        linked(eventsWithPath(event.correlationId), event.correlationId),
      ],
      event.causationId !== null && ['Caused by', linked(eventPath(event.causationId), event.causationId)],
      event.traceparent !== null && ['Trace', mono(event.traceparent)],
      ['Replayed', replays === 0 ? 'never' : quantity(replays, 'time')],
      ['Other subscribers', siblingLinks(view.siblings)],
    ])}
  </section>`;
}

function siblingLinks(siblings: DeadLetter['siblings']): Child {
  if (siblings.length === 0) return 'none';
  return siblings.map(
    ({ deliveryId, subscriber, state }, index) =>
      html`${index > 0 && ', '}<a href="${deadLetterPath(deliveryId)}">${subscriber} ${stateWord(state)}</a>`,
  );
}

function linked(path: string, text: string): Html {
  return html`<a class="mono" href="${path}">${text}</a>`;
}

function mono(text: string): Html {
  return html`<span class="mono">${text}</span>`;
}
