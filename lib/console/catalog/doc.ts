import { leads } from '../kit/doc.ts';
import type { Doc } from '../kit/doc.ts';
import { link, muted, say, subscriberPhrase } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { instantOf } from '../../platform/time.ts';
import { asyncApiPath, topicPath } from '../kit/links.ts';
import { quantity } from '../kit/words.ts';
import type { CatalogTopic, CatalogView } from './read.ts';

/** Says which topics this release has, who produces each and who subscribes. */
export function catalogDoc({ topics }: CatalogView): Doc {
  return {
    title: 'Catalog',
    lead: `${quantity(topics.length, 'topic')}. The AsyncAPI document has the fields and an example of each, and so has npx postbud catalog <topic>.`,
    section: 'catalog',
    at: instantOf(Date.now()),
    refreshSeconds: null,
    acts: [leads(asyncApiPath(), 'AsyncAPI', 'document of all topics')],
    blocks: [{ id: 'topics', list: topicsByProducer(topics) }],
  };
}

export function topicsByProducer(rows: readonly CatalogTopic[]): List<CatalogTopic> {
  return {
    name: 'Topics',
    caption: 'Topics, each with its producer and its subscribers',
    columns: [
      {
        label: 'Topic',
        isRowHeader: true,
        terminal: { isCut: true },
        cell: ({ topic }) => link(topicPath(topic), topic),
      },
      { label: 'Version', tone: 'num', terminal: { leftOut: 'late' }, cell: ({ version }) => version },
      { label: 'Producer', cell: ({ producer }) => producer },
      {
        label: 'Subscribers',
        look: 'wrap',
        terminal: { isFlexible: true },
        cell: ({ subscribers }) =>
          subscribers
            .map(({ subscriber }) => subscriberPhrase(subscriber))
            .reduce((all, one) => say`${all}, ${one}`),
      },
      {
        label: 'Ordered by',
        terminal: { leftOut: 'late' },
        cell: ({ orderedBy }) => orderedBy ?? muted('whole topic'),
      },
      {
        label: 'Description',
        look: 'wrap',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ description }) => description,
      },
    ],
    rows,
  };
}
