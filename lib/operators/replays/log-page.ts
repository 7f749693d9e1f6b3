import type { OperatorAction, OperatorLog, ReplayRecord } from './read.ts';
import { whenAndAgo } from '../page/instants.ts';
import { deadLetterPath, replayedPath, replaysPath, sameWith, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { scopeWords } from './scope.ts';
import { count } from '../page/words.ts';

const REFRESH_SECONDS = 15;

/** Who did what, when and why: replays, then the other acts. */
export function logPage(view: OperatorLog, context: PageContext): Html {
  const content = html`${heading({
    title: 'Replays',
    lead: 'Who replayed what and why, newest first. What was replayed is counted when it was put back.',
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${replaysSection(view, context)} ${actionsSection(view)} ${pager(view, context)}`;
  return layout({ title: 'Replays', section: 'replays', refreshSeconds: REFRESH_SECONDS, content }, context);
}

function replaysSection({ replays, generatedAt }: OperatorLog, { url }: PageContext): Html {
  if (replays.length === 0) return url.searchParams.has('cursor') ? noOlder('replays') : noReplays();
  return html`<div class="card">
    <div class="scroll" tabindex="0" role="region" aria-label="Replays">
      <table class="wide-table">
        <caption class="vh">
          Replays, newest first
        </caption>
        <thead>
          <tr>
            <th class="first" scope="col">When</th>
            <th scope="col">What</th>
            <th scope="col">Who</th>
            <th scope="col">Why</th>
            <th class="num" scope="col">Matched</th>
            <th class="num" scope="col">Replayed</th>
            <th class="last" scope="col"><span class="vh">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${replays.map((replay) => replayRow(replay, generatedAt))}
        </tbody>
      </table>
    </div>
  </div>`;
}

function replayRow(replay: ReplayRecord, now: string): Html {
  const what = replay.topic ?? 'Chosen one by one';
  return html`<tr class="r">
    <td class="first nowrap">${whenAndAgo(replay.requestedAt, now)}</td>
    <td>
      <a class="t ${replay.topic === null ? '' : 'mono'}" href="${replayedPath(replay.replayId)}">${what}</a
      ><span class="s">${scopeWords(replay)}</span>
    </td>
    <td class="nowrap">${replay.requestedBy}</td>
    <td class="message">${reasonOr(replay.reason)}</td>
    <td class="num">${count(replay.matched)}</td>
    <td class="num">${count(replay.replayed)}</td>
    <td class="last">
      <div class="acts">
        <a class="btn sm quiet" href="${replayedPath(replay.replayId)}"
          >Details<span class="vh"> the replay of ${what}</span></a
        >
      </div>
    </td>
  </tr>`;
}

function noReplays(): Html {
  return html`<div class="card">
    <div class="empty">
      <h2>No replays yet</h2>
      <p>When someone replays dead letters, who, why and how it went is kept here.</p>
    </div>
  </div>`;
}

function noOlder(what: string): Html {
  return html`<div class="card"><p class="none muted">No older ${what}.</p></div>`;
}

const ACTIONS = {
  retry: 'Told to retry now',
  skip: 'Skipped',
  pause: 'Paused',
  resume: 'Resumed',
  reveal: 'Looked at personal data',
} as const;

function actionsSection({ actions, generatedAt }: OperatorLog): Html {
  return html`<section class="after" aria-labelledby="h-actions">
    <div class="bar"><h2 id="h-actions">Other actions</h2></div>
    <div class="card">
      ${
        actions.length === 0
          ? html`<p class="none muted">
              Nobody has retried, skipped, paused, resumed or revealed anything here.
            </p>`
          : actionTable(actions, generatedAt)
      }
    </div>
  </section>`;
}

function actionTable(actions: readonly OperatorAction[], now: string): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Other actions, table">
    <table class="wide-table">
      <caption class="vh">
        Other actions of operators, newest first
      </caption>
      <thead>
        <tr>
          <th class="first" scope="col">When</th>
          <th scope="col">What</th>
          <th scope="col">On</th>
          <th scope="col">Who</th>
          <th class="last message" scope="col">Why</th>
        </tr>
      </thead>
      <tbody>
        ${actions.map((action) => actionRow(action, now))}
      </tbody>
    </table>
  </div>`;
}

function actionRow(action: OperatorAction, now: string): Html {
  return html`<tr class="r">
    <td class="first nowrap">${whenAndAgo(action.at, now)}</td>
    <td class="nowrap">${ACTIONS[action.action]}</td>
    <td class="nowrap">${object(action)}</td>
    <td class="nowrap">${action.operator}</td>
    <td class="last message">${reasonOr(action.reason)}</td>
  </tr>`;
}

/** What it was done to: a delivery, or a subscriber of one topic or of all. */
function object({ topic, subscriber, deliveryId }: OperatorAction): Html {
  const where = topic === null ? 'all topics' : html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`;
  const delivery =
    deliveryId !== null &&
    html`, delivery <a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a>`;
  return html`${where}<span class="s">${subscriber !== null && `to ${subscriber}`}${delivery}</span>`;
}

function reasonOr(reason: string | null): Child {
  return reason ?? html`<span class="muted">no reason given</span>`;
}

function pager({ nextCursor }: OperatorLog, { url }: PageContext): Html | null {
  const isFirst = !url.searchParams.has('cursor');
  if (isFirst && nextCursor === null) return null;
  return html`<nav class="pager" aria-label="Pages">
    <span class="sp"></span>
    ${isFirst ? html`<span class="btn sm" aria-disabled="true">Newest</span>` : html`<a class="btn sm" href="${replaysPath()}">Newest</a>`}
    ${
      nextCursor === null
        ? html`<span class="btn sm" aria-disabled="true">Older</span>`
        : html`<a class="btn sm" href="${sameWith(url, { cursor: nextCursor })}" rel="next">Older</a>`
    }
  </nav>`;
}
