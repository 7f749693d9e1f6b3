import {
  mayReplay,
  missingReplayScope,
  missingScope,
  reasonField,
  reasonForm,
  replayLink,
  retryForm,
  skipForm,
} from '../page/actions.ts';
import { COPY_ICON, LOCK_ICON, WARNING_ICON } from '../page/icons.ts';
import { time, until } from '../page/instants.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { deadLetterPath, deadLettersPath, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { alert, card, factList } from '../page/sections.ts';
import { failureLabel, stateLabel, stateWord } from '../page/states.ts';
import { quantity } from '../page/words.ts';
import { attemptTimeline } from './attempts.ts';
import type { DeadLetter } from './delivery.ts';
import { payload } from './payload.ts';

const REFRESH_SECONDS = 15;

/** Draws one dead letter: its history, its payload, and what an operator can do. */
export function deadLetterPage(view: DeadLetter, visit: PageContext): Html {
  // After a reveal the browser is at an address that answers no GET: forms come back to the page without it.
  const context = { ...visit, url: new URL(deadLetterPath(view.deliveryId), visit.url) };
  // For the same reason the script can't refresh it.
  const refreshSeconds = view.isRevealed ? null : REFRESH_SECONDS;
  const content = html`<p class="back"><a href="${deadLettersPath()}">← Dead letters</a></p>
    ${heading({
      title: html`<span class="mono">${view.topic}</span> to <span class="mono">${view.subscriber}</span>`,
      lead: leadOf(view),
      actions: actions(view, context),
      live: refreshSeconds !== null && liveness(view.generatedAt, refreshSeconds, context.url),
    })}
    ${missingReplayScope(context.operator)}
    ${card(
      html`<div class="detail">
        <section aria-labelledby="h-attempts">
          <h2 id="h-attempts">Attempts</h2>
          ${attemptTimeline(view)}
        </section>
        <div>${payloadSection(view, context)} ${eventSection(view)}</div>
      </div>`,
    )}`;
  return layout(
    { title: `${view.topic} to ${view.subscriber}`, section: 'dead-letters', refreshSeconds, content },
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

function actions(view: DeadLetter, context: PageContext): Html | null {
  const { state, deliveryId, topic, subscriber } = view;
  if (!mayReplay(context.operator) || state === 'pending') return null;
  const of = `${topic} to ${subscriber}`;
  const include = state === 'delivered' ? 'all' : null;
  return html`<div class="acts">
    ${
      state === 'failing'
        ? [retryForm(deliveryId, of, context), skipForm(deliveryId, of, context)]
        : replayLink(of, { deliveryIds: deliveryId, include })
    }
  </div>`;
}

function payloadSection(view: DeadLetter, { operator }: PageContext): Html {
  const { isRevealed, isValid, event } = view;
  const hidden = isRevealed ? [] : view.hidden;
  return html`<section aria-labelledby="h-payload">
    <div class="hrow">
      <h2 id="h-payload">Payload</h2>
      <span class="tag">version ${event.version}</span>
      ${hidden.length > 0 && html`<span class="tag pii">${LOCK_ICON}${quantity(hidden.length, 'value')} hidden</span>`}
      ${isRevealed && html`<span class="tag late">personal data shown</span>`}
      <button class="btn sm quiet" type="button" data-js data-copy="#payload">
        ${COPY_ICON}<span>Copy</span>
      </button>
    </div>
    ${!isValid && unknownSchemaWarning(isRevealed)}
    <pre class="code" id="payload" tabindex="0" role="region" aria-label="Payload as JSON">
${payload(view.payload, hidden)}</pre>
    ${hidden.length > 0 && revealForm(view, operator.scopes.has('event-bus:reveal'))}
    ${
      isRevealed &&
      html`<p class="hide">
        <a class="btn sm" href="${deadLetterPath(view.deliveryId)}">Hide personal data</a>
      </p>`
    }
  </section>`;
}

function unknownSchemaWarning(isRevealed: boolean): Html {
  const consequence = isRevealed
    ? 'Any value may be personal data.'
    : 'Values that the schema does not name are hidden.';
  return alert(
    'fail',
    WARNING_ICON,
    html`<b>The payload does not match this release’s schema.</b> ${consequence}`,
  );
}

function revealForm({ deliveryId }: DeadLetter, mayReveal: boolean): Html {
  if (!mayReveal) return missingScope('Reveal', 'event-bus:reveal');
  return reasonForm({
    button: 'Reveal… (logged)',
    path: `${deadLetterPath(deliveryId)}/reveal`,
    text: html`<b>Show the personal data in this event?</b> Your name, the time and the reason are logged.`,
    fields: reasonField('for example: the tenant asks which booking this is', 'Why you need to see it'),
    submit: html`<button class="btn sm">Reveal</button>`,
    isLeft: true,
  });
}

function eventSection(view: DeadLetter): Html {
  const { lastError, event, replays } = view;
  return html`<section aria-labelledby="h-event">
    <h2 id="h-event" class="gap">Event</h2>
    ${factList([
      lastError !== null && ['Last error', failureLabel(lastError)],
      ['Event id', mono(view.eventId)],
      ['Delivery id', mono(view.deliveryId)],
      ['Topic', html`<a class="mono" href="${topicPath(view.topic)}">${view.topic}</a>`],
      ['Producer', mono(event.producer)],
      ['Recorded', time(view.createdAt, view.generatedAt)],
      view.orderingKey !== '' && ['Ordering key', mono(view.orderingKey)],
      event.correlationId !== null && ['Correlation id', mono(event.correlationId)],
      event.causationId !== null && ['Caused by', mono(event.causationId)],
      event.traceparent !== null && ['Trace', mono(event.traceparent)],
      ['Replayed', replays === 0 ? 'never' : quantity(replays, 'time')],
      ['Other subscribers', siblingWords(view.siblings)],
    ])}
  </section>`;
}

function siblingWords(siblings: DeadLetter['siblings']): string {
  const words = siblings.map(({ subscriber, state }) => `${subscriber} ${stateWord(state)}`);
  return words.length === 0 ? 'none' : words.join(', ');
}

function mono(text: string): Html {
  return html`<span class="mono">${text}</span>`;
}
