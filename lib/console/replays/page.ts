import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, reasonField, reasonForm } from '../kit/actions.ts';
import { followingRegion } from '../kit/following.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from '../kit/icons.ts';
import { timeAndAgo } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, deadLettersPath, replayedPath, replaysPath, topicPath } from '../kit/links.ts';
import { shareBar, stateCount } from '../kit/progress.ts';
import { card, factList, section } from '../kit/sections.ts';
import { count } from '../kit/words.ts';
import { isUnderWay, replayFollowing } from './follow.ts';
import type { ReplayProgress } from './read.ts';
import { scopeWords } from './scope.ts';

const REFRESH_SECONDS = 15;

/** Draws one replay and the present states of its deliveries. */
export function replayPage(view: ReplayProgress, context: PageContext): Html {
  const { topic, progress, generatedAt } = view;
  const following = replayFollowing(view);
  const content = html`<p class="back"><a href="${replaysPath()}">← Replays</a></p>
    ${heading({
      title:
        topic === null ? 'Replay of selected deliveries' : html`Replay of <span class="mono">${topic}</span>`,
      lead: scopeWords(view),
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${followingRegion(following, reviewLink(view))} ${stopForm(view, context)}
    <div class="card progress">
      ${progressBar(view)}
      <dl class="counts">
        ${stateCount('ok', CHECK_ICON, 'delivered', progress.delivered)}
        ${stateCount('', CLOCK_ICON, 'pending', progress.pending)}
        ${stateCount('fail', RETRY_ICON, 'failing', progress.failing)}
        ${stateCount('dead', DEAD_ICON, 'dead-lettered again', progress.deadLettered)}
        ${view.pace !== null && stateCount('', CLOCK_ICON, 'not put back', view.pace.left)}
        ${progress.replayedAgain > 0 && stateCount('', RETRY_ICON, 'replayed again', progress.replayedAgain)}
      </dl>
    </div>
    ${requestSection(view)}`;
  return layout(
    { title: 'Replay', section: 'replays', refreshSeconds: REFRESH_SECONDS, following, content },
    context,
  );
}

function stopForm(view: ReplayProgress, { operator }: PageContext): Html | null {
  if (!isUnderWay(view)) return null;
  if (!mayReplay(operator)) return missingReplayScope(operator);
  return html`<div class="acts choices">
    ${reasonForm({
      button: 'Stop…',
      path: `${replayedPath(view.replayId)}/stop`,
      text: 'What has not been put back stays as it is, and can be replayed later. What has been put back is delivered.',
      fields: reasonField('for example: ledger is slow again'),
      submit: html`<button class="btn sm">Stop the replay</button>`,
      isLeft: true,
    })}
  </div>`;
}

function reviewLink(view: ReplayProgress): Html | null {
  if (view.progress.deadLettered === 0) return null;
  const path = deadLettersPath({ topic: view.topic, subscriber: subscriberOf(view) });
  return html`<a class="btn" href="${path}">Review dead letters</a>`;
}

/** Draws the shares in the order of the counts below. */
function progressBar({ progress, replayed, pace }: ReplayProgress): Html {
  const { delivered, pending, failing, deadLettered, replayedAgain } = progress;
  return shareBar({
    label: `${count(delivered)} of ${count(replayed)} delivered, ${count(pending)} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered again`,
    // What a paced replay has not put back yet is the empty part.
    whole: replayed + (pace?.left ?? 0),
    parts: [
      ['ok', delivered],
      ['wait', pending],
      ['fail', failing],
      ['dead', deadLettered],
      ['wait', replayedAgain],
    ],
  });
}

function requestSection(view: ReplayProgress): Html {
  const { topic, requestedAt, requestedBy, reason, replayId, pace, generatedAt } = view;
  const { deliveryIds } = view.request;
  const selected = Array.isArray(deliveryIds) ? deliveryIds.map(String) : [];
  return section({
    id: 'request',
    title: 'Request',
    content: card(
      factList(
        [
          ['Who', requestedBy],
          ['When', timeAndAgo(requestedAt, generatedAt)],
          ['Why', reason ?? html`<span class="muted">no reason given</span>`],
          topic !== null && ['Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`],
          selected.length > 0 && selected.length <= MOST_LINKED && ['Deliveries', selected.map(deliveryLink)],
          pace !== null && ['Pace', `${count(pace.perMinute)} a minute`],
          ['Matched', count(view.matched)],
          ['Replayed', count(view.replayed)],
          pace !== null && pace.left > 0 && [pace.stopped ? 'Not put back' : 'Left', count(pace.left)],
          pace !== null &&
            pace.stopped !== null && [
              'Stopped',
              html`${timeAndAgo(pace.stopped.at, generatedAt)} by ${pace.stopped.by}: ${pace.stopped.reason}`,
            ],
          ['Replay id', html`<span class="mono">${replayId}</span>`],
        ],
        'roomy',
      ),
    ),
  });
}

/** Nobody reads a longer list. */
const MOST_LINKED = 20;

function deliveryLink(deliveryId: string): Html {
  return html`<a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a> `;
}

function subscriberOf({ request }: ReplayProgress): string | null {
  return typeof request['subscriber'] === 'string' ? request['subscriber'] : null;
}
