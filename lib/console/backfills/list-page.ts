import { catalog, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { timeAndAgo, timeText, timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillPath, backfillsPath } from '../kit/links.ts';
import { cursorPager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { select } from '../kit/select.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import { reasonOrNone } from './page.ts';
import { requestedFields } from './preview-page.ts';
import type { BackfillList, BackfillRecord } from './read.ts';

const REFRESH_SECONDS = 15;

/** Draws who backfilled what, when and why, how far each backfill is, and a form that previews a new one. */
export function backfillsPage(view: BackfillList, context: PageContext): Html {
  const content = html`${heading({
    title: 'Backfills',
    lead: 'Deliveries of older events, written later for a subscriber that is new on their topic. Newest first.',
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${listCard(view, context)} ${cursorPager(view.nextCursor, context.url)} ${newBackfill(context)}`;
  return layout(
    { title: 'Backfills', section: 'replays', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function listCard({ items, generatedAt: now }: BackfillList, { url }: PageContext): Html {
  const named = ['topic', 'subscriber'].flatMap((name) => url.searchParams.get(name) ?? []);
  const only =
    named.length > 0 &&
    html`<div class="filters bar">
      <p class="only small">Showing only: ${named.join(', ')}. <a href="${backfillsPath()}">Show all</a></p>
    </div>`;
  if (items.length === 0) {
    return html`${only}${emptyCard({
      title: named.length > 0 ? 'No backfills match' : 'No backfills yet',
      text: 'Each backfill is listed here, with its operator, its reason and its progress.',
    })}`;
  }
  return html`${only}${card(
    table({
      name: 'Backfills',
      caption: 'Backfills, newest first',
      columns: [
        { label: 'When', look: 'nowrap', cell: ({ requestedAt }) => timeAndAgo(requestedAt, now) },
        {
          label: 'What',
          cell: ({ backfillId, topic, subscriber, since }) =>
            html`<a class="t mono" href="${backfilledPath(backfillId)}">${topic}</a
              ><span class="s">to ${subscriber}, since ${timeToMinute(since, now)}</span>`,
        },
        { label: 'Who', look: 'nowrap', cell: ({ requestedBy }) => requestedBy },
        { label: 'Why', look: 'message', cell: ({ reason }) => reasonOrNone(reason) },
        { label: 'Missing', tone: 'num', cell: ({ matched }) => count(matched) },
        { label: 'Written', tone: 'num', cell: ({ written }) => count(written) },
        { label: 'State', look: 'nowrap', cell: (item) => stateWords(item, now) },
        {
          ...ACTIONS,
          cell: ({ backfillId, topic, requestedAt }) =>
            html`<div class="acts">
              <a class="btn sm quiet" href="${backfilledPath(backfillId)}"
                >Details<span class="vh">
                  of the backfill of ${topic} at ${timeText(requestedAt, now)}</span
                ></a
              >
            </div>`,
        },
      ],
      rows: items,
    }),
  )}`;
}

function stateWords({ endedAt, stopped }: BackfillRecord, now: string): Child {
  if (endedAt === null) return 'under way';
  return html`${stopped === null ? 'ended' : 'stopped'} ${timeAndAgo(endedAt, now)}`;
}

function newBackfill({ url }: PageContext): Html {
  const names = Object.keys(catalog).toSorted();
  const topic = url.searchParams.get('topic') ?? names[0]!;
  const listed = topics().find(([name]) => name === url.searchParams.get('topic'))?.[1].subscribers;
  const subscribers = listed?.toSorted() ?? subscriberNames();
  return section({
    id: 'new',
    title: 'New backfill',
    hint: 'previewed before anything is written',
    content: html`<form class="filters" method="get" action="${backfillPath({})}">
      ${select('Topic', 'topic', topic, names.map(option))}
      ${select('Subscriber', 'subscriber', url.searchParams.get('subscriber') ?? subscribers[0]!, subscribers.map(option))}
      ${requestedFields(null, null)}
      <button class="btn">Preview</button>
    </form>`,
  });
}

const option = (name: string) => [name, name] as const;
