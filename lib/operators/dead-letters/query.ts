import * as z from 'zod';

import * as shape from '../shapes.ts';
import { ago, isInstant, topicText } from '../../deliveries/replay-request.ts';

/** What a query of the dead letters may ask for. */
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

/** Where a page of dead letters begins: beside the one that died at this moment. */
export interface Cursor {
  /** As Postgres writes it, to the microsecond. */
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
    context.addIssue({ code: 'custom', message: 'write a cursor as an answer gave it, or none' });
    return z.NEVER;
  }
}

/** A cursor as a query takes it. */
export function writeCursor({ at, lane, position, towards }: Cursor): string {
  return Buffer.from(JSON.stringify([at, lane, position, towards])).toString('base64url');
}
