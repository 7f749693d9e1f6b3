import * as z from 'zod';

import type { CatalogView } from '../../operators/catalog/read.ts';
import type { TopicView } from '../../operators/lanes/read.ts';
import { groupOfErrors } from './dead-letters.ts';
import { topicOverview } from './overview.ts';
import { count, instant, lastError, state, topic } from './values.ts';

const orderedBy = z
  .string()
  .nullable()
  .meta({ description: 'The ordering key; null where the lane is the whole topic.' });

const heldLane = z
  .object({
    subscriber: z.string(),
    orderingKey: z.string(),
    deliveryId: z.string().meta({ description: 'The delivery that holds the lane.' }),
    eventId: z.uuid(),
    subject: z.string().nullable(),
    attempts: count,
    nextAttemptAt: instant,
    lastError: lastError.nullable(),
    behind: count.meta({ description: 'Deliveries that wait behind it.' }),
    isMoreBehind: z.boolean().meta({ description: 'Whether there are more than `behind`.' }),
  })
  .meta({ id: 'HeldLane', description: 'A lane whose first delivery waits for a retry.' });

export const topicView = z
  .object({
    generatedAt: instant,
    topic: topicOverview,
    description: z.string(),
    version: z
      .int()
      .positive()
      .nullable()
      .meta({ description: 'Null where the catalog does not have the topic.' }),
    orderedBy,
    heldLanes: z.array(heldLane).max(50).meta({ description: 'The next to be tried first.' }),
    errors: z.array(groupOfErrors),
    events: z
      .array(
        z.object({
          eventId: z.uuid(),
          createdAt: instant,
          subject: z.string().nullable(),
          orderingKey: z.string(),
          state,
        }),
      )
      .max(10)
      .meta({ description: 'The newest.' }),
  })
  .meta({ id: 'TopicView', description: 'One topic at one moment.' }) satisfies z.ZodType<TopicView>;

export const catalogView = z
  .object({
    topics: z.array(
      z
        .object({
          topic,
          producer: z.string(),
          subscribers: z.array(z.object({ subscriber: z.string(), attached: z.boolean() })),
          description: z.string(),
          version: z.int().positive(),
          listed: z.boolean().meta({ description: 'Fixed by the platform’s owner; the others are ours.' }),
          orderedBy,
          fields: z.array(
            z.object({
              path: z.string().meta({ description: 'Dotted; `[]` stands for the items of a list.' }),
              type: z.string().meta({ description: 'In words.' }),
              isRequired: z.boolean(),
              isPersonal: z.boolean(),
            }),
          ),
          example: z.unknown(),
        })
        .meta({ id: 'CatalogTopic' }),
    ),
  })
  .meta({ id: 'Catalog', description: 'What can happen.' }) satisfies z.ZodType<CatalogView>;
