import { v7 as uuidv7 } from 'uuid';

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { mono, say, spanPhrase, subscriberPhrase, toMinute } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillPath, topicPath } from '../kit/links.ts';
import type { Plan } from '../kit/plan.ts';
import { quantity } from '../kit/words.ts';
import type { BackfillPreview } from './preview.ts';
import { lost, meanwhileWords, paceWords, warningsOf } from './words.ts';

/** A preview; that of a dry run has no id. */
type Previewed = Omit<BackfillPreview, 'backfillId'> & { readonly backfillId: string | null };

/** Says what a backfill would write. */
export function backfillPlan(view: Previewed): Plan {
  const { topic, subscriber, oldestAt, newestAt, others, generatedAt: now, matched, backfillId } = view;
  const rest =
    others === 0
      ? ', the only subscriber.'
      : ` only. ${others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`} nothing.`;
  return {
    what: quantity(matched, 'delivery'),
    matched,
    lead: 'Nothing has been written yet. This is what the backfill would do.',
    warnings: warningsOf(view),
    facts: [
      ['Topic', mono(topic)],
      ['Goes to', say`${subscriberPhrase(subscriber, topic)}${rest}`],
      oldestAt !== null && newestAt !== null && ['Recorded', spanPhrase(oldestAt, newestAt, now)],
      ['Pace', paceWords(view)],
      ['Order', 'In the order of creation, oldest first, with the same event ids'],
      ['Meanwhile', meanwhileWords(view)],
    ],
    request: { ...view.request, backfillId: backfillId ?? uuidv7() },
    cancel: topicPath(topic),
    ...(view.underWay === null && { below: (context) => otherRequest(view, context) }),
    nothing: nothingOf(view),
  };
}

function nothingOf(view: Previewed): NonNullable<Plan['nothing']> {
  const { topic, subscriber, since, generatedAt: now, matched, underWay } = view;
  if (underWay !== null)
    return {
      title: 'A backfill is under way',
      text: [
        say`${mono(topic)} to ${subscriber} is being backfilled. The next one can start when it has ended.`,
      ],
      action: [backfilledPath(underWay), 'See its progress'],
      isBegun: true,
    };
  return (
    matched === 0 && {
      title: 'Nothing to backfill',
      text: [
        say`${subscriber} already has every stored event of ${mono(topic)} since ${toMinute(since, now)}.`,
      ],
      warnings: lost(view),
      action: [topicPath(topic), 'Topic'],
    }
  );
}

/** Previews again, with another beginning or another pace. */
function otherRequest({ topic, subscriber, perMinute }: Previewed, { url }: PageContext): Html {
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
