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
    kind: z.string().describe('The error’s code or class, for example `timeout`, `http_503`.'),
    message: z.string().describe('Personal data in it is masked.'),
  })
  .meta({ id: 'LastError', description: 'The error that an attempt failed with.' });
export type LastError = z.output<typeof lastError>;

export const orderedBy = z
  .string()
  .nullable()
  .describe('The ordering key; null if the whole topic is one lane.');

export const errorGroup = z
  .string()
  .describe('Identifies the dead letters of one subscription that failed in the same way.');

/** A webhook endpoint. */
export const endpointName = z
  .string()
  .describe('The endpoint: a provider, or a further account of it, such as `cardpayments_2`.');

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

/** An optional reason. Forms send fields that were left empty. */
export const optionalReason = z.object({
  reason: ownWords.transform((text) => text || null).optional(),
});

/** A whole number of a query, from 1 on. */
export function upTo(most: number) {
  const words = `expected a whole number from 1 to ${most}`;
  return z.coerce.number(words).int(words).min(1, words).max(most, words);
}

/** The number of entries that one page of a list shows, as a query's field. */
export const pageLimit = upTo(1000).default(50);

/** A request from a form or a query: all fields are texts, empty ones are left out, ids are separated by commas. */
export const asForm = <Request extends z.ZodType>(request: Request) => z.preprocess(fromTexts, request);

const texts = z.record(z.string(), z.string());

function fromTexts(form: unknown): unknown {
  const fields = texts.safeParse(form);
  if (!fields.success) return form;
  const filled = Object.entries(fields.data).filter(([, text]) => text.trim() !== '');
  return Object.fromEntries(filled.map(([name, text]) => [name, valueOf(name, text)]));
}

function valueOf(name: string, text: string): unknown {
  switch (name) {
    case 'deliveryIds':
      return text.split(',');
    case 'expectedCount':
    case 'limit':
    case 'perMinute':
      return Number(text);
    case 'dryRun':
    case 'exact':
      // Any other text is invalid, and must not count as false.
      return text === 'true' || (text === 'false' ? false : text);
    default:
      return text;
  }
}
