import * as z from 'zod';

import { LONGEST_REASON, ownWords } from './replay-request.ts';

// Shapes that the requests and answers of several capabilities share.

/** An instant in UTC. */
export const instant = z.iso.datetime();

export const count = z.int().nonnegative();

/** Events or deliveries in each state that still needs something. */
export const counts = { pending: count, failing: count, deadLettered: count };

const countsObject = z.object(counts);
export type Counts = z.output<typeof countsObject>;

export const state = z.enum(['pending', 'failing', 'dead_lettered', 'delivered']).meta({
  id: 'State',
  description: 'The state of a delivery. The state of an event is the worst of its deliveries.',
});
export type State = z.output<typeof state>;

/** Any topic: stored events may have one that this release's catalog no longer lists. */
export const topic = z.string();

export const lastError = z
  .object({
    kind: z.string().meta({ description: 'The error’s code or class, for example `timeout`, `http_503`.' }),
    message: z.string().meta({ description: 'Personal data in it is masked.' }),
  })
  .meta({ id: 'LastError', description: 'The error that an attempt failed with.' });
export type LastError = z.output<typeof lastError>;

export const orderedBy = z
  .string()
  .nullable()
  .meta({ description: 'The ordering key; null if the whole topic is one lane.' });

export const errorGroup = z
  .string()
  .meta({ description: 'Identifies the dead letters of one subscription that failed in the same way.' });

/** A webhook endpoint. */
export const endpointName = z.string().meta({
  description: 'The endpoint: a provider, or a further account of it, such as `cardpayments_2`.',
});

/** Any subscriber: stored deliveries may be of one that this release’s catalog no longer lists. */
export const subscriberName = z
  .string()
  .regex(/^[\w.-]{1,100}$/, 'expected the name of a subscriber, for example ledger');

const REASON = 'expected a reason; it is kept in the operator log';

export const requiredReason = z
  .preprocess((reason) => reason ?? '', ownWords)
  .pipe(z.string().min(1, REASON))
  .meta({
    type: 'string',
    minLength: 1,
    maxLength: LONGEST_REASON,
    description: 'The reason, kept in the operator log.',
  });

/** Marks the reason as required in descriptions: zod cannot tell that a preprocessed field is. */
export const needsReason = { required: ['reason'] };

/** An optional reason, and the page to return to. Forms send fields that were left empty. */
export const optionalReason = z.object({
  reason: ownWords.transform((text) => text || null).optional(),
  next: z
    .string()
    .optional()
    .meta({ description: 'The page of the console that a browser is redirected to.' }),
});

const PAGE_LIMIT = 'expected a whole number from 1 to 100';

/** The number of entries that one page of a list shows, as a query's field. */
export const pageLimit = z.coerce
  .number(PAGE_LIMIT)
  .int(PAGE_LIMIT)
  .min(1, PAGE_LIMIT)
  .max(100, PAGE_LIMIT)
  .default(50);

/** The answer with one page of a list that is read from its newest entry on. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ generatedAt: instant, items: z.array(item), nextCursor: z.uuid().nullable() });

/** Makes that answer of what was read: one more than fit, if there are any. */
export function pageOf<Item>(
  { generatedAt, items }: { readonly generatedAt: string; readonly items: readonly Item[] },
  limit: number,
  idOf: (item: Item) => string,
): { generatedAt: string; items: Item[]; nextCursor: string | null } {
  const kept = items.slice(0, limit);
  return { generatedAt, items: kept, nextCursor: items.length > limit ? idOf(kept.at(-1)!) : null };
}

/** One page of a list that is read from its newest entry on, as a query's fields. */
export const page = {
  limit: pageLimit,
  cursor: z.uuid('expected a cursor from an earlier answer, or none').optional(),
};
