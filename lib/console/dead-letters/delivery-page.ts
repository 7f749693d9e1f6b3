import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import {
  dismissLetterForm,
  firstOfLaneForms,
  mayReplay,
  missingReplayScope,
  replayLinkTo,
} from '../kit/actions.ts';
import { factsOf } from '../kit/document.ts';
import { HALT_ICON } from '../kit/icons.ts';
import { timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, deadLettersPath } from '../kit/links.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { alert, card } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { attemptTimeline } from './attempts.ts';
import type { DeadLetter } from './delivery.ts';
import { deadLetterFacts, statePhraseOf } from './facts.ts';
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
    ${haltAlert(view)} ${view.state !== 'delivered' && pauseAlerts(view, view.generatedAt, context)}
    ${missingReplayScope(context.operator)}
    ${card(
      html`<div class="detail">
        <section aria-labelledby="h-attempts">
          <h2 id="h-attempts">Attempts</h2>
          ${attemptTimeline({ ...view, recorded: { at: view.createdAt, by: view.event.producer } }, context)}
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
  const { subject } = view;
  return html`${subject !== null && html`${subject} · `}${statePhraseOf(view).html}`;
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
        ? firstOfLaneForms(view, of, context)
        : replayLinkTo(view, of, { deliveryIds: deliveryId, include }, context)
    }
    ${deadLetteredAt !== null && dismissLetterForm(deliveryId, of, halts !== null, context)}
  </div>`;
}

function eventSection(view: DeadLetter): Html {
  return html`<section aria-labelledby="h-event">
    <h2 id="h-event" class="gap">Event</h2>
    ${factsOf(deadLetterFacts(view))}
  </section>`;
}
