import * as z from 'zod';

import type { DeadLetter } from '../../operators/dead-letters/delivery.ts';
import type { DeadLetterPage } from '../../operators/dead-letters/read.ts';
import { count, errorGroup, instant, lastError, state, topic } from './values.ts';

const deliveryId = z.string().meta({ description: 'Of a delivery: `<lane>-<position>`.' });

const delivery = {
  deliveryId,
  eventId: z.uuid(),
  topic,
  subscriber: z.string(),
  subject: z
    .string()
    .nullable()
    .meta({ description: 'What the event is about, for example `booking bkg_48213`.' }),
  createdAt: instant,
  failures: count.meta({ description: 'Failed attempts since fan-out or the last replay.' }),
  replays: count,
};

const item = z
  .object({ ...delivery, deadLetteredAt: instant, lastError: lastError.extend({ group: errorGroup }) })
  .meta({ id: 'DeadLetterItem' });

export const groupOfErrors = z
  .object({
    group: errorGroup,
    kind: z.string(),
    message: z.string(),
    topic,
    subscriber: z.string(),
    count,
    firstAt: instant,
    lastAt: instant,
    isStillFailing: z
      .boolean()
      .meta({ description: 'Whether the subscription has delivered nothing since it last failed.' }),
  })
  .meta({ id: 'ErrorGroup', description: 'Dead letters of one subscription that failed in the same way.' });

export const deadLetterPage = z
  .object({
    generatedAt: instant,
    filters: z.object({
      topic: topic.nullable(),
      subscriber: z.string().nullable(),
      since: z.string().nullable(),
      group: z.string().nullable(),
      q: z.string().nullable(),
      limit: count,
    }),
    items: z.array(item).meta({ description: 'Newest first.' }),
    total: count.meta({ description: 'Within the filters; exact.' }),
    totalInAll: count,
    groups: z.array(groupOfErrors).meta({ description: 'Largest first.' }),
    nextCursor: z.string().nullable().meta({ description: 'Leads to older ones; null on the last page.' }),
    previousCursor: z
      .string()
      .nullable()
      .meta({ description: 'Leads to newer ones; null on the first page.' }),
    failing: count.meta({ description: 'Where the list is empty: deliveries that will be tried again.' }),
    nextRetryAt: instant.nullable(),
  })
  .meta({
    id: 'DeadLetterPage',
    description: 'Dead letters, a page of them, and the errors they died of.',
  }) satisfies z.ZodType<DeadLetterPage>;

const attempt = z
  .object({
    outcome: z.enum(['failed', 'waited', 'delivered']),
    attempt: count.meta({ description: 'Counted from 1, from 1 again after a replay.' }),
    at: instant,
    durationMs: z.number().nonnegative(),
    error: lastError.nullable(),
    waitedMs: count.nullable().meta({ description: 'How long until the next attempt was due.' }),
  })
  .meta({ id: 'Attempt' });

const act = z
  .object({
    outcome: z.enum(['replayed', 'hurried', 'skipped']),
    at: instant,
    by: z.string(),
    reason: z.string().nullable(),
    replayId: z.string().nullable(),
  })
  .meta({ id: 'OperatorAct', description: 'What an operator did to a delivery.' });

export const deadLetter = z
  .object({
    ...delivery,
    generatedAt: instant,
    state,
    deadLetteredAt: instant.nullable(),
    deliveredAt: instant.nullable(),
    nextAttemptAt: instant.nullable(),
    lastError: lastError.extend({ group: errorGroup.nullable() }).nullable(),
    orderingKey: z.string().meta({ description: 'Empty where the lane is the whole topic.' }),
    event: z.object({
      state,
      producer: z.string(),
      version: z.int().positive(),
      correlationId: z.string().nullable(),
      causationId: z.string().nullable(),
      traceparent: z.string().nullable(),
    }),
    attempts: z.array(z.union([attempt, act])).meta({ description: 'Oldest first.' }),
    payload: z
      .unknown()
      .meta({ description: 'The event’s, with personal data hidden unless it was revealed.' }),
    hidden: z
      .array(z.object({ pointer: z.string(), kind: z.string().nullable() }))
      .meta({ description: 'JSON Pointers of the values that are hidden, each with what it is.' }),
    isValid: z.boolean().meta({
      description:
        'Whether the payload fits its schema as this release knows it. Of a newer version, or of a topic that is not in its catalog, everything is hidden.',
    }),
    isRevealed: z.boolean(),
    siblings: z
      .array(z.object({ subscriber: z.string(), state }))
      .meta({ description: 'The same event’s deliveries to its other subscribers.' }),
  })
  .meta({
    id: 'DeadLetter',
    description: 'A delivery that is or was a dead letter, with all that happened to it.',
  }) satisfies z.ZodType<DeadLetter>;
