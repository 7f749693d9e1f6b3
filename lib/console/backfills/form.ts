import { catalog, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfillPath } from '../kit/links.ts';
import { section } from '../kit/sections.ts';
import { select, topicField } from '../kit/select.ts';
import { requestedFields } from './plan.ts';

/** The form that previews a new backfill. */
export function newBackfill({ url }: PageContext): Html {
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
