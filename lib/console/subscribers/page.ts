import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { gapsSection } from '../backfills/gaps-section.ts';
import { incidentItems } from '../incidents/list.ts';
import { actionForm, hiddenField, mayReplay, missingReplayScope } from '../kit/actions.ts';
import { drawBlock } from '../kit/doc.ts';
import { factsOf, listTable, phraseOf } from '../kit/document.ts';
import type { Part, Style } from '../kit/document.ts';
import { SILENT_ICON } from '../kit/icons.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { smokePath, subscriberPath, subscribersPath, topicPath, withParameters } from '../kit/links.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { alert, card, emptyLine, section } from '../kit/sections.ts';
import { topicField } from '../kit/select.ts';
import { quantity } from '../kit/words.ts';
import { heldLanesBlock } from '../held-lanes/block.ts';
import { actionsSection } from './acted.ts';
import { chartsOf } from './charts.ts';
import { healthFacts, heldOf, outageSentence, standingFacts } from './facts.ts';
import { spanWords } from './figures.ts';
import { leavingSection } from './leaving.ts';
import { valueList } from './lists.ts';
import type { SubscriberHealth } from './read.ts';
import { subscriptionsSection } from './subscriptions.ts';

const REFRESH_SECONDS = 60;

/** Draws one subscriber: how it is now, what can be done, and its health over time. */
export function subscriberPage(view: SubscriberHealth, context: PageContext): Html {
  const { subscriber, generatedAt } = view;
  const content = html`<p class="back"><a href="${subscribersPath()}">← Subscribers</a></p>
    ${heading({
      title: html`<span class="mono">${subscriber}</span>`,
      lead: 'A component that receives events.',
      actions: mayReplay(context.operator) && standingActions(view, context),
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${missingReplayScope(context.operator)} ${pauseAlerts({ subscriber, topic: null }, generatedAt, context)}
    ${outageAlert(view, context)} ${nowSection(view, context)}
    ${drawBlock(heldLanesBlock(heldOf(view), null), generatedAt, context)} ${leavingSection(view, context)}
    <h2 class="gap">Health</h2>
    <p class="muted small">${leadOf(view)}</p>
    ${chooser(view, context)} ${figures(view)}
    ${section({
      id: 'over-time',
      title: view.span === 'hours' ? 'Hour by hour' : 'Day by day',
      hint: zoneWords(view),
      content: html`${chartsOf(view)} ${values(view)}`,
    })}
    ${gapsSection({ gaps: view.gaps, isOfTopic: false, now: generatedAt })} ${subscriptionsSection(view)}
    ${actionsSection(view, context)}`;
  return layout(
    { title: subscriber, section: 'subscribers', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

/** What can be done with all that it receives. Pauses, outages and what goes wrong have their buttons beside them. */
function standingActions({ subscriber, items: [one] }: SubscriberHealth, context: PageContext): Html {
  const isPaused = one.pauses.some(({ topic }) => topic === null);
  return html`<div class="acts">
    ${one.inCatalog && !isPaused && actionForm('pause', { subscriber }, { of: subscriber }, context)}
    ${
      one.place !== 'unattached' &&
      !isPaused &&
      html`<form method="post" action="${smokePath()}">
        ${hiddenField('subscriber', subscriber)}
        <button class="btn sm">Send a test event<span class="vh"> to ${subscriber}</span></button>
      </form>`
    }
  </div>`;
}

/** How it is now, and what goes wrong, each with the way to its end. */
function nowSection(view: SubscriberHealth, context: PageContext): Html {
  const { incidents, generatedAt } = view;
  return section({
    id: 'now',
    title: 'Now',
    content: html`${card(factsOf(standingFacts(view), 'roomy'))}
    ${incidents.length > 0 && card(incidentItems(incidents, generatedAt, context))}`,
  });
}

function outageAlert(view: SubscriberHealth, context: PageContext): Html | null {
  const sentence = outageSentence(view);
  if (sentence === null) return null;
  const { subscriber } = view;
  const action =
    mayReplay(context.operator) && actionForm('probe', { subscriber }, { of: subscriber }, context);
  return alert('dead', SILENT_ICON, sentence.html, action);
}

function leadOf({ topic, topics }: SubscriberHealth): Html {
  const of =
    topic === null
      ? html`Deliveries of ${quantity(topics.length, 'topic')}.`
      : html`Deliveries of <a class="mono" href="${topicPath(topic)}">${topic}</a>.`;
  return html`${of} Counts are approximate and a few seconds late; replays are counted apart.`;
}

function zoneWords({ span }: SubscriberHealth): Child {
  return span === 'hours' ? html`hours in <span data-zone-name>UTC</span>` : 'a day begins at midnight UTC';
}

function chooser({ subscriber, span, topic, topics }: SubscriberHealth, { url }: PageContext): Html {
  const link = (one: SubscriberHealth['span'], words: string) =>
    html`<a href="${withParameters(url, { span: one })}" ${one === span && CURRENT}>${words}</a>`;
  return html`<div class="bar">
    <nav class="seg" aria-label="Period">
      ${link('hours', 'Last 48 hours')}${link('days', 'Last 30 days')}
    </nav>
    <form class="filters" method="get" action="${subscriberPath(subscriber)}">
      ${hiddenField('span', span)} ${topicField({ topic, names: topics, all: 'All its topics' })}
      <button class="btn">Show</button>
    </form>
  </div>`;
}

const CURRENT = html`aria-current="true"`;

function figures(view: SubscriberHealth): Html {
  return html`<h2 class="vh">In all, ${spanWords(view.span)}</h2>
    <dl class="facts figures">${healthFacts(view).map((fact) => fact && figure(...fact))}</dl>`;
}

function figure(name: string, value: Part): Html {
  const { html: shown, style } = phraseOf(value);
  return html`<div>
    <dt>${name}</dt>
    <dd class="${style && TONES[style]}">${shown}</dd>
  </div>`;
}

const TONES: Partial<Record<Style, string>> = { red: 'dead-t', yellow: 'fail-t' };

/** Lists the values of the charts, for screen readers and for reading. */
function values(view: SubscriberHealth): Html {
  const list = valueList(view);
  return card(
    html`<details class="more">
      <summary>The values as a table</summary>
      ${list.rows.length === 0 ? emptyLine('Nothing happened in this time.') : listTable(list)}
    </details>`,
  );
}
