import * as z from 'zod';

import type { Overview } from '../../operators/overview/read.ts';
import { count, counts, errorGroup, instant, topic } from './values.ts';

const countsOf = z.object(counts).meta({ id: 'Counts' });

const hours = z
  .object({
    delivered: z.array(count).length(24),
    deadLettered: z.array(count).length(24),
  })
  .meta({ id: 'Hours', description: 'Deliveries of the last 24 hours, hour by hour, the oldest first.' });

const pause = z
  .object({
    topic: topic.nullable().meta({ description: 'Null: all topics of the subscriber.' }),
    pausedAt: instant,
    pausedBy: z.string(),
    reason: z.string(),
  })
  .meta({ id: 'Pause' });

const age = z
  .number()
  .nonnegative()
  .nullable()
  .meta({ description: 'Of the oldest delivery that could be handed over now. Null: none could.' });

const subscriberOverview = z
  .object({
    subscriber: z.string(),
    inCatalog: z.boolean().meta({
      description:
        'Whether this release’s catalog lists it. Where it does not, its deliveries wait for one that does.',
    }),
    neededVersion: z.int().positive().nullable().meta({
      description: 'The payload version of its next event, where that is newer than this release can read.',
    }),
    ...counts,
    attached: z
      .boolean()
      .meta({ description: 'Whether it has a handler or an endpoint; its deliveries wait otherwise.' }),
    paused: z.boolean(),
    pause: pause.nullable(),
    oldestDueAgeSeconds: age,
    nextRetryAt: instant.nullable(),
    lastDeliveredAt: instant.nullable(),
    lastFailedAt: instant.nullable(),
  })
  .meta({ id: 'SubscriberOverview', description: 'A subscriber of a topic, with its deliveries by state.' });

export const topicOverview = z
  .object({
    topic,
    producer: z.string().meta({ description: 'Empty where the catalog does not have the topic.' }),
    inCatalog: z.boolean().meta({ description: 'Whether this release’s catalog has the topic.' }),
    ...counts,
    oldestDueAgeSeconds: age,
    nextRetryAt: instant.nullable(),
    awaitingFanOut: count.meta({ description: 'Events that have no deliveries yet; part of `pending`.' }),
    heldBackSince: instant
      .nullable()
      .meta({ description: 'Since when a producer’s open transaction holds back the topic’s events.' }),
    hours,
    subscribers: z.array(subscriberOverview),
  })
  .meta({ id: 'TopicOverview', description: 'A topic with its events by state, and its subscribers.' });

export const overview = z
  .object({
    generatedAt: instant,
    relay: z.object({
      state: z
        .enum(['running', 'stalled', 'never_run'])
        .meta({ description: '`stalled`: no relay has looked for work for two minutes.' }),
      lastPassAt: instant.nullable(),
      runsHere: z
        .boolean()
        .meta({ description: 'Whether this deployment relays; a preview does not, unless `RELAY=on`.' }),
      lagSeconds: z.number().nonnegative().meta({ description: 'Age of the oldest delivery that is due.' }),
    }),
    totals: z
      .object({
        ...counts,
        deliveries: countsOf,
        deliveredLast24h: count,
        firstAttemptLast24h: count.meta({ description: 'Of these, how many at the first attempt.' }),
      })
      .meta({ description: 'Events by state, and their deliveries.' }),
    hours,
    worstError: z
      .object({
        group: errorGroup,
        kind: z.string(),
        message: z.string(),
        topic,
        subscriber: z.string(),
        count,
        lastDeliveredAt: instant.nullable(),
      })
      .nullable()
      .meta({ description: 'The error that most dead letters share.' }),
    topics: z.array(topicOverview).meta({
      description: 'Every topic of the catalog, in its order; then others that still hold something.',
    }),
  })
  .meta({ id: 'Overview', description: 'The bus at one moment.' }) satisfies z.ZodType<Overview>;
