import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { again } from '../kit/entered.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import { confirmation, previewed } from '../kit/operation-pages.ts';
import type { Warnings } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { emptyCard } from '../kit/sections.ts';
import type { Fact } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { quantity } from '../kit/words.ts';
import type { Renamed, Retirement } from './leaving-views.ts';
import { duplicatesWarning, standingWords } from './leaving-words.ts';

/** Draws what a rename would move, and the form that does it. */
export function renamePage(view: Renamed, context: PageContext): Html {
  const { subscriber, to, topics, left } = view;
  const names = html`<span class="mono">${subscriber}</span>`;
  return leavingPage(context, {
    action: 'rename',
    subscriber,
    isEmpty: topics.length === 0,
    title: `Rename ${subscriber} to ${to}?`,
    lead: 'Nothing has been moved yet. This is what the rename would do.',
    warnings: [duplicatesWarning(view)],
    facts: [
      ['Moves', standingList(topics)],
      ['Goes to', html`${subscriberLink(to)}, in order and before anything newer`],
      ['Meanwhile', html`${names} is paused, and ${to} gets nothing newer on these topics`],
      ['Stays', html`What was delivered stays under ${names}`],
      ['Ids', 'Delivery ids change, because they name the lane; event ids stay'],
    ],
    request: { to, topic: onlyTopic(topics), expectedCount: left },
    matched: left,
    fields: view.duplicates > 0 && duplicatesField(view, context),
    example: 'postcards are notifications since 2.4',
    button: left === 0 ? 'Rename' : `Rename, and move ${quantity(left, 'delivery')}`,
  });
}

/** Agrees that what the new name has already is dismissed. */
function duplicatesField({ to, duplicates }: Renamed, { entered }: PageContext): Html {
  const { value, invalid, message } = again('dismissDuplicates', entered);
  return html`<label class="f check">
    <input
      type="checkbox"
      name="dismissDuplicates"
      value="true"
      ${value !== null && html`checked`}
      ${invalid}
    />
    Dismiss ${quantity(duplicates, 'delivery')} of events that ${to} has already ${message}
  </label>`;
}

/** Draws what a retirement would dismiss, and the form that does it. */
export function retirePage({ subscriber, topic, topics, matched }: Retirement, context: PageContext): Html {
  return leavingPage(context, {
    action: 'retire',
    subscriber,
    isEmpty: topics.length === 0,
    title: `Retire ${subscriber}?`,
    lead: 'Nothing has been dismissed yet. This is what the retirement would do.',
    warnings: [],
    facts: [
      ['Dismisses', standingList(topics)],
      ['Ends', 'Its pauses, halts, backfills, paced replays and outage on these topics'],
      ['Then', html`Nothing shows ${subscriber} on these topics any more; the operator log keeps it`],
      ['How', 'What is dismissed stays on record, and can still be replayed until its event is pruned'],
    ],
    request: { topic, expectedCount: matched },
    matched,
    fields: null,
    example: 'replaced by accounting in March',
    button: matched === 0 ? 'Retire' : `Retire, and dismiss ${quantity(matched, 'delivery')}`,
  });
}

interface Leaving {
  readonly action: 'rename' | 'retire';
  readonly subscriber: string;
  readonly isEmpty: boolean;
  readonly title: string;
  readonly lead: string;
  readonly warnings: Warnings;
  readonly facts: readonly Fact[];
  readonly request: Readonly<Record<string, unknown>>;
  readonly matched: number;
  readonly fields: Html | false | null;
  readonly example: string;
  readonly button: string;
}

function leavingPage(context: PageContext, leaving: Leaving): Html {
  const { action, subscriber, isEmpty, title, lead, warnings, facts, request, matched } = leaving;
  const { operator, entered } = context;
  const content = isEmpty
    ? emptyCard({
        icon: CHECK_ICON,
        title: `Nothing is left of ${subscriber}`,
        text: `There is nothing to ${action}.`,
        action: html`<a class="btn" href="${HOME}">Overview</a>`,
      })
    : html`<form class="panel" method="post" action="${subscriberPath(subscriber)}/${action}">
        ${previewed(title, lead, warnings, facts)} ${missingReplayScope(operator)}
        ${confirmation({
          isAllowed: mayReplay(operator),
          request,
          fields: html`${leaving.fields} ${reasonField(`for example: ${leaving.example}`, undefined, entered)}
          ${confirmField(matched, action, context)}`,
          button: leaving.button,
          cancel: subscriberPath(subscriber),
          context,
        })}
      </form>`;
  return layout(
    { title: action === 'rename' ? 'Rename' : 'Retire', section: 'subscribers', content },
    context,
  );
}

function standingList(topics: readonly { topic: string; waiting: number; deadLettered: number }[]): Html {
  return html`<ul class="goes">
    ${topics.map((one) => html`<li><span class="mono">${one.topic}</span>: ${standingWords(one)}</li>`)}
  </ul>`;
}

/** A preview of one topic is confirmed for that one. */
function onlyTopic(topics: readonly { readonly topic: string }[]): string | null {
  return topics.length === 1 ? topics[0]!.topic : null;
}
