import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, replayLinkTo } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { until } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import {
  ALL_TIME,
  deadLetterPath,
  deadLettersPath,
  dismissPath,
  HOME,
  replayPath,
  withParameters,
} from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { count, quantity } from '../kit/words.ts';
import { errorGroupTable } from './error-groups.ts';
import type { DeadLetterItem, DeadLetterPage } from './fields.ts';
import { filterForm } from './filters.ts';
import type { FilterTopics } from './filters.ts';
import { letterList } from './lists.ts';
import { wayOf } from './statements.ts';

const REFRESH_SECONDS = 15;

/** Draws the deliveries that were given up: grouped by error, then one by one. */
export function deadLettersPage(view: DeadLetterPage, context: PageContext, topics: FilterTopics): Html {
  const content = html`${heading({
    title: 'Dead letters',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${view.totalInAll === 0 ? noDeadLetters(view) : lists(view, context, topics)}`;
  return layout(
    { title: 'Dead letters', section: 'dead-letters', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function leadOf({ totalInAll }: DeadLetterPage): string {
  const definition = 'A dead letter is a delivery that was given up';
  return totalInAll === 0
    ? `${definition}.`
    : `${quantity(totalInAll, 'dead letter')}. ${definition}: it stays here until someone replays or dismisses it.`;
}

function lists(view: DeadLetterPage, context: PageContext, topics: FilterTopics): Html {
  return html`${filterForm(view, topics)} ${missingReplayScope(context.operator)}
  ${view.items.length === 0 ? noMatches(view) : html`${groupsSection(view, context)} ${listSection(view, context)}`}`;
}

function groupsSection(
  { groups, total, generatedAt, filters }: DeadLetterPage,
  context: PageContext,
): Html | null {
  if (groups.length === 0) return null;
  const covered = groups.reduce((sum, group) => sum + group.count, 0);
  return section({
    id: 'groups',
    title: 'By error',
    hint: coverage(groups.length, covered, total),
    content: errorGroupTable({ groups, generatedAt, since: filters.since }, context),
  });
}

function coverage(errors: number, covered: number, total: number): string {
  if (covered < total) return `the ${count(errors)} largest groups hold ${count(covered)} of ${count(total)}`;
  if (total === 1) return 'only one dead letter';
  return errors === 1 ? `all ${count(total)} have the same error` : `${count(errors)} different errors`;
}

function listSection(view: DeadLetterPage, context: PageContext): Html {
  const isAll = view.total === view.totalInAll;
  const list = lettersTable(view, context);
  return section({
    id: 'list',
    title: isAll ? 'All dead letters' : `${count(view.total)} of ${count(view.totalInAll)} dead letters`,
    hint: 'newest first',
    content: html`${mayReplay(context.operator) && actionsOnAll(view)}
    ${
      mayReplay(context.operator)
        ? html`<form class="card" method="get" action="${HOME}/replay" data-bulk>${list} ${bulkBar()}</form>`
        : card(list)
    }
    ${listPager(view, context)}`,
  });
}

/** Acts on all that match the filters. An id is no filter: what it finds is selected. */
function actionsOnAll({ filters, total }: DeadLetterPage): Html | false {
  const { topic, subscriber, group, q } = filters;
  const isId = ['event', 'delivery'].includes(wayOf({ q: q ?? undefined }));
  if (isId || [topic, subscriber, group, q].every((filter) => filter === null)) return false;
  const request = { topic, subscriber, group, since: filters.since ?? ALL_TIME };
  return html`<p class="acts">
    <a class="btn sm" href="${dismissPath({ ...request, q })}">Dismiss all ${count(total)} that match…</a>
    ${
      topic !== null &&
      q === null &&
      html`<a class="btn sm" href="${replayPath(request)}">Replay all ${count(total)} that match…</a>`
    }
  </p>`;
}

function lettersTable({ items, generatedAt }: DeadLetterPage, context: PageContext): Html {
  const isSelectable = mayReplay(context.operator);
  return listTable(letterList(items, generatedAt), {
    before: isSelectable && {
      heading: SELECT_ALL,
      tone: 'check',
      cell: (item) =>
        html`<input
          type="checkbox"
          name="deliveryIds"
          value="${item.deliveryId}"
          aria-label="Select ${nameOf(item)}"
        />`,
    },
    actions: (item) => itemActions(item, isSelectable, context),
  });
}

const SELECT_ALL = html`<span class="vh" data-nojs>Select</span>
  <input type="checkbox" aria-label="Select all on this page" data-js data-all />`;

function nameOf({ topic, subject, subscriber, deliveryId }: DeadLetterItem): string {
  return `${topic} ${subject ?? ''}, ${subscriber}, delivery ${deliveryId}`;
}

function itemActions(item: DeadLetterItem, isReplayable: boolean, context: PageContext): Html {
  const { deliveryId } = item;
  const of = nameOf(item);
  return html`<a class="btn sm quiet" href="${deadLetterPath(deliveryId)}"
      >Details<span class="vh"> of ${of}</span></a
    >
    ${isReplayable && replayLinkTo(item, of, { deliveryIds: deliveryId }, context)}`;
}

/** The buttons of the form around the list. With the script they appear when something is selected. */
function bulkBar(): Html {
  return html`<div class="bulk">
    <span class="grow"
      ><span data-js
        ><b data-selected>0 selected</b> <span class="muted small">on this page</span></span
      ></span
    >
    <button class="btn sm quiet" type="button" data-js data-clear>Clear selection</button>
    <button class="btn sm" formaction="${HOME}/dismiss">Dismiss selected…</button>
    <button class="btn sm primary" data-bulk-button>Replay selected…</button>
  </div>`;
}

function listPager(
  { items, total, nextCursor, previousCursor }: DeadLetterPage,
  { url }: PageContext,
): Html | null {
  if (nextCursor === null && previousCursor === null) return null;
  const isFirst = previousCursor === null;
  const pathOf = (cursor: string | null) => (cursor === null ? null : withParameters(url, { cursor }));
  return pager(`${isFirst ? 'Newest ' : ''}${count(items.length)} of ${count(total)}`, [
    { words: 'Newer', path: pathOf(previousCursor), relation: 'prev' },
    { words: 'Older', path: pathOf(nextCursor), relation: 'next' },
  ]);
}

function noDeadLetters({ failing, nextRetryAt, generatedAt }: DeadLetterPage): Html {
  const next = nextRetryAt === null ? '' : ` The next retry is ${until(nextRetryAt, generatedAt)}.`;
  const words = `${quantity(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing now.${next}`;
  return emptyCard({
    icon: CHECK_ICON,
    title: 'No dead letters',
    text: `Every delivery has succeeded or is still being retried.${failing > 0 ? ` ${words}` : ''}`,
    ...(failing > 0 && {
      action: html`<a class="btn" href="${HOME}?sort=failing">See failing deliveries</a>`,
    }),
  });
}

function noMatches({ totalInAll }: DeadLetterPage): Html {
  return emptyCard({
    title: 'No dead letters match these filters',
    text: `${quantity(totalInAll, 'dead letter')} without filters.`,
    action: html`<a class="btn" href="${deadLettersPath()}">Clear filters</a>`,
  });
}
