import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { span, timeToMinute } from '../kit/instants.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillPath, HOME, topicPath } from '../kit/links.ts';
import { confirmation, previewed, warningLines } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { quantity } from '../kit/words.ts';
import type { BackfillPreview } from './preview.ts';
import { lost, meanwhileWords, paceWords, warningsOf } from './words.ts';

/** Draws what a backfill would do, and the form that starts it. */
export function previewPage(view: BackfillPreview, context: PageContext): Html {
  const content = html`<div class="panel">
    ${view.underWay === null ? (view.matched === 0 ? nothingMissing(view) : preview(view, context)) : underWay(view)}
    ${view.underWay === null && otherRequest(view, context)}
  </div>`;
  return layout({ title: 'Backfill', section: 'backfills', content }, context);
}

function preview(view: BackfillPreview, context: PageContext): Html {
  const { operator, entered } = context;
  const { topic, subscriber, oldestAt, newestAt, others, generatedAt } = view;
  const what = quantity(view.matched, 'delivery');
  const rest =
    others === 0
      ? ', the only subscriber.'
      : ` only. ${others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`} nothing.`;
  return html`${previewed(
      `Backfill ${what}?`,
      'Nothing has been written yet. This is what the backfill would do.',
      warningsOf(view),
      [
        ['Topic', html`<span class="mono">${topic}</span>`],
        ['Goes to', html`${subscriberLink(subscriber, topic)}${rest}`],
        oldestAt !== null && newestAt !== null && ['Recorded', span(oldestAt, newestAt, generatedAt)],
        ['Pace', paceWords(view)],
        ['Order', 'In the order of creation, oldest first, with the same event ids'],
        ['Meanwhile', meanwhileWords(view)],
      ],
    )}
    ${missingReplayScope(operator)}
    <form method="post" action="${HOME}/backfill">
      ${confirmation({
        isAllowed: mayReplay(operator),
        request: { ...view.request, backfillId: view.backfillId },
        fields: html`${reasonField('for example: the ledger is new on this topic', undefined, entered)}
        ${confirmField(view.matched, 'backfill', context)}`,
        button: `Backfill ${what}`,
        cancel: topicPath(topic),
        context,
      })}
    </form>`;
}

function nothingMissing(view: BackfillPreview): Html {
  const { topic, subscriber, since, generatedAt } = view;
  return html`<div class="empty">
      ${CHECK_ICON}
      <h1>Nothing to backfill</h1>
      <p>
        ${subscriber} already has every stored event of <span class="mono">${topic}</span> since
        ${timeToMinute(since, generatedAt)}.
      </p>
      <a class="btn" href="${topicPath(topic)}">Topic</a>
    </div>
    ${warningLines(lost(view))}`;
}

function underWay({ topic, subscriber, underWay: backfillId }: BackfillPreview): Html {
  return html`<div class="empty">
    <h1>A backfill is under way</h1>
    <p>
      <span class="mono">${topic}</span> to ${subscriber} is being backfilled. The next one can start when it
      has ended.
    </p>
    <a class="btn" href="${backfilledPath(backfillId!)}">See its progress</a>
  </div>`;
}

/** Previews again, with another beginning or another pace. */
function otherRequest({ topic, subscriber, perMinute }: BackfillPreview, { url }: PageContext): Html {
  return html`<form class="filters again" method="get" action="${backfillPath({})}">
    ${hiddenField('topic', topic)} ${hiddenField('subscriber', subscriber)}
    ${requestedFields(url.searchParams.get('since'), perMinute)}
    <button class="btn">Preview again</button>
  </form>`;
}

/** The fields that say how far back a backfill goes, and how fast. */
export function requestedFields(since: string | null, perMinute: number | null): Html {
  return html`<label class="f">
      Since
      <input
        name="since"
        required
        value="${since ?? '30d'}"
        size="10"
        autocomplete="off"
        spellcheck="false"
        title="A time span such as 30d or 12h, or an instant such as 2026-02-21T09:35:00Z"
      />
    </label>
    <label class="f">
      Per minute
      <input
        name="perMinute"
        inputmode="numeric"
        pattern="[1-9][0-9]{0,5}"
        value="${perMinute}"
        size="10"
        autocomplete="off"
        placeholder="all at once"
        title="How many deliveries to write in a minute; empty for all at once"
      />
    </label>`;
}
