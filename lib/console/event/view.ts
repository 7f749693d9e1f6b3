import * as z from 'zod';

import { attemptError, historyEntry, payloadFields } from '../dead-letters/delivery.ts';
import { deliveryFields } from '../dead-letters/fields.ts';
import { halts } from '../dead-letters/halts.ts';
import { outage } from '../incidents/outage.ts';
import { preparedTransaction } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';

/** Times in a text are those of Europe/Oslo. The fields beside it have them in UTC. */
const text = z.string().meta({
  description: 'The same in words, for people. Times in it are Europe/Oslo, and the fields have them in UTC.',
});

const whyCode = z
  .enum([
    'relay_stopped',
    'producer_open',
    'not_fanned_out',
    'not_in_catalog',
    'unattached',
    'paused',
    'outage',
    'backfill',
    'halted',
    'behind',
    'leased',
    'newer_version',
    'backoff',
    'due',
  ])
  .meta({ id: 'WhyCode', description: 'Why a delivery waits. Later releases may add codes.' });

const inFront = z
  .object({
    deliveryId: deliveryFields.deliveryId.shape,
    eventId: z.uuid(),
    topic: shape.topic,
    subject: z
      .string()
      .nullable()
      .meta({ description: 'Null also where it is that of the waiting event too.' }),
    count: shape.count.meta({
      description:
        'Unfinished deliveries in front, the first included, or the dead letter that halts the lane.',
    }),
    isMore: z.boolean().meta({ description: 'Whether more may wait in front than `count` says.' }),
    code: whyCode.meta({ description: 'Why the first one waits.' }),
    nextAttemptAt: shape.instant.nullable(),
    lastError: attemptError.nullable(),
  })
  .meta({
    id: 'InFront',
    description:
      'What the others of the lane wait for: its first unfinished delivery, or, with the code `halted`, the dead letter that halts it.',
  });
export type InFront = z.output<typeof inFront>;

const producer = z
  .object({
    pid: z.int().nullable().meta({ description: 'Null for a prepared transaction.' }),
    applicationName: z.string().nullable(),
    clientAddress: z.string().nullable(),
    state: z.string().nullable().meta({ description: 'As Postgres names it: `idle in transaction`.' }),
    since: shape.instant.nullable().meta({ description: 'When the transaction began, or was prepared.' }),
    prepared: preparedTransaction.nullable().meta({ description: 'Null for one that is open.' }),
  })
  .meta({
    id: 'OpenProducer',
    description: 'An open transaction of a producer. Fields that this role may not see are null.',
  });
export type OpenProducer = z.output<typeof producer>;

const why = z
  .object({
    code: whyCode,
    text,
    since: shape.instant.nullable().meta({ description: 'Since when it waits for this reason.' }),
    until: shape.instant
      .nullable()
      .meta({ description: 'The next attempt, the next probe, or the end of the lease.' }),
    by: z
      .string()
      .nullable()
      .meta({ description: 'The operator who paused the subscriber, or began the backfill.' }),
    reason: z.string().nullable().meta({ description: 'The operator’s reason.' }),
    pausedTopic: shape.topic.nullable().meta({ description: 'Of a pause: its topic; null for all topics.' }),
    behind: inFront.nullable(),
    outage: outage.nullable(),
    producers: z
      .array(producer)
      .meta({ description: 'The transactions that the event waits for, oldest first.' }),
    neededVersion: z.int().positive().nullable(),
    lastError: attemptError.nullable().meta({ description: 'The error of its own last attempt.' }),
    also: z
      .array(z.object({ code: whyCode, text }))
      .meta({ description: 'Reasons that remain when this one is gone.' }),
  })
  .meta({ id: 'Why', description: 'Why a delivery is not delivered yet.' });
export type Why = z.output<typeof why>;

const delivery = z
  .object({
    deliveryId: deliveryFields.deliveryId.shape.nullable().meta({ description: 'Null before fan-out.' }),
    subscriber: z.string(),
    state: shape.state,
    attempts: z.array(historyEntry).meta({ description: 'Oldest first.' }),
    replays: shape.count,
    nextAttemptAt: shape.instant.nullable(),
    deliveredAt: shape.instant.nullable(),
    deadLetteredAt: shape.instant.nullable(),
    dismissedAt: shape.instant
      .nullable()
      .meta({ description: 'When an operator said that the dead letter will not be replayed.' }),
    halts: halts.nullable().meta({ description: 'Of a dead letter that halts its lane.' }),
    lastError: attemptError.extend({ group: shape.errorGroup.nullable() }).nullable(),
    why: why.nullable().meta({ description: 'Null for a delivery that is delivered or dead-lettered.' }),
  })
  .meta({ id: 'EventDelivery', description: 'One event on its way to one subscriber.' });
export type EventDelivery = z.output<typeof delivery>;

const relative = z
  .object({
    eventId: z.string(),
    isKept: z
      .boolean()
      .meta({ description: 'False for an event that is pruned: nothing but its id is known.' }),
    topic: shape.topic.nullable(),
    producer: z.string().nullable(),
    subject: z.string().nullable(),
    state: shape.state.nullable(),
    createdAt: shape.instant.nullable(),
    causedBy: z.string().nullable().meta({ description: 'The id of the event that caused it.' }),
  })
  .meta({ id: 'RelatedEvent', description: 'An event that led to this one, or that this one led to.' });
export type RelatedEvent = z.output<typeof relative>;

const receipt = z
  .object({
    provider: z.string(),
    webhookId: z.string().meta({ description: 'The provider’s id of the webhook.' }),
    receivedAt: shape.instant,
    duplicates: shape.count.meta({ description: 'How often the provider sent it again.' }),
  })
  .meta({ id: 'WebhookReceipt', description: 'The webhook that the first cause was received as.' });
export type Receipt = z.output<typeof receipt>;

export const eventView = z
  .object({
    generatedAt: shape.instant,
    event: z.object({
      eventId: deliveryFields.eventId.shape,
      topic: shape.topic,
      subject: deliveryFields.subject.shape,
      state: shape.state,
      createdAt: shape.instant,
      producer: z.string(),
      version: z.int().positive(),
      orderingKey: z.string().meta({ description: 'Empty if the whole topic is one lane.' }),
      dedupeKey: z.string().nullable(),
      correlationId: z.string().nullable(),
      causationId: z.string().nullable(),
      traceparent: z.string().nullable(),
      ...payloadFields,
    }),
    verdict: text.meta({ description: 'One sentence: where the event is, and why.' }),
    deliveries: z.array(delivery).meta({ description: 'One for each subscriber, by name.' }),
    webhook: receipt.nullable(),
    causes: z.array(relative).meta({ description: 'From the first cause to the last.' }),
    effects: z
      .array(relative)
      .meta({ description: 'The events that it caused, and those that these caused; oldest first.' }),
    areMoreEffects: z
      .boolean()
      .meta({ description: 'Whether there may be more effects than `effects` lists.' }),
  })
  .meta({ id: 'Event', description: 'One event with its deliveries, and why each of them waits.' });
export type EventView = z.output<typeof eventView>;
