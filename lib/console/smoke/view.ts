import * as z from 'zod';

import * as shape from '../kit/shapes.ts';

const milliseconds = z.int().nonnegative();

/** How a test, or a part of it, is. */
const arrival = z.enum(['arrived', 'waiting', 'failed']);

const webhookState = z
  .enum([...arrival.options, 'not_sent', 'not_configured', 'misconfigured', 'not_tested'])
  .meta({
    description:
      '`not_sent`: there is no test yet. `not_tested`: the provider signs with a private key, and this deployment has its public key only.',
  });

const subscriberState = z.enum([...arrival.options, 'not_sent', 'paused', 'unattached']).meta({
  description: '`not_sent`: there is no test yet, or this deployment does not relay.',
});

const webhook = z
  .object({
    provider: shape.endpointName,
    scheme: z.string().nullable(),
    state: webhookState,
    status: z.int().nullable().meta({ description: 'The status of the endpoint’s answer.' }),
    durationMs: milliseconds.nullable().meta({ description: 'The time until the answer.' }),
    receiptStored: z.boolean(),
    eventId: z.uuid().nullable().meta({ description: 'The event that was recorded with the receipt.' }),
    deliveries: z
      .array(
        z.object({
          subscriber: z.string(),
          state: z.enum([...arrival.options, 'paused', 'unattached']),
          afterMs: milliseconds.nullable(),
        }),
      )
      .meta({ description: 'The subscribers of its topic, and after what time each had it.' }),
    problem: z.string().nullable().meta({ description: 'What is wrong, and what to do.' }),
  })
  .meta({ id: 'SmokeTestWebhook' });

const subscriber = z
  .object({
    subscriber: z.string(),
    place: z.enum(['in_process', 'elsewhere', 'journal']).nullable(),
    state: subscriberState,
    afterMs: milliseconds.nullable().meta({ description: 'From the event’s record to its delivery.' }),
    attempts: shape.count,
    problem: z.string().nullable().meta({ description: 'What is wrong, and what to do.' }),
    topics: z.object({ listed: shape.count, attached: shape.count }),
    toAttach: z
      .string()
      .nullable()
      .meta({ description: 'What attaches it to the rest of its topics; null if it is attached to all.' }),
    waiting: z
      .object({ deliveries: shape.count, oldestAt: shape.instant.nullable() })
      .meta({ description: 'Its deliveries of the topics that it is not attached to.' }),
  })
  .meta({ id: 'SmokeTestSubscriber' });

export const smokeTest = z
  .object({
    generatedAt: shape.instant,
    test: z
      .object({
        smokeTestId: z.uuid(),
        startedAt: shape.instant,
        startedBy: z.string(),
        origin: z
          .string()
          .nullable()
          .meta({ description: 'Where the webhooks were sent to; null: nowhere.' }),
        state: arrival.meta({
          description: '`arrived`: everything that was sent. `failed`: something will not arrive soon.',
        }),
      })
      .nullable(),
    relay: z.object({
      state: z.enum(['running', 'stalled', 'never_run']),
      runsHere: z.boolean(),
      lastPassAt: shape.instant.nullable(),
    }),
    webhooks: z.array(webhook),
    subscribers: z.array(subscriber).meta({ description: 'All of the catalog; unattached ones last.' }),
    topics: z
      .object({
        total: shape.count,
        deliverable: shape.count.meta({
          description: 'Topics whose subscribers are all attached here and not paused.',
        }),
        waitFor: z
          .array(z.object({ subscriber: z.string(), topics: shape.count }))
          .meta({ description: 'The subscribers that the others wait for, and how many wait for each.' }),
      })
      .meta({ description: 'How many topics of the catalog can reach `delivered` in this deployment.' }),
  })
  .meta({
    id: 'SmokeTest',
    description: 'What of a smoke test arrived where and after what time, and what waits for whom.',
  });

export type SmokeTest = z.output<typeof smokeTest>;
export type SmokeWebhook = SmokeTest['webhooks'][number];
export type SmokeSubscriber = SmokeTest['subscribers'][number];
