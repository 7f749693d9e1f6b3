import { missingReplayScope } from '../page/actions.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { HOME, withParameters } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { emptyCard, emptyLine } from '../page/sections.ts';
import { NO_TOPIC_MATCHES, topicFilter } from '../page/topic-filter.ts';
import { count, quantity, joinNames } from '../page/words.ts';
import {
  filterTopics,
  needsAttention,
  sortOf,
  sortTopics,
  waitsForAttachment,
  waitsForRelease,
} from './attention.ts';
import type { Overview, SubscriberOverview } from './read.ts';
import { tiles } from './tiles.ts';
import { topicTable } from './topic-table.ts';
import { troubleAlert } from './trouble.ts';

const REFRESH_SECONDS = 15;

/**
 * Draws the bus at a glance: the worst trouble, the totals, and the topics that need attention.
 *
 * @param footer says where alerts go.
 */
export function overviewPage(view: Overview, context: PageContext, footer?: Html): Html {
  const content = html`${heading({
    title: 'Overview',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${view.topics.length === 0 ? noTopics() : html`${troubleAlert(view)} ${tiles(view)} ${topicsSection(view, context)}`}
  ${footer}`;
  return layout(
    { title: 'Overview', section: 'overview', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function leadOf({ topics }: Overview): string {
  const subscribers = new Set(
    topics.flatMap((topic) => topic.subscribers.map(({ subscriber }) => subscriber)),
  );
  return `${quantity(topics.length, 'topic')}, ${quantity(subscribers.size, 'subscriber')}. A delivery is one event on its way to one subscriber. Times are in Europe/Oslo.`;
}

function topicsSection(view: Overview, context: PageContext): Html {
  const query = context.url.searchParams;
  const words = query.get('q') ?? '';
  const sort = sortOf(query.get('sort'));
  const isAll = query.get('show') === 'all';
  const matching = sortTopics(filterTopics(view.topics, words), sort);
  const listedFirst = isAll ? matching : matching.filter(needsAttention);
  const quiet = isAll ? [] : matching.filter((topic) => !needsAttention(topic));
  const tableOf = (topics: typeof matching, name: string) =>
    topicTable({ view, context, sort, topics, name });
  return html`<section id="topics" aria-labelledby="h-topics">
    <div class="bar">
      <h2 id="h-topics">Topics</h2>
      ${attentionSwitch(view, isAll, context)}
      <span class="muted small grow">Topic rows count events; subscriber rows count deliveries.</span>
      ${topicFilter({ path: HOME, words, kept: { show: query.get('show'), sort: query.get('sort') } })}
    </div>
    ${missingReplayScope(context.operator)}
    <div class="card">
      ${
        listedFirst.length > 0
          ? html`<div data-group>
              ${tableOf(listedFirst, isAll ? 'All topics' : 'Topics that need attention')}
            </div>`
          : emptyLine(noTopicWords(words, quiet.length > 0))
      }
      ${
        quiet.length > 0 &&
        html`<details class="more" data-group ${words !== '' && OPENED}>
          <summary>${quietWords(quiet.length)}</summary>
          ${tableOf(quiet, 'Quiet topics')}
        </details>`
      }
    </div>
    ${NO_TOPIC_MATCHES} ${waitingNotes(view)}
  </section>`;
}

/** Opened by the page and not by its reader, so it does not stop the refresh. */
const OPENED = html`open data-opened`;

function attentionSwitch(view: Overview, isAll: boolean, { url }: PageContext): Html {
  const troubled = view.topics.filter(needsAttention).length;
  const link = (show: string, words: string, isCurrent: boolean) =>
    html`<a href="${withParameters(url, { show })}" ${isCurrent && CURRENT}>${words}</a>`;
  return html`<nav class="seg" aria-label="Show">
    ${link('attention', `Needs attention ${count(troubled)}`, !isAll)}${link(
      'all',
      `All ${count(view.topics.length)}`,
      isAll,
    )}
  </nav>`;
}

const CURRENT = html`aria-current="true"`;

function noTopicWords(words: string, isSomeQuiet: boolean): string {
  if (words === '') return 'No topic needs attention.';
  return `No topic ${isSomeQuiet ? 'that needs attention ' : ''}matches “${words}”.`;
}

function quietWords(number: number): string {
  return `${quantity(number, 'quiet topic')}: nothing is failing, dead-lettered or late`;
}

function waitingNotes(view: Overview): Html {
  const subscribers = view.topics.flatMap((topic) => topic.subscribers);
  return html`${waitingNote(
    subscribers.filter(waitsForAttachment),
    'not attached. A deployment with a handler or an endpoint for the subscriber delivers them',
  )}
  ${waitingNote(
    subscribers.filter((one) => !one.inCatalog && waitsForRelease(one)),
    'not in this release’s catalog. A release that lists the subscription delivers them',
  )}`;
}

/** @param why follows the subscribers' names. */
function waitingNote(waiting: readonly SubscriberOverview[], why: string): Html | null {
  if (waiting.length === 0) return null;
  const names = [...new Set(waiting.map(({ subscriber }) => subscriber))].toSorted();
  const number = waiting.reduce((sum, { pending }) => sum + pending, 0);
  return html`<p class="muted small note">
    ${quantity(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'} for ${joinNames(names)}: ${why}.
  </p>`;
}

function noTopics(): Html {
  return emptyCard({
    title: 'No topics yet',
    text: 'Topics appear here when the first one is registered in the catalog.',
  });
}
