import type { DeadLetter } from './delivery.ts';
import { lacking, mayReplay, reasonField, replayLink, retryForm, skipForm } from '../page/acts.ts';
import { attemptTimeline } from './attempts.ts';
import { COPY_ICON, LOCK_ICON, WARNING_ICON } from '../page/icons.ts';
import { until, when } from '../page/instants.ts';
import { deadLetterPath, deadLettersPath, HOME, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { payload } from './payload.ts';
import { failure, stateLabel, stateWord } from '../page/states.ts';
import { counted } from '../page/words.ts';

const REFRESH_SECONDS = 15;

/** One dead letter: what happened to it, what it carries, and what can be done. */
export function deadLetterPage(view: DeadLetter, visit: PageContext): Html {
  // Whoever acts on what was revealed comes back to where nothing is: the address it came from answers no GET.
  const context = { ...visit, url: new URL(deadLetterPath(view.deliveryId), visit.url) };
  // For the same reason it is drawn once.
  const refreshSeconds = view.isRevealed ? null : REFRESH_SECONDS;
  const content = html`<p class="back"><a href="${deadLettersPath()}">← Dead letters</a></p>
    ${heading({
      title: html`<span class="mono">${view.topic}</span> to <span class="mono">${view.subscriber}</span>`,
      lead: leadOf(view),
      actions: acts(view, context),
      live: refreshSeconds !== null && liveness(view.generatedAt, refreshSeconds, context.url),
    })}
    ${mayReplay(context.operator) ? null : lacking('Replay', 'event-bus:replay')}
    <div class="card">
      <div class="detail">
        <section aria-labelledby="h-attempts">
          <h2 id="h-attempts">Attempts</h2>
          ${attemptTimeline(view)}
        </section>
        <div>${payloadSection(view, context)} ${factsSection(view)}</div>
      </div>
    </div>`;
  return layout(
    { title: `${view.topic} to ${view.subscriber}`, section: 'dead-letters', refreshSeconds, content },
    context,
  );
}

function leadOf({
  state,
  subject,
  deadLetteredAt,
  deliveredAt,
  nextAttemptAt,
  generatedAt: now,
}: DeadLetter): Html {
  const since =
    state === 'dead_lettered' && deadLetteredAt !== null
      ? html` since ${when(deadLetteredAt, now)}`
      : state === 'delivered' && deliveredAt !== null
        ? html` at ${when(deliveredAt, now)}`
        : nextAttemptAt !== null && html`, next try ${until(nextAttemptAt, now)}`;
  return html`${subject !== null && html`${subject} · `}${stateLabel(state)}${since}`;
}

function acts(view: DeadLetter, context: PageContext): Html | null {
  const { state, deliveryId, topic, subscriber } = view;
  if (!mayReplay(context.operator) || state === 'pending') return null;
  const of = `${topic} to ${subscriber}`;
  if (state === 'failing') {
    return html`<div class="acts">
      ${retryForm(deliveryId, of, context)} ${skipForm(deliveryId, of, context)}
    </div>`;
  }
  const include = state === 'delivered' ? 'all' : null;
  return html`<div class="acts">${replayLink(of, { deliveryIds: deliveryId, include })}</div>`;
}

function payloadSection(view: DeadLetter, { operator }: PageContext): Html {
  const { isRevealed, isValid, event } = view;
  const hidden = isRevealed ? [] : view.hidden;
  return html`<section aria-labelledby="h-payload">
    <div class="hrow">
      <h2 id="h-payload">Payload</h2>
      <span class="tag">version ${event.version}</span>
      ${hidden.length > 0 && html`<span class="tag pii">${LOCK_ICON}${counted(hidden.length, 'value')} hidden</span>`}
      ${isRevealed && html`<span class="tag late">personal data shown</span>`}
      <span class="sp"></span>
      <button class="btn sm quiet" type="button" data-js data-copy="#payload">
        ${COPY_ICON}<span>Copy</span>
      </button>
    </div>
    ${
      !isValid &&
      html`<div class="alert warn small">
        ${WARNING_ICON}
        <p>
          <b>The payload does not fit the schema that this release knows.</b>
          ${isRevealed ? 'Any of it may be personal data.' : 'All that the schema does not name is hidden.'}
        </p>
      </div>`
    }
    <pre class="code" id="payload" tabindex="0" role="region" aria-label="Payload as JSON">
${payload(view.payload, hidden)}</pre>
    ${hidden.length > 0 && reveal(view, operator.scopes.has('event-bus:reveal'))}
    ${
      isRevealed &&
      html`<p class="hide">
        <a class="btn sm" href="${deadLetterPath(view.deliveryId)}">Hide personal data</a>
      </p>`
    }
  </section>`;
}

function reveal({ deliveryId }: DeadLetter, mayReveal: boolean): Html {
  if (!mayReveal) return lacking('Reveal', 'event-bus:reveal');
  return html`<details class="act left">
    <summary class="btn sm">Reveal… (logged)</summary>
    <form method="post" action="${HOME}/dead-letters/${encodeURIComponent(deliveryId)}/reveal">
      <p><b>Show personal data in this event?</b> Your name, the time and the reason are logged.</p>
      ${reasonField('Why you need to see it', 'for example: the tenant asks which booking this is')}
      <button class="btn sm">Reveal</button>
    </form>
  </details>`;
}

function factsSection(view: DeadLetter): Html {
  const { lastError, event, siblings, generatedAt, replays } = view;
  return html`<section aria-labelledby="h-facts">
    <h2 id="h-facts" class="gap">Event</h2>
    <dl class="kv">
      ${lastError !== null && fact('Last error', failure(lastError))}
      ${fact('Event id', html`<span class="mono">${view.eventId}</span>`)}
      ${fact('Delivery id', html`<span class="mono">${view.deliveryId}</span>`)}
      ${fact('Topic', html`<a class="mono" href="${topicPath(view.topic)}">${view.topic}</a>`)}
      ${fact('Producer', html`<span class="mono">${event.producer}</span>`)}
      ${fact('Recorded', when(view.createdAt, generatedAt))}
      ${view.orderingKey !== '' && fact('Ordering key', html`<span class="mono">${view.orderingKey}</span>`)}
      ${event.correlationId !== null && fact('Correlation', html`<span class="mono">${event.correlationId}</span>`)}
      ${event.causationId !== null && fact('Caused by', html`<span class="mono">${event.causationId}</span>`)}
      ${event.traceparent !== null && fact('Trace', html`<span class="mono">${event.traceparent}</span>`)}
      ${fact('Replayed', replays === 0 ? 'never' : counted(replays, 'time'))}
      ${fact('Other subscribers', siblingWords(siblings))}
    </dl>
  </section>`;
}

function siblingWords(siblings: DeadLetter['siblings']): string {
  if (siblings.length === 0) return 'none';
  const words = siblings.map(({ subscriber, state }) => `${subscriber} ${stateWord(state)}`).join(', ');
  return siblings.length === 1
    ? `The other subscriber: ${words}.`
    : `The ${siblings.length} other subscribers: ${words}.`;
}

function fact(name: string, value: Child): Html {
  return html`<dt>${name}</dt>
    <dd>${value}</dd>`;
}
