import * as z from 'zod';

import type { ReplayPreview } from '../../operators/replays/preview.ts';
import type { Replay } from '../../deliveries/replay.ts';
import { replayRequest } from '../../deliveries/replay-request.ts';
import type { OperatorLog, ReplayProgress } from '../../operators/replays/read.ts';
import { count, counts, instant, lastError, topic } from './values.ts';

const topicOrNull = topic
  .nullable()
  .meta({ description: 'Null: deliveries of several topics, chosen one by one.' });

export const replayed = z
  .object({
    replayId: z.uuid().nullable().meta({ description: 'Null for a dry run.' }),
    topic: topicOrNull,
    since: z.string().nullable(),
    matched: count,
    replayed: count,
  })
  .meta({ id: 'Replayed', description: 'What was put back.' }) satisfies z.ZodType<Replay>;

export const replayPreview = z
  .object({
    generatedAt: instant,
    request: z
      .object(replayRequest.shape)
      .partial()
      .meta({ description: 'The request, ready to be sent: with `until` and `expectedCount`.' }),
    replayId: z
      .uuid()
      .meta({ description: 'For the replay, so that the same request sent twice replays once.' }),
    topic: topicOrNull,
    matched: count,
    isAll: z.boolean().meta({ description: 'Whether delivered events are among them.' }),
    error: lastError.nullable(),
    createdFrom: instant.nullable(),
    createdTo: instant.nullable(),
    endedFrom: instant.nullable(),
    endedTo: instant.nullable(),
    subscriptions: z.array(
      z
        .object({
          topic,
          subscriber: z.string(),
          count,
          others: count.meta({ description: 'Other subscribers of the topic, who get nothing.' }),
          attached: z.boolean(),
          paused: z.boolean(),
          isStillFailing: z.boolean(),
          lastDeliveredAt: instant.nullable(),
          lastFailedAt: instant.nullable(),
          lastError: lastError.nullable(),
        })
        .meta({ id: 'PreviewedSubscription' }),
    ),
    leftOut: z
      .array(z.object({ topic, subscriber: z.string(), count }))
      .meta({ description: 'Left out: this release’s catalog does not list the subscriber for the topic.' }),
  })
  .meta({
    id: 'ReplayPreview',
    description: 'What a replay would do. Nothing has been put back.',
  }) satisfies z.ZodType<ReplayPreview>;

/** Of `dryRun`: the preview, and the answer that the replay would have had. */
export const dryRun = replayPreview
  .extend({ replayId: z.null(), since: z.string().nullable(), replayed: z.literal(0) })
  .meta({ id: 'DryRun', description: 'Of `dryRun: true`.' });

const record = {
  replayId: z.uuid(),
  topic: topicOrNull,
  requestedAt: instant,
  requestedBy: z.string(),
  reason: z.string().nullable(),
  request: z.record(z.string(), z.unknown()).meta({ description: 'As asked for.' }),
  matched: count,
  replayed: count,
};

export const replayProgress = z
  .object({
    generatedAt: instant,
    ...record,
    progress: z
      .object({ ...counts, delivered: count, replayedAgain: count })
      .meta({ description: 'What has become of its deliveries; adds up to `replayed`.' }),
  })
  .meta({
    id: 'ReplayProgress',
    description: 'A replay, and what has become of its deliveries.',
  }) satisfies z.ZodType<ReplayProgress>;

const action = z
  .object({
    actionId: z.uuid(),
    at: instant,
    operator: z.string(),
    action: z.enum(['retry', 'skip', 'pause', 'resume', 'reveal']),
    topic: topic.nullable(),
    subscriber: z.string().nullable(),
    deliveryId: z.string().nullable(),
    reason: z.string().nullable(),
  })
  .meta({ id: 'OperatorAction' });

export const operatorLog = z
  .object({
    generatedAt: instant,
    replays: z.array(z.object(record).meta({ id: 'ReplayRecord' })),
    actions: z.array(action),
    nextCursor: z
      .string()
      .nullable()
      .meta({ description: 'Leads to older ones of both; null on the last page.' }),
  })
  .meta({
    id: 'OperatorLog',
    description: 'What operators did, newest first.',
  }) satisfies z.ZodType<OperatorLog>;
