import type { HeldLane, TopicView } from './read.ts';
import { mayReplay, retryForm, skipForm } from '../page/acts.ts';
import { until } from '../page/instants.ts';
import { deadLetterPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import type { PageContext } from '../page/layout.ts';
import { failure } from '../page/states.ts';
import { count, counted, shortId } from '../page/words.ts';

/** The lanes whose first delivery waits for a retry, and how many wait behind it. */
export function heldLanesSection(view: TopicView, context: PageContext): Html | null {
  const { heldLanes, topic } = view;
  if (heldLanes.length === 0 && topic.failing === 0) return null;
  return html`<section id="held" aria-labelledby="h-held">
    <div class="bar">
      <h2 id="h-held">Held lanes</h2>
      <span class="muted small">
        deliveries go out in order, so the others of a lane wait behind the one that fails
      </span>
    </div>
    <div class="card">
      ${
        heldLanes.length === 0
          ? html`<p class="none muted">
              No lane waits for its time any more: what fails is tried again at the relay’s next pass, or when
              its subscriber is resumed.
            </p>`
          : laneTable(view, context)
      }
    </div>
  </section>`;
}

function laneTable(view: TopicView, context: PageContext): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Held lanes, table">
    <table class="wide-table">
      <caption class="vh">
        Lanes whose first delivery waits for a retry, the next to be tried first
      </caption>
      <thead>
        <tr>
          <th class="first" scope="col">Lane</th>
          <th class="num" scope="col">Waiting</th>
          <th scope="col">Held back</th>
          <th scope="col">Last error</th>
          <th class="last" scope="col"><span class="vh">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${view.heldLanes.map((lane) => laneRow(lane, view, context))}
      </tbody>
    </table>
  </div>`;
}

function laneRow(lane: HeldLane, { topic, orderedBy, generatedAt }: TopicView, context: PageContext): Html {
  const { subscriber, orderingKey, deliveryId, subject, nextAttemptAt } = lane;
  const key =
    orderingKey === '' ? 'whole topic' : html`${orderedBy ?? 'key'} <span class="mono">${orderingKey}</span>`;
  const of = `${topic.topic} to ${subscriber} ${orderingKey}`.trimEnd();
  const isPaused = topic.subscribers.some((one) => one.subscriber === subscriber && one.paused);
  return html`<tr class="r">
    <th class="first row" scope="row">
      <span class="mono t">${subscriber}</span><span class="s wrap">${key}</span>
    </th>
    <td class="num">${behindWords(lane)}</td>
    <td>
      behind
      <a class="mono nowrap" href="${deadLetterPath(deliveryId)}">${topic.topic} ${shortId(lane.eventId)}</a>,
      next try ${isPaused ? 'when it is resumed' : until(nextAttemptAt, generatedAt)}
      <span class="s">${subject !== null && `${subject}, `}${attemptWords(lane.attempts)}</span>
    </td>
    <td class="message">${lane.lastError === null ? 'asked for time' : failure(lane.lastError)}</td>
    <td class="last">
      ${
        mayReplay(context.operator) &&
        html`<div class="acts">
          ${retryForm(deliveryId, of, context)} ${skipForm(deliveryId, of, context)}
        </div>`
      }
    </td>
  </tr>`;
}

function behindWords({ behind, isMoreBehind }: HeldLane): Html {
  if (isMoreBehind) return html`over ${count(behind)}`;
  return html`${count(behind)}<span class="vh">
      ${behind === 1 ? 'delivery waits' : 'deliveries wait'}</span
    >`;
}

function attemptWords(attempts: number): string {
  return attempts === 0 ? 'not attempted yet' : counted(attempts, 'attempt');
}
