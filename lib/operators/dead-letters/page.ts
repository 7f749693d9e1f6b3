import type { DeadLetterItem, DeadLetterPage } from './read.ts';
import { lacking, mayReplay, replayLink } from '../page/acts.ts';
import { filterForm } from './filters.ts';
import type { FilterTopics } from './filters.ts';
import { errorGroupTable } from './error-groups.ts';
import { CHECK_ICON } from '../page/icons.ts';
import { until, whenAndAgo } from '../page/instants.ts';
import { deadLetterPath, deadLettersPath, HOME, sameWith } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { failure } from '../page/states.ts';
import { count, counted } from '../page/words.ts';

const REFRESH_SECONDS = 15;

/** The deliveries given up: by error, and one by one. */
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
  if (totalInAll === 0) return 'Deliveries that were given up.';
  return totalInAll === 1
    ? '1 delivery was given up. It stays here until someone replays it.'
    : `${count(totalInAll)} deliveries were given up. They stay here until someone replays them.`;
}

function lists(view: DeadLetterPage, context: PageContext, topics: FilterTopics): Html {
  return html`${filterForm(view, topics)}
  ${mayReplay(context.operator) ? null : lacking('Replay', 'event-bus:replay')}
  ${view.items.length === 0 ? noneMatch(view) : html`${groupsSection(view, context)} ${listSection(view, context)}`}`;
}

function groupsSection(view: DeadLetterPage, context: PageContext): Html | null {
  const { groups, total, generatedAt, filters } = view;
  if (groups.length === 0) return null;
  const covered = groups.reduce((sum, group) => sum + group.count, 0);
  return html`<section class="groups" aria-labelledby="h-groups">
    <div class="bar">
      <h2 id="h-groups">By error</h2>
      <span class="muted small">${coverage(groups.length, covered, total)}</span>
    </div>
    ${errorGroupTable({ groups, generatedAt, since: filters.since }, context)}
  </section>`;
}

function coverage(errors: number, covered: number, total: number): string {
  if (covered < total) return `the ${count(errors)} largest cover ${count(covered)} of ${count(total)}`;
  if (total === 1) return 'the only one';
  return errors === 1
    ? `one error covers all ${count(total)}`
    : `${count(errors)} different errors cover all ${count(total)}`;
}

function listSection(view: DeadLetterPage, context: PageContext): Html {
  const isAll = view.total === view.totalInAll;
  const table = listTable(view, context);
  return html`<section aria-labelledby="h-list">
    <div class="bar">
      <h2 id="h-list">
        ${isAll ? 'All dead letters' : `${count(view.total)} of ${count(view.totalInAll)} dead letters`}
      </h2>
      <span class="muted small">newest first</span>
    </div>
    ${
      mayReplay(context.operator)
        ? html`<form class="card" method="get" action="${HOME}/replay" data-bulk>${table} ${bulkBar()}</form>`
        : html`<div class="card">${table}</div>`
    }
    ${pager(view, context)}
  </section>`;
}

function listTable({ items, generatedAt }: DeadLetterPage, { operator }: PageContext): Html {
  const isSelectable = mayReplay(operator);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Dead letters">
    <table class="wide-table">
      <caption class="vh">
        Dead letters, newest first
      </caption>
      <thead>
        <tr>
          ${isSelectable && selectAllCell()}
          <th ${isSelectable ? null : FIRST} scope="col">Event</th>
          <th scope="col">Subscriber</th>
          <th scope="col">Last error</th>
          <th class="num" scope="col">Failures</th>
          <th scope="col">Dead since</th>
          <th class="last" scope="col"><span class="vh">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${items.map((item) => itemRow(item, generatedAt, isSelectable))}
      </tbody>
    </table>
  </div>`;
}

const FIRST = html` class="first"`;

function selectAllCell(): Html {
  return html`<th class="first check" scope="col">
    <span class="vh" data-nojs>Select</span>
    <input type="checkbox" aria-label="Select all on this page" data-js data-all />
  </th>`;
}

function itemRow(item: DeadLetterItem, now: string, isSelectable: boolean): Html {
  const { deliveryId, topic, subscriber, subject } = item;
  const of = `${topic} ${subject ?? ''}, ${subscriber}`;
  return html`<tr class="r">
    ${
      isSelectable &&
      html`<td class="first check">
        <input type="checkbox" name="deliveryIds" value="${deliveryId}" aria-label="Select ${of}" />
      </td>`
    }
    <td ${isSelectable ? null : FIRST}>
      <a class="t mono" href="${deadLetterPath(deliveryId)}">${topic}</a><span class="s">${subject}</span>
    </td>
    <td class="mono">${subscriber}</td>
    <td class="message">${failure(item.lastError)}</td>
    <td class="num">${item.failures}${replayedWords(item.replays)}</td>
    <td class="nowrap">${whenAndAgo(item.deadLetteredAt, now)}</td>
    <td class="last">
      <div class="acts">
        <a class="btn sm quiet" href="${deadLetterPath(deliveryId)}"
          >Details<span class="vh"> of ${of}</span></a
        >
        ${isSelectable && replayLink(of, { deliveryIds: deliveryId })}
      </div>
    </td>
  </tr>`;
}

function replayedWords(replays: number): Child {
  return replays > 0 && html`<span class="s">replayed ${replays === 1 ? 'once' : `${replays} times`}</span>`;
}

/** Works as a plain form; the script says how many are selected and hides the bar until some are. */
function bulkBar(): Html {
  return html`<div class="bulk">
    <span data-js><b data-selected>0 selected</b> <span class="muted small">on this page</span></span>
    <span class="sp"></span>
    <button class="btn sm quiet" type="button" data-js data-clear>Clear selection</button>
    <button class="btn sm primary" data-bulk-button>Replay selected…</button>
  </div>`;
}

function pager(
  { items, total, nextCursor, previousCursor }: DeadLetterPage,
  { url }: PageContext,
): Html | null {
  if (nextCursor === null && previousCursor === null) return null;
  const isFirst = previousCursor === null;
  const words = isFirst
    ? `Newest ${count(items.length)} of ${count(total)}`
    : `${count(items.length)} of ${count(total)}`;
  return html`<nav class="pager" aria-label="Pages">
    <span>${words}</span><span class="sp"></span>
    ${pageLink('Newer', 'prev', previousCursor, url)} ${pageLink('Older', 'next', nextCursor, url)}
  </nav>`;
}

function pageLink(words: string, relation: string, cursor: string | null, url: URL): Html {
  return cursor === null
    ? html`<span class="btn sm" aria-disabled="true">${words}</span>`
    : html`<a class="btn sm" href="${sameWith(url, { cursor })}" rel="${relation}">${words}</a>`;
}

function noDeadLetters({ failing, nextRetryAt, generatedAt }: DeadLetterPage): Html {
  const next = nextRetryAt === null ? '' : `; the next retry is ${until(nextRetryAt, generatedAt)}`;
  const words = `${counted(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing right now${next}.`;
  return html`<div class="card">
    <div class="empty">
      ${CHECK_ICON}
      <h2>No dead letters</h2>
      <p>Every delivery has succeeded or is still being retried.${failing > 0 && ` ${words}`}</p>
      ${failing > 0 && html`<a class="btn" href="${HOME}?sort=failing">See failing deliveries</a>`}
    </div>
  </div>`;
}

function noneMatch({ totalInAll }: DeadLetterPage): Html {
  const words = totalInAll === 1 ? 'There is 1 in all.' : `There are ${count(totalInAll)} in all.`;
  return html`<div class="card">
    <div class="empty">
      <h2>No dead letters match these filters</h2>
      <p>${words}</p>
      <a class="btn" href="${deadLettersPath()}">Clear filters</a>
    </div>
  </div>`;
}
