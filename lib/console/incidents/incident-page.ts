import { edgeWords } from '../../components/incidents/edge-failures.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope, retireLink } from '../kit/actions.ts';
import { actWords } from '../kit/acts.ts';
import { listTable } from '../kit/document.ts';
import { CHECK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { time, timeAndAgo, timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import {
  deadLetterPath,
  deadLettersPath,
  incidentPath,
  incidentsPath,
  replayedPath,
  setAsidePath,
  subscriberPath,
  topicPath,
} from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { alert, card, emptyLine, factList, section } from '../kit/sections.ts';
import { failureLabel, failureTag } from '../kit/states.ts';
import { capitalize, count, countOfLanes, quantity } from '../kit/words.ts';
import { acknowledgeForm, dismissForm } from './forms.ts';
import type { IncidentView } from './detail.ts';
import { haltsSection } from './halts-section.ts';
import { laneList, letterList } from './lists.ts';
import { waitingTopics } from './outage-recovery.ts';
import { isMoving, recoverySection } from './recovery.ts';
import { shortCause } from './sentence.ts';
import { storyClauses, storyPhrase, titleOf, whenPhrase } from './words.ts';

/** Someone watches what moves; the rest changes within minutes. */
const WATCHED_SECONDS = 1;
const REFRESH_SECONDS = 15;

/** Draws one incident: what is wrong, the way out of it, what it blocks, what it owes, and what was done. */
export function incidentPage(view: IncidentView, context: PageContext): Html {
  const { subscriber, topic, generatedAt } = view;
  if (subscriber === '') return asideIncidentPage(view, context);
  const refreshSeconds = isMoving(view) ? WATCHED_SECONDS : REFRESH_SECONDS;
  const cause = shortCause(view.lastError);
  const content = html`<p class="back"><a href="${incidentsPath()}">← Incidents</a></p>
    ${heading({
      title: html`<span class="mono">${subscriber}</span
        >${topic === null ? ' does not answer' : html` on <span class="mono">${topic}</span>: ${cause}`}`,
      lead: html`${failureTag(view.lastError.kind)} ${whenPhrase(view, generatedAt).html}`,
      live: liveness(generatedAt, refreshSeconds, context.url),
    })}
    ${sentenceAlert(view, context)} ${foldedStory(view)} ${missingReplayScope(context.operator)}
    ${view.state !== 'closed' && pauseAlerts({ subscriber, topic }, generatedAt, context)}
    ${actions(view, context)} ${recoverySection(view, context)} ${waitingTopics(view)}
    ${haltsSection(view, context)} ${lanesSection(view, context)} ${deadLettersSection(view)}
    ${factsSection(view)} ${actionsSection(view, context)}`;
  return layout(
    {
      title: `${subscriber} ${topic === null ? 'does not answer' : `on ${topic}: ${cause}`}`,
      section: 'incidents',
      refreshSeconds,
      content,
    },
    context,
  );
}

/** Draws an incident of the bus itself, of chat or of a budget, which blocks no lane and has no dead letters. */
function asideIncidentPage(view: IncidentView, context: PageContext): Html {
  const { topic, generatedAt, state, lastError } = view;
  const edge = edgeWords(lastError.kind);
  const title = edge
    ? capitalize(edge.title)
    : topic === null
      ? 'The database’s clock was ahead'
      : `Rows of ${topic} set aside`;
  const content = html`<p class="back"><a href="${incidentsPath()}">← Incidents</a></p>
    ${heading({
      title,
      lead: html`since ${timeToMinute(view.openedAt, generatedAt)}`,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${sentenceAlert(view, context, !edge && state !== 'closed' && html`<a class="btn" href="${setAsidePath()}">See and repair…</a>`)}
    ${missingReplayScope(context.operator)}
    ${mayReplay(context.operator) && state !== 'closed' && html`<div class="acts choices">${acknowledgeForm(view, context)}</div>`}
    ${actionsSection(view, context)}`;
  return layout({ title, section: 'incidents', refreshSeconds: REFRESH_SECONDS, content }, context);
}

function actions(view: IncidentView, context: PageContext): Html | null {
  if (!mayReplay(context.operator) || view.state === 'closed') return null;
  return html`<div class="acts choices">
    ${acknowledgeForm(view, context)}
    ${
      view.lanes.length > 1 &&
      html`<a class="btn sm" href="${incidentPath(view.incidentId)}/skip">Skip all that hold its lanes…</a>`
    }
    ${view.owed > 0 && dismissForm(view, context)}
    ${!view.inCatalog && view.topic !== null && retireLink(view.subscriber, view.topic)}
  </div>`;
}

const ALERTS = {
  happening: ['dead', DEAD_ICON],
  owed: ['fail', WARNING_ICON],
  closed: ['ok', CHECK_ICON],
} as const;

function sentenceAlert(view: IncidentView, { names }: PageContext, action?: Child): Html {
  const { state, sentence, acknowledged, generatedAt } = view;
  const [tone, icon] = ALERTS[state];
  const by =
    acknowledged !== null &&
    html` Acknowledged by ${operatorText(acknowledged.by, names)} at
    ${timeToMinute(acknowledged.at, generatedAt)}: ${acknowledged.note}`;
  const story = isFolded(view) ? null : storyPhrase(view);
  return alert(
    tone,
    icon,
    html`<b>${sentence}</b
      >${by}${story && html`<span class="s" id="story">The story of ${view.subscriber}: ${story.html}</span>`}`,
    action,
  );
}

/** More would fill a phone's page before its first button. */
const CAUSES_IN_SENTENCE = 3;

const isFolded = (view: IncidentView) => storyClauses(view).length > CAUSES_IN_SENTENCE;

/** Draws the story of a subscriber with many causes, to be opened. */
function foldedStory(view: IncidentView): Html | false {
  const clauses = storyClauses(view);
  return (
    isFolded(view) &&
    card(
      html`<details class="more" id="story">
        <summary>The story of ${view.subscriber}: ${quantity(clauses.length, 'error')}</summary>
        <ol class="deeds">
          ${clauses.map((clause) => html`<li>${clause.html}</li>`)}
        </ol>
      </details>`,
    )
  );
}

function factsSection(view: IncidentView): Html {
  const { topic, subscriber, generatedAt: now, lastDeliveredAt, dismissed, closedAt } = view;
  return section({
    id: 'facts',
    title: 'Facts',
    content: card(
      factList(
        [
          [
            'Topic',
            topic === null ? 'all its topics' : html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`,
          ],
          ['Subscriber', html`<a class="mono" href="${subscriberPath(subscriber)}">${subscriber}</a>`],
          ['Last error', failureLabel(view.lastError)],
          ['First failure', timeAndAgo(view.openedAt, now)],
          closedAt !== null && ['Over since', timeAndAgo(closedAt, now)],
          ['Last delivered', lastDeliveredAt === null ? 'never' : timeAndAgo(lastDeliveredAt, now)],
          ['Blocked lanes', countOfLanes(view.blockedLanes)],
          view.haltedLanes > 0 && ['Halted by a dead letter', countOfLanes(view.haltedLanes)],
          ['Waiting in them', quantity(view.waiting, 'delivery')],
          topic !== null && ['Dead letters', deadLetterCount(view)],
          dismissed > 0 && ['Dismissed', quantity(dismissed, 'dead letter')],
          !view.inCatalog && ['Catalog', 'This release’s catalog does not list the subscription.'],
        ],
        'roomy',
      ),
    ),
  });
}

function deadLetterCount({ owed, topic, subscriber, group }: IncidentView): Child {
  return owed === 0
    ? '0'
    : html`<a href="${deadLettersPath({ topic, subscriber, group })}">${count(owed)}</a>`;
}

function lanesSection(view: IncidentView, context: PageContext): Html | null {
  const { lanes, blockedLanes } = view;
  if (lanes.length === 0) return null;
  return section({
    id: 'lanes',
    title: titleOf('Blocked lanes', lanes.length, blockedLanes, countOfLanes),
    hint: 'A lane is a subscriber’s deliveries in order. While its first delivery fails, the others wait behind it.',
    content: card(
      listTable(laneList(view), {
        actions: ({ deliveryId, orderingKey }) =>
          mayReplay(context.operator) && actionForm('skip', { deliveryId }, { of: orderingKey }, context),
      }),
    ),
  });
}

function deadLettersSection(view: IncidentView): Html | null {
  const { deadLetters, owed, topic, subscriber } = view;
  if (deadLetters.length === 0) return null;
  return section({
    id: 'dead-letters',
    title: titleOf('Dead letters', deadLetters.length, owed),
    hint: html`newest first · <a href="${deadLettersPath({ topic, subscriber })}">all of ${subscriber}</a>`,
    content: card(listTable(letterList(view))),
  });
}

function actionsSection(
  { actions: done, replays, generatedAt: now }: IncidentView,
  { names }: PageContext,
): Html {
  const deeds = [
    ...done.map(({ at, operator, action, deliveryId, deliveries, reason }) => ({
      at,
      words: html`<b>${capitalize(actWords(action, deliveries))}</b> by ${operatorText(operator, names)}
        ${time(at, now)}${
          deliveryId !== null &&
          html`, delivery <a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a>`
        }${reason !== null && html`: ${reason}`}`,
    })),
    ...replays.map(({ replayId, requestedAt: at, requestedBy, replayed }) => ({
      at,
      words: html`<b>Replay</b> by ${operatorText(requestedBy, names)} ${time(at, now)}:
        <a href="${replayedPath(replayId)}">${quantity(replayed, 'delivery')}</a>`,
    })),
  ].toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
  return section({
    id: 'done',
    title: 'What operators did',
    hint: 'newest first',
    content: card(
      deeds.length === 0
        ? emptyLine('Nothing yet. Acknowledge the incident to tell others that you have taken it up.')
        : html`<ul class="deeds">
            ${deeds.map(({ words }) => html`<li>${words}</li>`)}
          </ul>`,
    ),
  });
}
