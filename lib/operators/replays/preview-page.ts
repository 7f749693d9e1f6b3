import type { LeftOut, PreviewedSubscription, ReplayPreview } from './preview.ts';
import { hiddenField, lacking, mayReplay, reasonField } from '../page/acts.ts';
import { CHECK_ICON, WARNING_ICON } from '../page/icons.ts';
import { toTheMinute, span, when } from '../page/instants.ts';
import { deadLettersPath, EVER, HOME } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { layout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { failure, lastFailure } from '../page/states.ts';
import { count, counted, lastWords } from '../page/words.ts';

/** More than a screenful: a number typed is a number read. */
const CONFIRMED_ABOVE = 100;

/** What a replay would do, and the form that does it. */
export function previewPage(view: ReplayPreview, context: PageContext): Html {
  const content = view.matched === 0 ? nothingToReplay(view) : confirmation(view, context);
  return layout({ title: 'Replay', section: 'dead-letters', content }, context);
}

function confirmation(view: ReplayPreview, { operator }: PageContext): Html {
  const what = counted(view.matched, view.isAll ? 'delivery' : 'dead letter');
  return html`<form class="panel" method="post" action="${HOME}/replay">
    <h1>Replay ${what}?</h1>
    <p class="muted">Nothing has been sent yet. This is what the replay would do.</p>
    ${view.isAll && allWarning()} ${view.leftOut.map(leftOutWarning)}
    ${view.subscriptions.map((subscription) => subscriptionWarning(subscription, view.generatedAt))}
    ${facts(view)}
    ${
      mayReplay(operator)
        ? html`${requestFields(view)}
          ${reasonField('Kept in the replay log with your name', 'for example: ledger is back after INC-4411')}
          ${view.matched > CONFIRMED_ABOVE && confirmField(view.matched)}`
        : lacking('Replay', 'event-bus:replay')
    }
    <div class="end">
      <a class="btn" href="${cancelPath(view)}">Cancel</a>
      ${mayReplay(operator) && html`<button class="btn primary">Replay ${what}</button>`}
    </div>
  </form>`;
}

function confirmField(matched: number): Html {
  return html`<label class="f">
    Type ${matched} to confirm
    <span class="hint">Asked for when more than ${CONFIRMED_ABOVE} are replayed</span>
    <input
      name="confirm"
      inputmode="numeric"
      autocomplete="off"
      required
      pattern="${matched}"
      title="the number alone, without commas"
    />
  </label>`;
}

function facts({ topic, error, subscriptions, isAll, ...view }: ReplayPreview): Html {
  const now = view.generatedAt;
  return html`<dl class="kv">
    ${topic !== null && fact('Topic', html`<span class="mono">${topic}</span>`)}
    ${error !== null && fact('Error', failure(error))} ${fact('Goes to', goesTo(subscriptions))}
    ${
      view.createdFrom !== null &&
      view.createdTo !== null &&
      fact('Events from', span(view.createdFrom, view.createdTo, now, 'today '))
    }
    ${
      view.endedFrom !== null &&
      view.endedTo !== null &&
      fact(isAll ? 'Ended' : 'Dead since', span(view.endedFrom, view.endedTo, now, 'today '))
    }
    ${fact('How', 'Same event ids, attempts start again at 1, oldest first')}
  </dl>`;
}

function goesTo(subscriptions: readonly PreviewedSubscription[]): Html {
  const [first] = subscriptions;
  if (first !== undefined && subscriptions.length === 1) {
    const { subscriber, topic, others } = first;
    const rest =
      others === 0
        ? html`, the only subscriber of <span class="mono">${topic}</span>.`
        : ` only. ${others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`} nothing.`;
    return html`<span class="mono">${subscriber}</span>${rest}`;
  }
  return html`<ul class="goes">
    ${subscriptions.map(
      ({ topic, subscriber, count: number }) =>
        html`<li>
          <b>${count(number)}</b> to <span class="mono">${subscriber}</span> of
          <span class="mono">${topic}</span>
        </li>`,
    )}
  </ul>`;
}

function allWarning(): Html {
  return warning(
    html`<b>Delivered ones are sent again too.</b> Subscribers that do not look at the event id do their work
      twice.`,
  );
}

function leftOutWarning({ topic, subscriber, count: number }: LeftOut): Html {
  return warning(
    html`<b>${counted(number, 'delivery')} to ${subscriber} ${number === 1 ? 'is' : 'are'} left out.</b> This
      release’s catalog does not list it for <span class="mono">${topic}</span>.`,
  );
}

function subscriptionWarning(one: PreviewedSubscription, now: string): Child {
  const { subscriber, attached, paused, isStillFailing } = one;
  if (!attached) {
    return warning(
      html`<b>${subscriber} is not attached.</b> What is replayed waits until it has a handler or an endpoint.`,
    );
  }
  if (paused) {
    return warning(html`<b>${subscriber} is paused.</b> What is replayed waits until someone resumes it.`);
  }
  return isStillFailing && warning(stillFailing(one, now));
}

function stillFailing(
  { subscriber, topic, lastDeliveredAt, lastFailedAt, lastError }: PreviewedSubscription,
  now: string,
): Html {
  const accepted =
    lastDeliveredAt === null
      ? html`It has never accepted anything of <span class="mono">${topic}</span>`
      : html`It has accepted nothing of <span class="mono">${topic}</span> since
          ${toTheMinute(lastDeliveredAt, now)}`;
  const answered =
    lastError !== null &&
    lastFailedAt !== null &&
    html`, and ${lastFailure(lastError)} at ${when(lastFailedAt, now)}`;
  return html`<b>${subscriber} is still failing.</b> ${accepted}${answered}. A replay now will probably end
    here again.`;
}

function warning(words: Html): Html {
  return html`<div class="alert warn">
    ${WARNING_ICON}
    <p>${words}</p>
  </div>`;
}

/** The request that was previewed, so that what is sent is what was shown. */
function requestFields({ request, replayId, matched }: ReplayPreview): Html {
  const fields = { ...request, replayId, expectedCount: matched };
  return html`${Object.entries(fields).map(([name, value]) => {
    const text = fieldText(value);
    return name === 'dryRun' || name === 'reason' || text === null ? null : hiddenField(name, text);
  })}`;
}

/** A list as its items with commas between them; null for what was not asked for. */
function fieldText(value: unknown): string | null {
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(String).join(',');
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : null;
}

function nothingToReplay({ topic, request, leftOut }: ReplayPreview): Html {
  const { since } = request;
  const within = typeof since === 'string' && since !== EVER ? ` in the ${lastWords(since)}` : '';
  return html`<div class="panel">
    <div class="empty">
      ${CHECK_ICON}
      <h1>Nothing to replay</h1>
      <p>
        ${
          topic === null
            ? 'None of the chosen deliveries is a dead letter any longer.'
            : html`No dead letters on <span class="mono">${topic}</span>${within}.`
        }
      </p>
      ${leftOut.map(leftOutWarning)}
      <a class="btn" href="${deadLettersPath()}">Dead letters</a>
    </div>
  </div>`;
}

function cancelPath({ topic, subscriptions }: ReplayPreview): string {
  const subscriber = subscriptions.length === 1 ? subscriptions[0]?.subscriber : null;
  return deadLettersPath({ topic, subscriber });
}

function fact(name: string, value: Child): Html {
  return html`<dt>${name}</dt>
    <dd>${value}</dd>`;
}
