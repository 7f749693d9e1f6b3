import * as z from 'zod';

import { ago, isInstant, topicText } from '../../bus/deliveries/operations/replay-request.ts';
import * as shape from '../kit/shapes.ts';

/** The query of the list of dead letters. */
export const deadLetterQuery = z.object({
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  since: ago.optional(),
  group: z.string().max(100).optional(),
  q: z.string().trim().max(200).optional(),
  limit: shape.pageLimit,
  cursor: z.string().transform(readCursor).optional(),
});

export type DeadLetterQuery = z.output<typeof deadLetterQuery>;

/** The start of a page: next to the delivery that was dead-lettered at this instant. */
export interface Cursor {
  /** In Postgres's notation, to the microsecond. */
  readonly at: string;
  readonly lane: string;
  readonly position: string;
  readonly towards: 'older' | 'newer';
}

const cursorShape = z.tuple([
  z.string().refine(isInstant),
  z.string().regex(/^\d{1,18}$/),
  z.string().regex(/^\d{1,18}$/),
  z.enum(['older', 'newer']),
]);

function readCursor(text: string, context: z.RefinementCtx): Cursor {
  try {
    const [at, lane, position, towards] = cursorShape.parse(
      JSON.parse(Buffer.from(text, 'base64url').toString()),
    );
    return { at, lane, position, towards };
  } catch {
    context.addIssue({ code: 'custom', message: 'expected a cursor from an earlier answer, or none' });
    return z.NEVER;
  }
}

/** Writes a cursor as a query accepts it. */
export function writeCursor({ at, lane, position, towards }: Cursor): string {
  return Buffer.from(JSON.stringify([at, lane, position, towards])).toString('base64url');
}
