import { edgeWords } from '../../components/incidents/edge-failures.ts';
import { html } from '../../platform/markup.ts';
import { dismissLetterForm, mayReplay, replayLink, retireLink } from '../kit/actions.ts';
import { actWords } from '../kit/acts.ts';
import { does } from '../kit/doc.ts';
import type { Act, Block, Doc, Suggestion } from '../kit/doc.ts';
import {
  errorPhrase,
  inConsole,
  link,
  mono,
  say,
  strong,
  styled,
  toMinute,
  when,
  whenAndAgo,
} from '../kit/document.ts';
import type { Facts, Part, Phrase } from '../kit/document.ts';
import { CHECK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
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
import type { OperatorNames } from '../kit/operator-names.ts';
import { pauseAlerts } from '../kit/pause-alerts.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { capitalize, count, countOfLanes, quantity } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';
import { acknowledgeForm, dismissForm } from './forms.ts';
import { TONES } from './list.ts';
import { haltList, laneList, letterList, topicList } from './lists.ts';
import { isMoving, recoverySteps } from './recovery.ts';
import { shortCause } from './sentence.ts';
import { leftWords, storyClauses, storyPhrase, titleOf, whenPhrase } from './words.ts';

/** Someone watches what moves; the rest changes within minutes. */
const WATCHED_SECONDS = 1;

/** Says one incident: what is wrong, the way out of it, what it blocks, what it owes, and what was done. */
export function incidentDoc(view: IncidentView, names: OperatorNames): Doc {
  const { subscriber, topic, generatedAt: at, state, lastError } = view;
  const frame = { section: 'incidents', at, back: [incidentsPath(), 'Incidents'] } as const;
  if (subscriber === '') return { ...frame, ...asideDoc(view, names) };
  return {
    ...frame,
    title:
      topic === null
        ? say`${mono(subscriber)} does not answer`
        : say`${mono(subscriber)} on ${mono(topic)}: ${shortCause(lastError)}`,
    lead: say`${errorPhrase(lastError)} ${whenPhrase(view, at)}`,
    ...(isMoving(view) && { refreshSeconds: WATCHED_SECONDS }),
    alerts: [
      sentenceAlert(view, names),
      (context) => state !== 'closed' && pauseAlerts({ subscriber, topic }, at, context),
    ],
    blocks: [
      isFolded(view) && foldedStory(view),
      { id: 'choices', drawn: (context) => choices(view, context) },
      {
        id: 'recovery',
        title: 'When it is fixed',
        drawn: (context) => recoverySteps(view, context),
        lines: view.replays.map((replay) => replayPhrase(replay, at)),
      },
      { id: 'topics', title: 'What waits', hint: inConsole('the most first'), list: topicList(view) },
      {
        id: 'halted',
        title: titleOf('Halted lanes', view.halts.length, view.haltedLanes, countOfLanes),
        hint: inConsole(
          'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
        ),
        list: haltList(view),
        acts: (halt) => [haltActs(view, halt)],
      },
      {
        id: 'lanes',
        title: titleOf('Blocked lanes', view.lanes.length, view.blockedLanes, countOfLanes),
        hint: inConsole(
          'A lane is a subscriber’s deliveries in order. While its first delivery fails, the others wait behind it.',
        ),
        list: laneList(view),
        acts: ({ deliveryId, orderingKey }: IncidentView['lanes'][number]) => [
          does('skip', { deliveryId }, { of: orderingKey }),
        ],
      },
      {
        id: 'dead-letters',
        title: titleOf('Dead letters', view.deadLetters.length, view.owed),
        hint: say`newest first${inConsole(html` · <a href="${deadLettersPath({ topic, subscriber })}">all of ${subscriber}</a>`)}`,
        list: letterList(view),
      },
      { id: 'facts', title: 'Facts', facts: factsOf(view) },
      deeds(view, names),
    ],
    next: suggestions(view),
  };
}

/** Of the bus itself, of chat or of a budget: it blocks no lane and has no dead letters. */
function asideDoc(
  view: IncidentView,
  names: OperatorNames,
): Pick<Doc, 'title' | 'lead' | 'alerts' | 'blocks'> {
  const { topic, generatedAt: at, state, lastError } = view;
  const edge = edgeWords(lastError.kind);
  const ofBus = topic === null ? 'The database’s clock was ahead' : `Rows of ${topic} set aside`;
  const repairs: Act = {
    button: () => html`<a class="btn" href="${setAsidePath()}">See and repair…</a>`,
    command: ['To see and repair it', 'set-aside'],
  };
  return {
    title: edge ? capitalize(edge.title) : ofBus,
    lead: say`since ${toMinute(view.openedAt, at)}`,
    alerts: [{ ...sentenceAlert(view, names), act: !edge && state !== 'closed' && repairs }],
    blocks: [
      {
        id: 'choices',
        drawn: (context) =>
          mayReplay(context.operator) &&
          state !== 'closed' &&
          html`<div class="acts choices">${acknowledgeForm(view, context)}</div>`,
      },
      deeds(view, names),
    ],
  };
}

const ICONS = { happening: DEAD_ICON, owed: WARNING_ICON, closed: CHECK_ICON };

function sentenceAlert(view: IncidentView, names: OperatorNames) {
  const { state, sentence, acknowledged, generatedAt: now } = view;
  const by =
    acknowledged &&
    say` Acknowledged by ${operatorText(acknowledged.by, names)} at ${toMinute(acknowledged.at, now)}: ${acknowledged.note}`;
  const story = isFolded(view) ? null : storyPhrase(view);
  return {
    tone: TONES[state],
    icon: ICONS[state],
    words: say`${strong(sentence)}${by}${
      story && {
        html: html`<span class="s" id="story">The story of ${view.subscriber}: ${story.html}</span>`,
        text: ` The story of ${view.subscriber}: ${story.text}`,
      }
    }`,
  };
}

/** More would fill a phone's page before its first button. */
const CAUSES_IN_SENTENCE = 3;

const isFolded = (view: IncidentView) => storyClauses(view).length > CAUSES_IN_SENTENCE;

/** The story of a subscriber with many causes, to be opened in a browser. */
function foldedStory(view: IncidentView): Block {
  const clauses = storyClauses(view);
  return {
    id: 'story',
    drawn: () =>
      card(
        html`<details class="more" id="story">
          <summary>The story of ${view.subscriber}: ${quantity(clauses.length, 'error')}</summary>
          <ol class="deeds">
            ${clauses.map((clause) => html`<li>${clause.html}</li>`)}
          </ol>
        </details>`,
      ),
    lines: clauses,
  };
}

function choices(view: IncidentView, context: PageContext) {
  const isOpen = mayReplay(context.operator) && view.state !== 'closed';
  return (
    isOpen &&
    html`<div class="acts choices">
      ${acknowledgeForm(view, context)}
      ${
        view.lanes.length > 1 &&
        html`<a class="btn sm" href="${incidentPath(view.incidentId)}/skip">Skip all that hold its lanes…</a>`
      }
      ${view.owed > 0 && dismissForm(view, context)}
      ${!view.inCatalog && view.topic !== null && retireLink(view.subscriber, view.topic)}
    </div>`
  );
}

function haltActs({ topic, subscriber }: IncidentView, halt: IncidentView['halts'][number]): Act {
  const of = `${topic} to ${subscriber} ${halt.orderingKey}`.trimEnd();
  const { deliveryId } = halt;
  return {
    button: (context) =>
      mayReplay(context.operator) &&
      html`${replayLink(of, { deliveryIds: deliveryId })} ${dismissLetterForm(deliveryId, of, true, context)}`,
  };
}

function factsOf(view: IncidentView): Facts {
  const { topic, subscriber, generatedAt: now, lastDeliveredAt, dismissed, closedAt, owed } = view;
  const path = deadLettersPath({ topic, subscriber, group: view.group });
  return [
    ['Topic', topic === null ? 'all its topics' : link(topicPath(topic), topic)],
    ['Subscriber', link(subscriberPath(subscriber), subscriber)],
    ['Last error', errorPhrase(view.lastError)],
    ['First failure', whenAndAgo(view.openedAt, now)],
    closedAt !== null && ['Over since', whenAndAgo(closedAt, now)],
    ['Last delivered', lastDeliveredAt === null ? 'never' : whenAndAgo(lastDeliveredAt, now)],
    ['Blocked lanes', countOfLanes(view.blockedLanes)],
    view.haltedLanes > 0 && ['Halted by a dead letter', countOfLanes(view.haltedLanes)],
    ['Waiting in them', quantity(view.waiting, 'delivery')],
    topic !== null && [
      'Dead letters',
      owed === 0 ? '0' : { html: html`<a href="${path}">${count(owed)}</a>`, text: count(owed) },
    ],
    dismissed > 0 && ['Dismissed', quantity(dismissed, 'dead letter')],
    !view.inCatalog && ['Catalog', 'This release’s catalog does not list the subscription.'],
    ['Id', { html: null, text: view.incidentId }],
  ];
}

/** `Confirmed 00:41, 7 of 7`, or how far the replay is; for a terminal, which has no steps. */
function replayPhrase(replay: IncidentView['replays'][number], now: string): Phrase {
  const { delivered, replayed, confirmedAt, requestedBy, requestedAt, failedAgain } = replay;
  const share = `${count(delivered)} of ${count(replayed)}`;
  const by = say`replayed by ${requestedBy} at ${when(requestedAt, now)}`;
  if (confirmedAt !== null)
    return styled('green', say`✓ Confirmed ${when(confirmedAt, now)}, ${share}, ${by}`);
  const again = failedAgain.map(({ deliveryId }) => deliveryId).join(', ');
  const left = `${leftWords(replay)}${again && ` (${again})`}`;
  return say`${share} delivered${left && `, ${left}`}, ${by}`;
}

function deeds({ actions, replays, generatedAt: now }: IncidentView, names: OperatorNames): Block {
  const done: readonly { readonly at: string; readonly words: Part }[] = [
    ...actions.map(({ at, operator, action, deliveryId, deliveries, reason }) => ({
      at,
      words: say`${strong(capitalize(actWords(action, deliveries)))} by ${operatorText(operator, names)} ${when(at, now)}${
        deliveryId !== null && say`, delivery ${link(deadLetterPath(deliveryId), deliveryId)}`
      }${reason !== null && `: ${reason}`}`,
    })),
    ...replays.map(({ replayId, requestedAt: at, requestedBy, replayed }) => {
      const what = quantity(replayed, 'delivery');
      const shown = { html: html`<a href="${replayedPath(replayId)}">${what}</a>`, text: what };
      return {
        at,
        words: say`${strong('Replay')} by ${operatorText(requestedBy, names)} ${when(at, now)}: ${shown}`,
      };
    }),
  ];
  const words = done
    .toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at))
    .map((one) => say`${one.words}`);
  return {
    id: 'done',
    title: 'What operators did',
    hint: 'newest first',
    drawn: () =>
      card(
        words.length === 0
          ? emptyLine('Nothing yet. Acknowledge the incident to tell others that you have taken it up.')
          : html`<ul class="deeds">
              ${words.map((one) => html`<li>${one.html}</li>`)}
            </ul>`,
      ),
    lines: words,
  };
}

/** Names the commands that come next. */
function suggestions(view: IncidentView): readonly (Suggestion | false | null | undefined)[] {
  const { incidentId, topic, subscriber, lanes, halts, owed, inCatalog, refusesReplays, state, next } = view;
  if (topic === null) return [state !== 'closed' && ['To probe it now', `retry ${subscriber} --wait`]];
  if (!inCatalog && state !== 'closed')
    return [['No longer in the catalog', `retire ${subscriber} --topic ${topic} --reason <text>`]];
  const [halt] = halts;
  const letters = quantity(owed, 'dead letter');
  return [
    next !== null && state !== 'owed' && ['It goes on as another', `incidents ${next.incidentId}`],
    lanes.length > 0 && ['Is it fixed? To try one delivery, at no cost', `probe ${incidentId} --wait`],
    lanes.length > 0 && ['When it is fixed', `retry ${incidentId} --wait`],
    owed > 0 &&
      refusesReplays && [
        `${subscriber} refuses replays, because it would act twice. Settle ${letters} another way, then`,
        `dismiss ${incidentId} --reason <text>`,
      ],
    owed > 0 && !refusesReplays && [`To replay ${letters}`, `replay --incident ${incidentId}`],
    halt && ['To let a lane go on without its dead letter', `dismiss ${halt.deliveryId} --reason <text>`],
  ];
}
