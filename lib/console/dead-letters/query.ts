import * as z from 'zod';

import { cursorOf } from '../kit/cursor.ts';
import { byLink, bySince, bySubscriber, byText, byTopic, shapesIn } from '../kit/filters.ts';
import { agoOrInstant, isInstant, LONGEST_GROUPS } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';

/** The start of a page: next to the delivery that was dead-lettered at this instant, to the microsecond. */
const cursorShape = z.tuple([
  z.string().refine(isInstant),
  z.string().regex(/^\d{1,18}$/),
  z.string().regex(/^\d{1,18}$/),
  z.enum(['older', 'newer']),
]);
export type Cursor = z.output<typeof cursorShape>;

const until = agoOrInstant.optional().meta({
  description:
    'Only those that were dead-lettered before: a time span before now, or an instant. By default now.',
});

export const deadLetterFilters = {
  topic: byTopic,
  subscriber: bySubscriber,
  since: bySince('Dead-lettered'),
  until: byLink(until, {
    value: '<1h>',
    help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
  }),
  group: byLink(z.string().max(LONGEST_GROUPS).optional(), {
    value: '<group>',
    help: 'only one group of equal errors, by its id in --json',
  }),
  q: {
    ...byText(
      'Error, event id or delivery id',
      {
        name: 'search',
        value: '<text>',
        help: 'only errors that contain this text, or the event with this id',
      },
      '503 or 019a9bd2-7f3e…',
    ),
    shape: z.string().trim().max(200).optional(),
  },
};

/** The query of the list of dead letters. */
export const deadLetterQuery = z.object({
  ...shapesIn(deadLetterFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type DeadLetterQuery = z.output<typeof deadLetterQuery>;
