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
import { emptyCard, section } from '../kit/sections.ts';
import { count, quantity } from '../kit/words.ts';
import { bulkCheck, bulkForm } from './bulk.ts';
import { errorGroupTable, mayBeReplayed } from './error-groups.ts';
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
  ${
    view.items.length === 0
      ? noMatches(view)
      : html`${mayReplay(context.operator) && actionsOnAll(view, context)} ${groupsSection(view, context)}
        ${listSection(view, context)}`
  }`;
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
    content: errorGroupTable({ groups, generatedAt, window: filters }, context),
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
    content: html`${bulkForm(list, { isBulk: mayReplay(context.operator) })} ${listPager(view, context)}`,
  });
}

/** Acts on all that match the filters. An id is no filter: what it finds is selected. */
function actionsOnAll(
  { filters, total, groups, generatedAt }: DeadLetterPage,
  context: PageContext,
): Html | false {
  const { topic, subscriber, group, q, since, until: asked } = filters;
  const isId = ['event', 'delivery'].includes(wayOf({ q: q ?? undefined }));
  const isOfTime = [topic, subscriber, group, q].every((filter) => filter === null);
  if (isId || (isOfTime && since === null && asked === null)) return false;
  // A time alone ends where the list does.
  const end = asked ?? (isOfTime ? generatedAt : null);
  const request = { topic, subscriber, group, q, since: since ?? ALL_TIME, until: end };
  return html`<div class="acts choices">
    <a class="btn sm" href="${dismissPath(request)}">Dismiss all ${count(total)} that match…</a>
    ${
      groups.some((one) => mayBeReplayed(one, context)) &&
      html`<a class="btn sm" href="${replayPath(request)}">Replay all ${count(total)} that match…</a>`
    }
  </div>`;
}

function lettersTable({ items, generatedAt }: DeadLetterPage, context: PageContext): Html {
  const isSelectable = mayReplay(context.operator);
  return listTable(letterList(items, generatedAt), {
    before: isSelectable && bulkCheck('deliveryIds', ({ deliveryId }) => deliveryId, nameOf),
    actions: (item) => itemActions(item, isSelectable, context),
  });
}

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
