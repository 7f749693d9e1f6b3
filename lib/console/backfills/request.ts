import * as z from 'zod';

import { ago, isInstant, ownWords, topicText } from '../kit/replay-request.ts';
import { msOf } from '../../platform/time.ts';

/** How a beginning is written. */
export const SINCE =
  'expected a time span such as 30d or 12h (units s, m, h, d, w), at most ten years, or a past instant in UTC such as 2026-02-21T09:35:00Z';

/** The subscription, and how far back its events are written. */
const which = {
  topic: topicText,
  subscriber: z
    .string('expected a subscriber of the catalog, such as ledger')
    .regex(/^[\w.-]{1,100}$/, 'expected a subscriber of the catalog, such as ledger')
    .meta({ description: 'A subscriber that this release’s catalog lists for the topic.' }),
  since: z
    .string(SINCE)
    .refine((text) => ago.safeParse(text).success || isPast(text), SINCE)
    .meta({
      description: 'Events recorded since then: a time span before now (`30d`, `12h`) or an instant in UTC.',
    }),
};

/** As fast as a paced backfill may go: faster than that, it need not be paced. */
const MOST_PER_MINUTE = 100_000;

/** A backfill as an operator requests it. */
export const backfillRequest = z.strictObject({
  ...which,
  perMinute: z.int().positive().max(MOST_PER_MINUTE).optional().meta({
    description:
      'Writes at most this many deliveries a minute, so that the subscriber is not flooded. Without it all are written as fast as the database can.',
  }),
  dryRun: z
    .boolean()
    .default(false)
    .meta({ description: 'Counts the missing deliveries and changes nothing.' }),
  expectedCount: z
    .int()
    .nonnegative()
    .optional()
    .meta({ description: 'Refuses the backfill unless exactly this many deliveries are missing.' }),
  reason: ownWords.optional(),
  backfillId: z
    .uuid('expected a UUID')
    .optional()
    .meta({ description: 'An id chosen by the caller. A second request with it writes nothing.' }),
});

export type ParsedBackfillRequest = z.output<typeof backfillRequest>;

function isPast(text: string): boolean {
  return isInstant(text) && Date.parse(text) <= Date.now();
}

/** @param since as a request has it. @param now epoch milliseconds. */
export function sinceOf(since: string, now: number): Date {
  const ms = msOf(since);
  return ms > 0 ? new Date(now - ms) : new Date(since);
}
