import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope } from '../kit/actions.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { HOME, withParameters } from '../kit/links.ts';
import { emptyCard, emptyLine } from '../kit/sections.ts';
import { NO_TOPIC_MATCHES, topicFilter } from '../kit/topic-filter.ts';
import { count, deliveriesWait, joinNames, quantity } from '../kit/words.ts';
import {
  activeTopics,
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
import { troubles } from './trouble.ts';

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
    actions: mayReplay(context.operator) && actionForm('smoke-test', {}, { of: null }, context),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${view.topics.length === 0 ? noTopics() : html`${troubles(view, context)} ${tiles(view)} ${topicsSection(view, context)}`}
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
  return `${quantity(topics.length, 'topic')}, ${quantity(subscribers.size, 'subscriber')}. A delivery is one event on its way to one subscriber.`;
}

function topicsSection(view: Overview, context: PageContext): Html {
  const query = context.url.searchParams;
  const words = query.get('q') ?? '';
  const sort = sortOf(query.get('sort'));
  const isAll = query.get('show') === 'all';
  const matching = sortTopics(filterTopics(view.topics, words), sort);
  const troubled = isAll ? matching : matching.filter(needsAttention);
  // Where nothing needs attention, what is going on is more than an empty list.
  const listedFirst = troubled.length > 0 ? troubled : activeTopics(matching).slice(0, LISTED_ACTIVE);
  const name = isAll ? 'All topics' : troubled.length > 0 ? 'Topics that need attention' : 'Recent activity';
  const quiet = isAll ? [] : matching.filter((topic) => !listedFirst.includes(topic));
  const tableOf = (topics: typeof matching, called: string) =>
    topicTable({ view, context, sort, topics, name: called });
  return html`<section id="topics" aria-labelledby="h-topics">
    <div class="bar">
      <h2 id="h-topics">Topics</h2>
      ${attentionSwitch(view, isAll, context)}
      <span class="muted small grow"
        >Topic rows count events; subscriber rows count deliveries. Blocked topics come first.</span
      >
      ${topicFilter({ path: HOME, words, kept: { show: query.get('show'), sort: query.get('sort') } })}
    </div>
    ${missingReplayScope(context.operator)}
    <div class="card">
      ${
        listedFirst.length > 0
          ? html`<div data-group>
              ${troubled.length === 0 && html`<p class="none muted">${NO_TROUBLE}</p>`}
              ${tableOf(listedFirst, name)}
            </div>`
          : emptyLine(words === '' ? NO_ACTIVITY : noTopicWords(words, quiet.length > 0))
      }
      ${
        quiet.length > 0 &&
        html`<details class="more" data-group ${(words !== '' || listedFirst.length === 0) && OPENED}>
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

/** A screenful. */
const LISTED_ACTIVE = 10;

const NO_TROUBLE = 'No topic needs attention. The busiest ones of the last 24 hours:';
const NO_ACTIVITY = 'No topic needs attention, and no event was delivered in the last 24 hours.';

function noTopicWords(words: string, isSomeQuiet: boolean): string {
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
  return html`<p class="muted small note">${deliveriesWait(number)} for ${joinNames(names)}: ${why}.</p>`;
}

function noTopics(): Html {
  return emptyCard({
    title: 'No topics yet',
    text: 'Topics appear here when the first one is registered in the catalog.',
  });
}
