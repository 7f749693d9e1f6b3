import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { payloadSection } from '../dead-letters/payload-section.ts';
import { missingReplayScope } from '../kit/actions.ts';
import { factsOf } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { time } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath, eventsPath } from '../kit/links.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { alert, card, section } from '../kit/sections.ts';
import { stateLabel } from '../kit/states.ts';
import { deliveryList } from './delivery-list.ts';
import { eventFacts } from './facts.ts';
import { drawn, verdictOf } from './sentences.ts';
import { familyTree } from './tree.ts';
import type { EventView } from './view.ts';

const REFRESH_SECONDS = 15;

/** Draws one event: the verdict, its deliveries, what caused it and what it caused, and its payload. */
export function eventPage(view: EventView, context: PageContext): Html {
  const { event, generatedAt } = view;
  const path = eventPath(event.eventId);
  const content = html`<p class="back"><a href="${eventsPath()}">← Events</a></p>
    ${heading({
      title: html`<span class="mono">${event.topic}</span>`,
      lead: html`${event.subject !== null && html`${event.subject} · `}${stateLabel(event.state)}, recorded
      ${time(event.createdAt, generatedAt)}`,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${verdictAlert(view, context)} ${pausesOf(view, context)} ${missingReplayScope(context.operator)}
    ${section({
      id: 'deliveries',
      title: 'Deliveries',
      hint: 'one for each subscriber',
      content: deliveryList(view, context),
    })}
    ${section({
      id: 'tree',
      title: 'Causes and effects',
      hint: 'what led to this event, and what it led to',
      content: familyTree(view),
    })}
    ${card(
      html`<div class="detail">
        ${payloadSection({ ...event, generatedAt, path }, context)}
        <section aria-labelledby="h-event">
          <h2 id="h-event">Event</h2>
          ${factsOf(eventFacts(view))}
        </section>
      </div>`,
    )}`;
  return layout({ title: event.topic, section: 'events', refreshSeconds: REFRESH_SECONDS, content }, context);
}

const TONES = {
  delivered: ['ok', CHECK_ICON],
  pending: ['ok', CLOCK_ICON],
  failing: ['fail', WARNING_ICON],
  dead_lettered: ['dead', DEAD_ICON],
} as const;

/** Of what is not delivered; a delivery that waits has the pause beside it. */
function pausesOf({ event, deliveries, generatedAt }: EventView, context: PageContext): Html {
  const held = deliveries.filter(({ state, why }) => state !== 'delivered' && why?.code !== 'paused');
  const { topic } = event;
  return html`${held.map(({ subscriber }) => pauseAlerts({ subscriber, topic }, generatedAt, context))}`;
}

function verdictAlert({ event, deliveries, generatedAt }: EventView, { names }: PageContext): Html {
  const [tone, icon] = TONES[event.state];
  // A pending event that is merely due is well; one that is held up by something else is not.
  const isHeldUp = deliveries.some(({ why }) => why !== null && !['due', 'leased'].includes(why.code));
  return alert(
    tone === 'ok' && isHeldUp ? 'fail' : tone,
    icon,
    html`<b>${drawn(verdictOf(deliveries), generatedAt, names)}</b>`,
  );
}
