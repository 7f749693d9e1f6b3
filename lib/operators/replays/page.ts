import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from '../page/icons.ts';
import { timeAndAgo } from '../page/instants.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { deadLetterPath, deadLettersPath, replaysPath, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { alert, card, factList, section } from '../page/sections.ts';
import { count, quantity } from '../page/words.ts';
import type { ReplayProgress } from './read.ts';
import { scopeWords } from './scope.ts';

/** Pending deliveries change within seconds and someone is watching; a retry is minutes away. */
const WATCHED_SECONDS = 3;
const REFRESH_SECONDS = 15;

/** Draws one replay and the present states of its deliveries. */
export function replayPage(view: ReplayProgress, context: PageContext): Html {
  const { topic, progress, generatedAt } = view;
  const refreshSeconds = progress.pending > 0 ? WATCHED_SECONDS : REFRESH_SECONDS;
  const content = html`<p class="back"><a href="${replaysPath()}">← Replays</a></p>
    ${heading({
      title:
        topic === null ? 'Replay of selected deliveries' : html`Replay of <span class="mono">${topic}</span>`,
      lead: scopeWords(view),
      live: liveness(generatedAt, refreshSeconds, context.url),
    })}
    ${outcomeAlert(view)}
    <div class="card progress">
      ${progressBar(view)}
      <dl class="counts">
        ${stateCount('ok', CHECK_ICON, 'delivered', progress.delivered)}
        ${stateCount('', CLOCK_ICON, 'pending', progress.pending)}
        ${stateCount('fail', RETRY_ICON, 'failing', progress.failing)}
        ${stateCount('dead', DEAD_ICON, 'dead-lettered again', progress.deadLettered)}
        ${progress.replayedAgain > 0 && stateCount('', RETRY_ICON, 'replayed again', progress.replayedAgain)}
      </dl>
    </div>
    ${requestSection(view)}`;
  return layout({ title: 'Replay', section: 'replays', refreshSeconds, content }, context);
}

function outcomeAlert(view: ReplayProgress): Html {
  const { progress, replayed, matched, topic } = view;
  const { deadLettered, failing, pending } = progress;
  const isUnfinished = pending + failing > 0;
  const again = deadLettered > 0 && isUnfinished && ` ${count(deadLettered)} dead-lettered again.`;
  const missed = matched - replayed;
  const fewer =
    missed > 0 &&
    ` ${count(missed)} ${missed === 1 ? 'was' : 'were'} no longer dead-lettered when the replay started.`;
  return alert(
    deadLettered > 0 ? 'dead' : failing > 0 ? 'fail' : 'ok',
    deadLettered > 0 ? DEAD_ICON : isUnfinished ? RETRY_ICON : CHECK_ICON,
    html`${outcomeWords(view)}${again}${fewer}`,
    deadLettered > 0 &&
      html`<a class="btn" href="${deadLettersPath({ topic, subscriber: subscriberOf(view) })}"
        >Review dead letters</a
      >`,
  );
}

function outcomeWords(view: ReplayProgress): Html {
  const { progress, replayed } = view;
  const { delivered, deadLettered, failing, pending } = progress;
  const subscriber = subscriberOf(view);
  const goal = subscriber === null ? '' : ` for ${subscriber}`;
  if (replayed === 0) return html`<b>Nothing was replayed.</b>`;
  if (pending === replayed) {
    return html`<b>${quantity(replayed, 'delivery')} ${replayed === 1 ? 'is' : 'are'} re-queued${goal}.</b>`;
  }
  if (pending > 0) {
    return html`<b>${count(delivered)} of ${quantity(replayed, 'delivery')} delivered.</b>
      ${failing > 0 && `${count(failing)} failed and will be retried. `}${count(pending)} pending${goal}.`;
  }
  if (failing > 0) return html`<b>${count(failing)} failed</b> and will be retried.`;
  if (deadLettered > 0) {
    return html`<b>${quantity(deadLettered, 'delivery')} dead-lettered again.</b> The others are done.`;
  }
  return html`<b>Done.</b> ${quantity(delivered, 'delivery')} delivered.`;
}

/** Draws the shares in the order of the counts below. */
function progressBar({ progress, replayed }: ReplayProgress): Html {
  const parts = [
    ['ok', progress.delivered],
    ['wait', progress.pending],
    ['fail', progress.failing],
    ['dead', progress.deadLettered],
    ['wait', progress.replayedAgain],
  ] as const;
  const label = `${count(progress.delivered)} of ${count(replayed)} delivered, ${count(progress.pending)} pending, ${count(progress.failing)} failing, ${count(progress.deadLettered)} dead-lettered again`;
  const whole = Math.max(1, replayed);
  let from = 0;
  return html`<svg
    class="share"
    viewBox="0 0 1000 12"
    preserveAspectRatio="none"
    role="img"
    aria-label="${label}"
  >
    ${parts.map(([tone, number]) => {
      const x = from;
      from += (number / whole) * 1000;
      return number > 0 && html`<rect class="${tone}" x="${x}" width="${from - x}" height="12" />`;
    })}
  </svg>`;
}

function stateCount(tone: string, icon: Html, name: string, number: number): Html {
  return html`<div class="${number > 0 ? tone : ''}">
    <dt>${icon}${name}</dt>
    <dd>${count(number)}</dd>
  </div>`;
}

function requestSection(view: ReplayProgress): Html {
  const { topic, requestedAt, requestedBy, reason, replayId, generatedAt } = view;
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
          ['Matched', count(view.matched)],
          ['Replayed', count(view.replayed)],
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
