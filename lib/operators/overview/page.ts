import type { Overview, SubscriberOverview } from './read.ts';
import { lacking, mayReplay } from '../page/acts.ts';
import {
  filtered,
  needsAttention,
  sorted,
  sortOf,
  waitsForAttachment,
  waitsForRelease,
} from './attention.ts';
import { HOME, sameWith } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { tiles } from './tiles.ts';
import { topicTable } from './topic-table.ts';
import { troubleAlert } from './trouble.ts';
import { count, counted, listed } from '../page/words.ts';

const REFRESH_SECONDS = 15;

/** The bus at a glance: the worst trouble, the totals, and the topics that need attention. */
export function overviewPage(view: Overview, context: PageContext): Html {
  const content = html`${heading({
    title: 'Overview',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${view.topics.length === 0 ? noTopics() : html`${troubleAlert(view)} ${tiles(view)} ${topicsSection(view, context)}`}`;
  return layout(
    { title: 'Overview', section: 'overview', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function leadOf({ topics }: Overview): string {
  const subscribers = new Set(
    topics.flatMap((topic) => topic.subscribers.map(({ subscriber }) => subscriber)),
  );
  return `${counted(topics.length, 'topic')}, ${counted(subscribers.size, 'subscriber')}. A topic counts events, a subscriber below it deliveries. Times are Europe/Oslo.`;
}

function topicsSection(view: Overview, context: PageContext): Html {
  const query = context.url.searchParams;
  const words = query.get('q') ?? '';
  const sort = sortOf(query.get('sort'));
  const isAll = query.get('show') === 'all';
  const shown = sorted(filtered(view.topics, words), sort);
  const asking = isAll ? shown : shown.filter(needsAttention);
  const quiet = isAll ? [] : shown.filter((topic) => !needsAttention(topic));
  const table = { view, context, sort };
  return html`<section id="topics" aria-labelledby="h-topics">
    <div class="bar">
      <h2 id="h-topics">Topics</h2>
      ${choice(view, isAll, context)}<span class="sp"></span>${filterForm(words, context)}
    </div>
    ${mayReplay(context.operator) ? null : lacking('Replay', 'event-bus:replay')}
    <div class="card">
      ${
        asking.length > 0
          ? topicTable({
              ...table,
              topics: asking,
              name: isAll ? 'All topics' : 'Topics that need attention',
            })
          : nothingHere(words, quiet.length > 0)
      }
      ${
        quiet.length > 0 &&
        html`<details class="more" data-group ${words === '' ? null : OPENED}>
          <summary>${quietWords(quiet.length)}</summary>
          ${topicTable({ ...table, topics: quiet, name: 'Quiet topics' })}
        </details>`
      }
    </div>
    <p class="muted small note" data-none hidden>No topic matches.</p>
    ${waitingNote(view)}
  </section>`;
}

/** Opened by the page and not by its reader, so it does not hold the refresh. */
const OPENED = html` open data-opened`;

function choice(view: Overview, isAll: boolean, { url }: PageContext): Html {
  const asking = view.topics.filter(needsAttention).length;
  const link = (show: string, words: string, isCurrent: boolean) =>
    isCurrent
      ? html`<a href="${sameWith(url, { show })}" aria-current="true">${words}</a>`
      : html`<a href="${sameWith(url, { show })}">${words}</a>`;
  return html`<nav class="seg" aria-label="Show">
    ${link('attention', `Needs attention ${count(asking)}`, !isAll)}${link(
      'all',
      `All ${count(view.topics.length)}`,
      isAll,
    )}
  </nav>`;
}

function filterForm(words: string, { url }: PageContext): Html {
  const kept = ['show', 'sort'].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null ? [] : [html`<input type="hidden" name="${name}" value="${value}" />`];
  });
  return html`<form class="filters" method="get" action="${HOME}">
    ${kept}
    <label
      ><span class="vh">Filter topics</span
      ><input
        type="search"
        name="q"
        value="${words}"
        placeholder="Filter by topic, producer or subscriber"
        size="36"
        data-filter="#topics"
    /></label>
    <button class="btn" data-nojs>Filter</button>
  </form>`;
}

function nothingHere(words: string, isSomeQuiet: boolean): Html {
  if (words !== '') {
    const here = isSomeQuiet ? 'that needs attention ' : '';
    return html`<p class="none muted">No topic ${here}matches “${words}”.</p>`;
  }
  return html`<p class="none muted">No topic needs attention.</p>`;
}

function quietWords(number: number): string {
  return `${counted(number, 'quiet topic')}: nothing failing, nothing dead-lettered, nothing late`;
}

function waitingNote(view: Overview): Html {
  const waiting = view.topics.flatMap((topic) => topic.subscribers);
  return html`${noteOn(waiting.filter(waitsForAttachment), 'not attached here: without handler or endpoint. They flow when one is')}
  ${noteOn(
    waiting.filter((one) => !one.inCatalog && waitsForRelease(one)),
    'which this release’s catalog does not list. A release that lists them delivers them',
  )}`;
}

/** @param why follows the subscribers' names. */
function noteOn(waiting: readonly SubscriberOverview[], why: string): Html | null {
  if (waiting.length === 0) return null;
  const names = [...new Set(waiting.map(({ subscriber }) => subscriber))].toSorted();
  const number = waiting.reduce((sum, { pending }) => sum + pending, 0);
  return html`<p class="muted small note">
    ${counted(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'} for ${listed(names)}, ${why}.
  </p>`;
}

function noTopics(): Html {
  return html`<div class="card">
    <div class="empty">
      <h2>No topics yet</h2>
      <p>Topics appear here when the first one is registered in the catalog.</p>
    </div>
  </div>`;
}
