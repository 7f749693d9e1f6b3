import * as z from 'zod';

import { ago, agoOrInstant, isInstant, LONGEST_GROUPS, topicText } from '../kit/replay-request.ts';
import { cursorOf } from '../kit/cursor.ts';
import * as shape from '../kit/shapes.ts';

/** The start of a page: next to the delivery that was dead-lettered at this instant, to the microsecond. */
const cursorShape = z.tuple([
  z.string().refine(isInstant),
  z.string().regex(/^\d{1,18}$/),
  z.string().regex(/^\d{1,18}$/),
  z.enum(['older', 'newer']),
]);
export type Cursor = z.output<typeof cursorShape>;

/** The query of the list of dead letters. */
export const deadLetterQuery = z.object({
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  since: ago.optional(),
  until: agoOrInstant.optional().meta({
    description:
      'Only those that were dead-lettered before: a time span before now, or an instant. By default now.',
  }),
  group: z.string().max(LONGEST_GROUPS).optional(),
  q: z.string().trim().max(200).optional(),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type DeadLetterQuery = z.output<typeof deadLetterQuery>;
