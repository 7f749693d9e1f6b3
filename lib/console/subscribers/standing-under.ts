import * as z from 'zod';

import { countColumn, link } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { topicPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';

/** What stands under a name that leaves: a topic’s deliveries that wait, and those that died. */
export const standing = z.object({
  topic: shape.topic,
  waiting: shape.count.meta({ description: 'Deliveries that wait, with events that await their places.' }),
  deadLettered: shape.count,
});
type Standing = z.output<typeof standing>;

export function standingList(rows: readonly Standing[]): List<Standing> {
  return {
    name: 'Topics',
    caption: 'What waits and what died, by topic',
    columns: [
      { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic, 'roomy') },
      countColumn('Waiting', ({ waiting }) => waiting),
      countColumn('Dead letters', ({ deadLettered }) => deadLettered),
    ],
    rows,
  };
}
