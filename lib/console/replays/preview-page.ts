import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { duration, span, time, timeToMinute } from '../kit/instants.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, HOME, incidentPath } from '../kit/links.ts';
import { confirmField, requestFields, warning } from '../kit/preview.ts';
import { factList } from '../kit/sections.ts';
import { failureLabel, lastFailureClause } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count, quantity, lastPeriod } from '../kit/words.ts';
import type { LeftOut, PreviewedSubscription, ReplayPreview } from './preview.ts';

/** Draws what a replay would do, and the form that starts it. */
export function previewPage(view: ReplayPreview, context: PageContext): Html {
  const content = view.matched === 0 ? nothingToReplay(view) : confirmation(view, context);
  return layout({ title: 'Replay', section: 'dead-letters', content }, context);
}

function confirmation(view: ReplayPreview, { operator }: PageContext): Html {
  const what = quantity(view.matched, view.isAll ? 'delivery' : 'dead letter');
  return html`<form class="panel" method="post" action="${HOME}/replay">
    <h1>Replay ${what}?</h1>
    <p class="muted">Nothing has been sent yet. This is what the replay would do.</p>
    ${view.isAll && redeliveryWarning()} ${view.leftOut.map(leftOutWarning)}
    ${view.subscriptions.map((subscription) => subscriptionWarning(subscription, view.generatedAt))}
    ${previewFacts(view)} ${missingReplayScope(operator)}
    ${
      mayReplay(operator) &&
      html`${requestFields({ ...view.request, perMinute: null, replayId: view.replayId, expectedCount: view.matched })}
      ${view.matched > 1 && paceField(view)} ${reasonField('for example: ledger is back after INC-4411')}
      ${confirmField(view.matched, 'replay')}`
    }
    <div class="end">
      <a class="btn" href="${cancelPath(view)}">Cancel</a>
      ${mayReplay(operator) && html`<button class="btn primary">Replay ${what}</button>`}
    </div>
  </form>`;
}

/** The pace that the page suggests, in deliveries a minute: slow enough for any subscriber that delivers at all. */
const SUGGESTED_PACE = 1000;

function paceField({ matched, request: { perMinute } }: ReplayPreview): Html {
  const takes = duration(Math.ceil((matched / SUGGESTED_PACE) * 60) * SECOND);
  return html`<label class="f">
    Deliveries a minute
    <span class="hint">Empty: all at once. ${count(SUGGESTED_PACE)} a minute take about ${takes}</span>
    <input
      name="perMinute"
      inputmode="numeric"
      autocomplete="off"
      pattern="[0-9]{1,7}"
      title="A whole number, 1 to 1000000, or nothing"
      value="${perMinute ?? ''}"
    />
  </label>`;
}

function previewFacts(view: ReplayPreview): Html {
  const { topic, error, generatedAt, createdFrom, createdTo, endedFrom, endedTo } = view;
  const {
    estimatedSeconds,
    request: { perMinute },
  } = view;
  return factList([
    topic !== null && ['Topic', html`<span class="mono">${topic}</span>`],
    error !== null && ['Error', failureLabel(error)],
    ['Goes to', destinations(view)],
    createdFrom !== null && createdTo !== null && ['Recorded', span(createdFrom, createdTo, generatedAt)],
    endedFrom !== null && endedTo !== null && [endedWord(view), span(endedFrom, endedTo, generatedAt)],
    perMinute !== undefined &&
      estimatedSeconds !== null && [
        'Pace',
        `${count(perMinute)} a minute, about ${duration(estimatedSeconds * SECOND)}`,
      ],
    ['How', 'Oldest first, same event ids, attempt numbers start again at 1'],
  ]);
}

function endedWord({ isAll, request: { include } }: ReplayPreview): string {
  if (isAll) return 'Ended';
  return include === 'dismissed' ? 'Dismissed' : 'Dead-lettered';
}

function destinations({ subscriptions, topic: onlyTopic }: ReplayPreview): Html {
  const [first] = subscriptions;
  if (first !== undefined && subscriptions.length === 1) {
    const { subscriber, topic, others } = first;
    const rest =
      others === 0
        ? html`, the only subscriber of <span class="mono">${topic}</span>.`
        : ` only. ${others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`} nothing.`;
    return html`${subscriberLink(subscriber, topic)}${rest}`;
  }
  return html`<ul class="goes">
    ${subscriptions.map(
      ({ topic, subscriber, count: number }) =>
        html`<li>
          <b>${count(number)}</b> ${onlyTopic === null && html`<span class="mono">${topic}</span>`} to
          ${subscriberLink(subscriber, topic)}
        </li>`,
    )}
  </ul>`;
}

function redeliveryWarning(): Html {
  return warning(
    html`<b>Delivered events are sent again too.</b> A subscriber that does not recognise their event ids
      handles them twice.`,
  );
}

function leftOutWarning({ topic, subscriber, count: number, reason }: LeftOut): Html {
  const on = html`<span class="mono">${topic}</span>`;
  const why =
    reason === 'refuses_replays'
      ? html`${subscriber} refuses replays of ${on}, because it would act twice. Settle its dead letters
        another way, then dismiss them.`
      : html`This release’s catalog does not list ${subscriber} for ${on}.`;
  return warning(
    html`<b>${quantity(number, 'delivery')} to ${subscriber} ${number === 1 ? 'is' : 'are'} left out.</b>
      ${why}`,
  );
}

function subscriptionWarning(one: PreviewedSubscription, now: string): Child {
  const { subscriber, attached, paused, isStillFailing } = one;
  if (!attached) {
    return warning(
      html`<b>${subscriber} is not attached.</b> Replayed deliveries wait until it has a handler or an
        endpoint.`,
    );
  }
  if (paused) {
    return warning(html`<b>${subscriber} is paused.</b> Replayed deliveries wait until someone resumes it.`);
  }
  return isStillFailing && warning(stillFailing(one, now));
}

function stillFailing(
  { subscriber, topic, lastDeliveredAt, lastFailedAt, lastError }: PreviewedSubscription,
  now: string,
): Html {
  const name = html`<span class="mono">${topic}</span>`;
  const accepted =
    lastDeliveredAt === null
      ? html`It has never accepted a ${name} delivery`
      : html`It has accepted no ${name} delivery since ${timeToMinute(lastDeliveredAt, now)}`;
  const failed =
    lastError !== null &&
    lastFailedAt !== null &&
    html`, and ${lastFailureClause(lastError)} at ${time(lastFailedAt, now)}`;
  return html`<b>${subscriber} is still failing.</b> ${accepted}${failed}. A replay now will probably fail
    too.`;
}

function nothingToReplay({ topic, request, leftOut }: ReplayPreview): Html {
  const { since } = request;
  const within = typeof since === 'string' && since !== ALL_TIME ? ` in the ${lastPeriod(since)}` : '';
  return html`<div class="panel">
    <div class="empty">
      ${CHECK_ICON}
      <h1>Nothing to replay</h1>
      <p>
        ${
          leftOut.length > 0
            ? 'All that matches is left out.'
            : topic === null
              ? 'The selected deliveries are no longer dead-lettered.'
              : html`No dead letters on <span class="mono">${topic}</span>${within}.`
        }
      </p>
      ${leftOut.map(leftOutWarning)}
      <a class="btn" href="${deadLettersPath()}">Dead letters</a>
    </div>
  </div>`;
}

function cancelPath({ topic, subscriptions, request: { incident } }: ReplayPreview): string {
  if (incident !== undefined) return incidentPath(incident);
  const subscriber = subscriptions.length === 1 ? subscriptions[0]?.subscriber : null;
  return deadLettersPath({ topic, subscriber });
}
