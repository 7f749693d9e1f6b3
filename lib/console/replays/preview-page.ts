import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { earlierPhrase } from '../kit/earlier-words.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { duration, span } from '../kit/instants.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, HOME, incidentPath } from '../kit/links.ts';
import { confirmation, previewed, topicCounts, warningLines } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { failureLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count, groupWords, quantity } from '../kit/words.ts';
import type { ReplayPreview } from './preview.ts';
import { leftOutWarnings, nothingWords, subscriptionNote, warningsOf } from './words.ts';

/** Draws what a replay would do, and the form that starts it. */
export function previewPage(view: ReplayPreview, context: PageContext): Html {
  const content = view.matched === 0 ? nothingToReplay(view) : preview(view, context);
  return layout({ title: 'Replay', section: 'dead-letters', content }, context);
}

function preview(view: ReplayPreview, context: PageContext): Html {
  const { operator, entered } = context;
  const { matched, topic, error, endedFrom, endedTo, createdFrom, createdTo, generatedAt: now } = view;
  const { estimatedSeconds, replayId, request } = view;
  const { perMinute, group, q } = request;
  const [first, ...others] = view.subscriptions;
  const onlyTopic = topic ?? (others.length === 0 ? first?.topic : undefined);
  const what = quantity(matched, view.isAll ? 'delivery' : 'dead letter');
  const isAllowed = mayReplay(operator);
  return html`<form class="panel" method="post" action="${HOME}/replay">
    ${previewed(
      `Replay ${what}?`,
      'Nothing has been sent yet. This is what the replay would do.',
      warningsOf(view),
      [
        onlyTopic !== undefined && ['Topic', html`<span class="mono">${onlyTopic}</span>`],
        error !== null && ['Error', failureLabel(error)],
        error === null && group !== undefined && ['Only', groupWords(group)],
        q !== undefined && ['Error contains', html`<span class="mono">${q}</span>`],
        ['Goes to', destinations(view)],
        createdFrom !== null && createdTo !== null && ['Recorded', span(createdFrom, createdTo, now)],
        endedFrom !== null && endedTo !== null && [endedWord(view), span(endedFrom, endedTo, now)],
        perMinute !== undefined &&
          estimatedSeconds !== null && [
            'Pace',
            `${count(perMinute)} a minute, about ${duration(estimatedSeconds * SECOND)}`,
          ],
        ['How', 'Oldest first, same event ids, attempt numbers start again at 1'],
      ],
    )}
    ${missingReplayScope(operator)}
    ${confirmation({
      isAllowed,
      request: { ...request, perMinute: null, replayId, expectedCount: matched },
      fields: html`${matched > 1 && paceField(view)}
      ${reasonField('for example: ledger is back after INC-4411', undefined, entered)}
      ${confirmField(matched, 'replay', context)}`,
      button: `Replay ${what}`,
      cancel: cancelPath(view),
      context,
    })}
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

function endedWord({ isAll, matched, dismissed }: ReplayPreview): string {
  if (isAll) return 'Ended';
  if (dismissed === 0) return 'Dead-lettered';
  return dismissed === matched ? 'Dismissed' : 'Dead-lettered or dismissed';
}

function destinations({ subscriptions }: ReplayPreview): Html {
  const [first] = subscriptions;
  if (first !== undefined && subscriptions.length === 1) {
    const { subscriber, topic, others } = first;
    const rest =
      others === 0
        ? html`, the only subscriber of <span class="mono">${topic}</span>.`
        : ` only. ${others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`} nothing.`;
    return html`${subscriberLink(subscriber, topic)}${rest}`;
  }
  return topicCounts(subscriptions, (one) => {
    const note = subscriptionNote(one);
    return note !== null && html` <span class="muted small">(${note})</span>`;
  });
}

function nothingToReplay(view: ReplayPreview): Html {
  const { leftOut, earlier, generatedAt: now } = view;
  return html`<div class="panel">
    <div class="empty">
      ${CHECK_ICON}
      <h1>Nothing to replay</h1>
      <p>${nothingWords(view)}</p>
      ${earlier !== null && html`<p>${earlierPhrase(earlier, now).html}</p>`}
      ${warningLines(leftOutWarnings(leftOut))}
      <a class="btn" href="${deadLettersPath()}">Dead letters</a>
    </div>
  </div>`;
}

function cancelPath({ topic, subscriptions, request }: ReplayPreview): string {
  const { incident, group, q, since } = request;
  if (incident !== undefined) return incidentPath(incident);
  const subscriber = request.subscriber ?? (subscriptions.length === 1 ? subscriptions[0]?.subscriber : null);
  return deadLettersPath({ topic, subscriber, group, q, since: since === ALL_TIME ? null : since });
}
