import type { ReplayProgress } from './read.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from '../page/icons.ts';
import { whenAndAgo } from '../page/instants.ts';
import { deadLetterPath, deadLettersPath, replaysPath, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { scopeWords } from './scope.ts';
import { count, counted } from '../page/words.ts';

/** While deliveries are under way someone is watching; a retry is minutes off. */
const WATCHED_SECONDS = 3;
const REFRESH_SECONDS = 15;

/** One replay and what has become of its deliveries. */
export function replayPage(view: ReplayProgress, context: PageContext): Html {
  const { topic, progress, generatedAt } = view;
  const refreshSeconds = progress.pending > 0 ? WATCHED_SECONDS : REFRESH_SECONDS;
  const content = html`<p class="back"><a href="${replaysPath()}">← Replays</a></p>
    ${heading({
      title:
        topic === null ? 'Replay of chosen deliveries' : html`Replay of <span class="mono">${topic}</span>`,
      lead: scopeWords(view),
      live: liveness(generatedAt, refreshSeconds, context.url),
    })}
    ${outcome(view)}
    <div class="card progress">
      ${bar(view)}
      <dl class="counts">
        ${part('ok', CHECK_ICON, 'delivered', progress.delivered)}
        ${part('', CLOCK_ICON, 'pending', progress.pending)}
        ${part('fail', RETRY_ICON, 'failing', progress.failing)}
        ${part('dead', DEAD_ICON, 'dead again', progress.deadLettered)}
        ${progress.replayedAgain > 0 && part('', RETRY_ICON, 'replayed again', progress.replayedAgain)}
      </dl>
    </div>
    ${facts(view)}`;
  return layout({ title: 'Replay', section: 'replays', refreshSeconds, content }, context);
}

function outcome(view: ReplayProgress): Html {
  const { progress, replayed, matched } = view;
  const fewer =
    matched > replayed && html` ${count(matched - replayed)} were no longer dead when the replay started.`;
  const again =
    progress.deadLettered > 0 &&
    progress.pending + progress.failing > 0 &&
    ` ${count(progress.deadLettered)} died again.`;
  const tone = progress.deadLettered > 0 ? '' : progress.failing > 0 ? 'warn' : 'good';
  const icon =
    progress.deadLettered > 0 ? DEAD_ICON : progress.pending + progress.failing > 0 ? RETRY_ICON : CHECK_ICON;
  return html`<div class="alert ${tone}" data-alert>
    ${icon}
    <p>${outcomeWords(view)}${again}${fewer}</p>
    ${
      progress.deadLettered > 0 &&
      html`<a class="btn" href="${deadLettersPath({ topic: view.topic, subscriber: subscriberOf(view) })}"
        >Review dead letters</a
      >`
    }
  </div>`;
}

function outcomeWords(view: ReplayProgress): Html {
  const { progress, replayed } = view;
  const subscriber = subscriberOf(view);
  const goal = subscriber === null ? '' : ` for ${subscriber}`;
  if (replayed === 0) return html`<b>Nothing was replayed.</b>`;
  if (progress.pending > 0 && progress.pending === replayed) {
    return html`<b>${counted(replayed, 'delivery')} ${replayed === 1 ? 'is' : 'are'} queued${goal}.</b>`;
  }
  if (progress.pending > 0) {
    return html`<b>${count(progress.delivered)} of ${counted(replayed, 'delivery')} delivered.</b>
      ${progress.failing > 0 && `${count(progress.failing)} failed and will be tried again, `}${count(progress.pending)}
      ${progress.failing > 0 ? (progress.pending === 1 ? 'waits' : 'wait') : 'queued'}${goal}.`;
  }
  if (progress.failing > 0) return html`<b>${count(progress.failing)} failed</b> and will be tried again.`;
  if (progress.deadLettered > 0) {
    return html`<b>${counted(progress.deadLettered, 'delivery')} died again.</b> The others are done.`;
  }
  return html`<b>Done.</b> ${counted(progress.delivered, 'delivery')}
    ${progress.delivered === 1 ? 'was' : 'were'} delivered.`;
}

/** In the order in which the counts stand below it. */
function bar({ progress, replayed }: ReplayProgress): Html {
  const parts = [
    ['ok', progress.delivered],
    ['wait', progress.pending],
    ['fail', progress.failing],
    ['dead', progress.deadLettered],
    ['wait', progress.replayedAgain],
  ] as const;
  const label = `${count(progress.delivered)} of ${count(replayed)} delivered, ${count(progress.pending)} pending, ${count(progress.failing)} failing, ${count(progress.deadLettered)} dead again`;
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

function part(tone: string, icon: Html, name: string, number: number): Html {
  return html`<div class="${number > 0 ? tone : ''}">
    <dt>${icon}${name}</dt>
    <dd>${count(number)}</dd>
  </div>`;
}

function facts(view: ReplayProgress): Html {
  const { topic, requestedAt, requestedBy, reason, replayId, generatedAt } = view;
  const { deliveryIds } = view.request;
  const chosen = Array.isArray(deliveryIds) ? deliveryIds.map(String) : [];
  return html`<section aria-labelledby="h-facts">
    <div class="bar"><h2 id="h-facts">What was asked for</h2></div>
    <div class="card">
      <dl class="kv roomy">
        ${fact('Who', requestedBy)} ${fact('When', whenAndAgo(requestedAt, generatedAt))}
        ${fact('Why', reason ?? html`<span class="muted">no reason given</span>`)}
        ${topic !== null && fact('Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`)}
        ${chosen.length > 0 && chosen.length <= MOST_LINKED && fact('Deliveries', chosen.map(deliveryLink))}
        ${fact('Matched', count(view.matched))} ${fact('Replayed', count(view.replayed))}
        ${fact('Replay id', html`<span class="mono">${replayId}</span>`)}
      </dl>
    </div>
  </section>`;
}

/** More of them tell nobody anything. */
const MOST_LINKED = 20;

function deliveryLink(deliveryId: string): Html {
  return html`<a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a> `;
}

function subscriberOf({ request }: ReplayProgress): string | null {
  return typeof request['subscriber'] === 'string' ? request['subscriber'] : null;
}

function fact(name: string, value: Child): Html {
  return html`<dt>${name}</dt>
    <dd>${value}</dd>`;
}
