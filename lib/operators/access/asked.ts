import * as z from 'zod';

import type { Database } from '../../db/connect.ts';
import { Problem } from '../../http/problem.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import type { OperatorVisit } from './endpoint.ts';
import { deliveryId, ownWords } from '../../deliveries/replay-request.ts';

/** What the routes act on. */
export interface Bus {
  readonly database: () => Promise<Database>;
  readonly subscribers: () => readonly AttachedSubscriber[];
  /** Whether this deployment relays. */
  readonly relays: () => boolean;
  /** Has a relay run soon. */
  readonly kick: () => void;
}

const REASON = 'write a reason: it is kept in the log';
export const requiredReason = z
  .preprocess((reason) => reason ?? '', ownWords)
  .pipe(z.string().min(1, REASON))
  .meta({ type: 'string', minLength: 1, maxLength: 500, description: 'Why. It is kept in the log.' });

/** Zod can't tell that a field is required that is a text whatever was sent. For descriptions of a request. */
export const needsReason = { required: ['reason'] };

/** Why, if they say, and where to go on from. A form sends a field that was left empty. */
export const optionalReason = z.object({
  reason: ownWords.transform((text) => text || null).optional(),
  next: z.string().optional().meta({ description: 'The page of the console to go on to, for browsers.' }),
});

/** A query as an object: a field that was left empty is left out, one that is there twice is a list with commas. */
export function filled(query: URLSearchParams): Record<string, string> {
  const names = [...new Set(query.keys())];
  // A text that no database takes is no text that could be found in one.
  const fields = names.map((name) => [
    name,
    query.getAll(name).filter(Boolean).join(',').replaceAll('\0', ''),
  ]);
  return Object.fromEntries(fields.filter(([, text]) => text));
}

export function deliveryIdOf({ parameters }: OperatorVisit): string {
  const parsed = deliveryId.safeParse(parameters['deliveryId']);
  if (!parsed.success) throw new Problem('not_found', { detail: 'There is no such delivery.' });
  return parsed.data;
}

const SHOULD_BE = 'write a whole number, 1 to 100';

/** How much of a list one page shows, as a query's field. */
export const pageLimit = z.coerce
  .number(SHOULD_BE)
  .int(SHOULD_BE)
  .min(1, SHOULD_BE)
  .max(100, SHOULD_BE)
  .default(50);
