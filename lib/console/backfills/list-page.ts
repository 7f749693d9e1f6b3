import { catalog, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { say, toMinute } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfillPath } from '../kit/links.ts';
import { endPhrase, listPage, operationTable } from '../kit/operation-pages.ts';
import type { Listed } from '../kit/operation-pages.ts';
import { emptyCard, section } from '../kit/sections.ts';
import { select, topicField } from '../kit/select.ts';
import { BACKFILL } from './page.ts';
import { requestedFields } from './plan.ts';
import type { BackfillList, BackfillRecord } from './read.ts';

/** Draws who backfilled what, when and why, how far each backfill is, and a form that previews a new one. */
export function backfillsPage(view: BackfillList, context: PageContext): Html {
  const { searchParams } = context.url;
  const only = ['topic', 'subscriber'].flatMap((name) => searchParams.get(name) ?? []);
  return listPage({
    kind: BACKFILL,
    view,
    context,
    lead: 'Deliveries of older events, written later for a subscriber that is new on their topic. Newest first.',
    only,
    content: tableOf(view, only.length > 0, context),
    form: newBackfill(context),
  });
}

function tableOf(view: BackfillList, isFiltered: boolean, context: PageContext): Html {
  if (view.items.length === 0)
    return emptyCard({
      title: isFiltered ? 'No backfills match' : 'No backfills yet',
      text: 'Each backfill is listed here, with its operator, its reason and its progress.',
    });
  return operationTable(listedBackfills(view), context);
}

function listedBackfills({ items, generatedAt: now }: BackfillList): Listed<BackfillRecord> {
  return {
    kind: BACKFILL,
    rows: items,
    now,
    id: ({ backfillId }) => backfillId,
    name: ({ topic }) => topic,
    scope: ({ subscriber, since }) => say`to ${subscriber}, since ${toMinute(since, now)}`,
    numbers: [
      ['Missing', ({ matched }) => matched],
      ['Written', ({ written }) => written],
    ],
    state: ({ stopped, endedAt }) => endPhrase(stopped === null ? 'ended' : 'stopped', endedAt, now),
  };
}

function newBackfill({ url }: PageContext): Html {
  const names = Object.keys(catalog).toSorted();
  const topic = url.searchParams.get('topic');
  const listed = topics().find(([name]) => name === topic)?.[1].subscribers;
  const subscribers = listed?.toSorted() ?? subscriberNames();
  return section({
    id: 'new',
    title: 'New backfill',
    hint: 'previewed before anything is written',
    content: html`<form class="filters" method="get" action="${backfillPath({})}">
      ${topicField({ topic, names, all: null })}
      ${select('Subscriber', 'subscriber', url.searchParams.get('subscriber') ?? subscribers[0]!, subscribers.map(option))}
      ${requestedFields(null, null)}
      <button class="btn">Preview</button>
    </form>`,
  });
}

const option = (name: string) => [name, name] as const;
