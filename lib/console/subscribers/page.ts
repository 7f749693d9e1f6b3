import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { gapsSection } from '../backfills/gaps-section.ts';
import { silenceWords } from '../incidents/outage.ts';
import { actionForm, hiddenField, mayReplay } from '../kit/actions.ts';
import { SILENT_ICON } from '../kit/icons.ts';
import { timeToMinute, until } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { HOME, subscriberPath, topicPath, withParameters } from '../kit/links.ts';
import { alert, section } from '../kit/sections.ts';
import { count, quantity } from '../kit/words.ts';
import { actionsSection } from './actions.ts';
import { chartsOf } from './charts.ts';
import { ageWords, shareWords, timesWords } from './figures.ts';
import { leavingSection } from './leaving.ts';
import type { SubscriberHealth } from './read.ts';
import { subscriptionsSection } from './subscriptions.ts';
import { valuesTable } from './values.ts';

const REFRESH_SECONDS = 60;

/** Draws the health of one subscriber over time: figures, charts, the same values as a table, operators' actions. */
export function subscriberPage(view: SubscriberHealth, context: PageContext): Html {
  const { subscriber, generatedAt } = view;
  const content = html`<p class="back"><a href="${HOME}">← Overview</a></p>
    ${heading({
      title: html`<span class="mono">${subscriber}</span>`,
      lead: leadOf(view),
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${outageAlert(view, context)} ${leavingSection(view, context)} ${chooser(view, context)} ${figures(view)}
    ${section({
      id: 'over-time',
      title: view.span === 'hours' ? 'Hour by hour' : 'Day by day',
      hint: zoneWords(view),
      content: html`${chartsOf(view)} ${valuesTable(view)}`,
    })}
    ${gapsSection({ gaps: view.gaps, isOfTopic: false, now: generatedAt })} ${subscriptionsSection(view)}
    ${actionsSection(view)}`;
  return layout(
    { title: subscriber, section: 'overview', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

/** Says since when the subscriber does not answer, what waits, and when it is probed. */
function outageAlert(
  { outage, waiting, subscriber, generatedAt: now }: SubscriberHealth,
  context: PageContext,
): Html | null {
  if (outage === null) return null;
  const { kind, since, probes, nextProbeAt } = outage;
  const wait = `${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'}`;
  const probed = probes > 0 && `, ${quantity(probes, 'probe')} without an answer`;
  return alert(
    'dead',
    SILENT_ICON,
    html`<b>${subscriber} ${silenceWords(kind)} since ${timeToMinute(since, now)}.</b> ${wait}, without using
      up attempts. Next probe ${until(nextProbeAt, now)}${probed}.`,
    mayReplay(context.operator) && actionForm('probe', { subscriber }, { of: subscriber }, context),
  );
}

function leadOf({ inCatalog, topic, topics }: SubscriberHealth): Html {
  const of =
    topic === null
      ? html`Deliveries of ${quantity(topics.length, 'topic')}.`
      : html`Deliveries of <a class="mono" href="${topicPath(topic)}">${topic}</a>.`;
  return html`${of} Counts are approximate and a few seconds late; replays are counted
  apart.${!inCatalog && ' This release’s catalog does not list the subscriber.'}`;
}

function zoneWords({ span }: SubscriberHealth): string {
  return span === 'hours'
    ? 'times in Europe/Oslo'
    : 'a day begins at midnight UTC, which is 01:00 or 02:00 in Oslo';
}

function chooser({ subscriber, span, topic, topics }: SubscriberHealth, { url }: PageContext): Html {
  const link = (one: SubscriberHealth['span'], words: string) =>
    html`<a href="${withParameters(url, { span: one })}" ${one === span && CURRENT}>${words}</a>`;
  return html`<div class="bar">
    <nav class="seg" aria-label="Period">
      ${link('hours', 'Last 48 hours')}${link('days', 'Last 30 days')}
    </nav>
    <form class="filters" method="get" action="${subscriberPath(subscriber)}">
      ${hiddenField('span', span)}
      <label
        ><span class="vh">Topic</span
        ><select name="topic">
          <option value="">All its topics</option>
          ${topics.map((one) => html`<option value="${one}" ${one === topic && SELECTED}>${one}</option>`)}
        </select></label
      >
      <button class="btn">Show</button>
    </form>
  </div>`;
}

const CURRENT = html`aria-current="true"`;
const SELECTED = html`selected`;

function figures({ whole, span }: SubscriberHealth): Html {
  const { delivered, deadLettered, failedAttempts, replays } = whole;
  const replayed = replays.delivered + replays.deadLettered;
  return html`<h2 class="vh">In all, the last ${span === 'hours' ? '48 hours' : '30 days'}</h2>
    <dl class="facts figures">
      ${fact('Delivered', `${count(delivered)}${shareWords(delivered, deadLettered)}`)}
      ${fact('Dead letters', count(deadLettered), deadLettered > 0 ? 'dead-t' : '')}
      ${fact('Failed attempts', count(failedAttempts), failedAttempts > 0 ? 'fail-t' : '')}
      ${replayed > 0 && fact('Replays', replayWords(replays))}
      ${fact('Commit to delivered, p50 · p95', timesWords(whole.deliveredInMs))}
      ${fact('Handler, p50 · p95', timesWords(whole.handlerMs))}
      ${fact('Oldest in the backlog', ageWords(whole.backlogAgeSeconds))}
    </dl>`;
}

function fact(name: string, value: string, tone = ''): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd class="${tone}">${value}</dd>
  </div>`;
}

function replayWords({ delivered, deadLettered }: SubscriberHealth['whole']['replays']): string {
  return `${count(delivered)} delivered${deadLettered > 0 ? `, ${count(deadLettered)} dead-lettered again` : ''}`;
}
