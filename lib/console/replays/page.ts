import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope } from '../kit/actions.ts';
import { CLOCK_ICON, RETRY_ICON } from '../kit/icons.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, replayedPath, replaysPath, topicPath } from '../kit/links.ts';
import { operationPage, reviewLink, stopForm, topicCounts } from '../kit/operation-pages.ts';
import type { Kind } from '../kit/operation-pages.ts';
import { operatorText } from '../kit/operator-names.ts';
import { progressCard } from '../kit/progress.ts';
import { count } from '../kit/words.ts';
import { isUnderWay, replayFollowing } from './follow.ts';
import type { ReplayProgress } from './read.ts';
import { nameOf, scopeWords } from './scope.ts';

export const REPLAY: Kind = {
  one: 'replay',
  several: 'Replays',
  list: replaysPath(),
  listName: 'the operator log',
  pathOf: replayedPath,
};

/** Draws one replay and the present states of its deliveries. */
export function replayPage(view: ReplayProgress, context: PageContext): Html {
  const { topic, progress, replayed, pace, request, generatedAt: now } = view;
  const { deliveryIds, subscriber } = request;
  const selected = Array.isArray(deliveryIds) ? deliveryIds.map(String) : [];
  const stopped = pace?.stopped ?? null;
  return operationPage({
    kind: REPLAY,
    view,
    context,
    title:
      topic === null
        ? `Replay of ${nameOf(view).toLowerCase()}`
        : html`Replay of <span class="mono">${topic}</span>`,
    lead: scopeWords(view),
    following: replayFollowing(view, context.names),
    review: reviewLink(progress.deadLettered, {
      topic,
      subscriber: typeof subscriber === 'string' ? subscriber : null,
    }),
    progress: html`${stop(view, context)}
    ${progressCard({
      states: progress,
      of: replayed,
      whole: replayed + (pace?.left ?? 0),
      dead: 'dead-lettered again',
      others: [
        pace !== null && [CLOCK_ICON, 'not put back', pace.left],
        progress.replayedAgain > 0 && [RETRY_ICON, 'replayed again', progress.replayedAgain, 'wait'],
      ],
    })}`,
    id: view.replayId,
    facts: [
      topic !== null && ['Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`],
      selected.length > 0 && selected.length <= MOST_LINKED && ['Deliveries', selected.map(deliveryLink)],
      topic === null &&
        view.recipients !== null &&
        view.recipients.length > 0 && ['Went to', topicCounts(view.recipients)],
      pace !== null && ['Pace', `${count(pace.perMinute)} a minute`],
      ['Matched', count(view.matched)],
      ['Replayed', count(replayed)],
      pace !== null && pace.left > 0 && [stopped ? 'Not put back' : 'Left', count(pace.left)],
      stopped !== null && [
        'Stopped',
        html`${timeAndAgo(stopped.at, now)} by ${operatorText(stopped.by, context.names)}: ${stopped.reason}`,
      ],
    ],
  });
}

/** Nobody reads a longer list. */
const MOST_LINKED = 20;

function deliveryLink(deliveryId: string): Html {
  return html`<a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a> `;
}

function stop(view: ReplayProgress, { operator }: PageContext): Child {
  if (!isUnderWay(view)) return null;
  if (!mayReplay(operator)) return missingReplayScope(operator);
  const text =
    'What has not been put back stays as it is, and can be replayed later. What has been put back is delivered.';
  return html`<div class="acts choices">
    ${stopForm(REPLAY, view.replayId, text, 'ledger is slow again')}
  </div>`;
}
