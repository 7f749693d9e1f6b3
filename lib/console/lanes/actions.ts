import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { subscriberNames, subscribersOf } from '../../bus/catalog/catalog.ts';
import {
  pause as pauseDeliveries,
  resume as resumeDeliveries,
} from '../../bus/deliveries/operations/pause.ts';
import { probeHead } from '../../bus/deliveries/operations/probe-head.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { skip as skipFirst } from '../../bus/deliveries/operations/skip.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { followProbe, followRetry, followSkip } from '../dead-letters/follow-delivery.ts';
import { action, NO_REASON } from '../kit/action.ts';
import { requireHandled } from '../kit/handling.ts';
import { HOME } from '../kit/links.ts';
import { deliveryId, topicName, topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { followPause, followResume } from './follow-pause.ts';
import { orProblem, UNKNOWN_DELIVERY } from './not-acted-on.ts';
import { RETRY_PATH } from './retry-price.ts';

/** No lane has this id. */
const NOBODY = '00000000-0000-7000-8000-000000000000.accounting';
const NO_DELIVERY = refused('not_found', { detail: UNKNOWN_DELIVERY });

const actedOn = z
  .object({ deliveryId: z.string(), topic: shape.topic, subscriber: z.string() })
  .meta({ id: 'ActedOn', description: 'The delivery that was retried, tried or skipped.' });

const withReason = shape.optionalReason.extend({ reason: shape.requiredReason });

/** Makes the delivery that holds a lane due at once. */
export const retry = action({
  name: 'retry',
  id: 'retryNow',
  path: RETRY_PATH,
  summary: 'Retry the delivery that holds a lane now',
  description:
    'While its subscriber does not answer, makes the next probe due now. The delivery that is due longest probes; when it gets through, all follow.',
  parameters: { deliveryId },
  body: shape.optionalReason,
  answer: actedOn,
  problems: ['no_such_subscription', 'unattached', 'not_first', 'not_waiting', 'halted', 'under_way'],
  unknown: UNKNOWN_DELIVERY,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'Accounting is back.' },
      answer: NO_DELIVERY,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const { reason = null } = body;
    const by = operator.subject;
    const db = await bus.database();
    await requireDeliverable(db, parameters.deliveryId, bus.subscribers());
    return await orProblem(db, parameters.deliveryId, retryNow(db, { ...parameters, by, reason }));
  },
  button: 'Retry now',
  follow: followRetry,
});

/** @throws Problem 409 where this release would not deliver it. */
async function requireDeliverable(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[],
): Promise<void> {
  const names = readDeliveryId(id);
  if (!names) return;
  const [found] = await db.select({ topic: events.topic }).from(events).where(eq(events.id, names.eventId));
  if (found) requireHandled(found.topic, names.subscriber, attached);
}

/** Hands the delivery that holds a lane over once, at no cost. */
export const probeDelivery = action({
  name: 'probe-delivery',
  id: 'probeDelivery',
  path: `${HOME}/deliveries/{deliveryId}/probe`,
  summary: 'Try the delivery that holds a lane once, at no cost',
  description:
    'Hands it over once. If it is delivered, its lane goes on. If it fails, its number of attempts and the time of its next one stay as they are. A retry that is asked for before the attempt takes its place. While the subscriber does not answer, probe the subscriber instead.',
  parameters: { deliveryId },
  body: shape.optionalReason.extend({
    incidentId: z
      .uuid()
      .nullish()
      .meta({ description: 'The incident that it is tried for, in whose log it then is.' }),
  }),
  answer: actedOn,
  problems: [
    'no_such_subscription',
    'unattached',
    'not_first',
    'not_waiting',
    'halted',
    'under_way',
    'paused',
    'outage',
  ],
  unknown: UNKNOWN_DELIVERY,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'Is accounting back?' },
      answer: NO_DELIVERY,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const { reason = null, incidentId = null } = body;
    const by = operator.subject;
    const db = await bus.database();
    await requireDeliverable(db, parameters.deliveryId, bus.subscribers());
    const acting = probeHead(db, { ...parameters, by, reason, incidentId });
    return await orProblem(db, parameters.deliveryId, acting);
  },
  button: 'Try once',
  follow: followProbe,
});

export const skip = action({
  name: 'skip',
  id: 'skip',
  path: `${HOME}/deliveries/{deliveryId}/skip`,
  summary: 'Skip the delivery that holds a lane, so that the lane continues',
  description: 'The delivery becomes a dead letter and can be replayed like any other.',
  parameters: { deliveryId },
  body: withReason.meta(shape.needsReason),
  answer: actedOn,
  problems: ['not_first', 'not_waiting', 'halted', 'under_way'],
  unknown: UNKNOWN_DELIVERY,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'The subscriber will never accept it.' },
      answer: NO_DELIVERY,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const by = operator.subject;
    const db = await bus.database();
    const acting = skipFirst(db, { ...parameters, by, reason: body.reason });
    return await orProblem(db, parameters.deliveryId, acting);
  },
  button: 'Skip…',
  asks: {
    text: 'The delivery becomes a dead letter, which can be replayed. The next one in its lane is delivered.',
    example: 'answered by phone',
    submit: 'Skip this delivery',
  },
  follow: followSkip,
});

const UNKNOWN_SUBSCRIBER =
  'Unknown subscriber. The catalog lists the subscribers of each topic: /platform/event-bus/catalog.';
const NO_SUBSCRIBER = refused('not_found', { detail: UNKNOWN_SUBSCRIBER });

/** A name that the catalog of some release may have. The description lists this catalog's names. */
const subscriber = z
  .string()
  .regex(/^[\w.-]{1,100}$/)
  .meta({
    id: 'SubscriberName',
    enum: subscriberNames(),
    description: 'A subscriber of the catalog.',
  });

const paused = z
  .object({ subscriber: z.string(), topic: shape.topic.nullable(), paused: z.boolean() })
  .meta({ id: 'Paused', description: 'Whether the subscriber is paused now.' });

const oneTopicOrAll = (name: z.ZodType<string, string>) =>
  z
    .union([z.literal('').transform(() => null), name])
    .nullish()
    .transform((named) => named ?? null)
    .meta({ description: 'Only this topic. Without it, all topics of the subscriber.' });

/** What a pause and its end act on, for the page that follows them. */
const onSubscription = {
  shape: z.object({ subscriber: shape.subscriberName, topic: topicText.nullable().default(null) }),
  of: ({ subscriber: name, topic }: z.output<typeof paused>) => ({ subscriber: name, topic }),
};

export const pause = action({
  name: 'pause',
  id: 'pauseSubscriber',
  path: `${HOME}/subscribers/{subscriber}/pause`,
  summary: 'Pause a subscriber',
  description:
    'Its deliveries wait until someone resumes it. None fails meanwhile. An existing pause stays as it is.',
  parameters: { subscriber },
  body: withReason
    .extend({
      topic: oneTopicOrAll(topicName),
      ahead: z.boolean().default(false).meta({
        description:
          'Also pauses a subscription that only a later release lists, so that it is handed nothing before its backfill.',
      }),
    })
    .meta(shape.needsReason),
  answer: paused,
  unknown: UNKNOWN_SUBSCRIBER,
  examples: {
    'of-a-topic': {
      summary: 'One topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed', reason: 'Reviews is moving to another host.' },
      answer: answered(),
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews is moving to another host.' },
      answer: answered(),
    },
    'ahead-of-a-release': {
      summary: 'A subscription that the next release will list',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'payment.captured', ahead: true, reason: 'Reviews will be backfilled first.' },
      answer: answered(),
    },
    'by-a-browser': {
      summary: 'The same, as a form of the console',
      parameters: { subscriber: 'reviews' },
      form: { reason: 'Reviews is moving to another host.', next: '/platform/event-bus/catalog' },
      answer: { status: 303 },
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { subscriber: 'reviews' },
      json: {},
      answer: NO_REASON,
    },
    'no-such-subscriber': {
      summary: 'A subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: { reason: 'Reviews is moving to another host.' },
      answer: NO_SUBSCRIBER,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const subscription = { subscriber: parameters.subscriber, topic: body.topic };
    if (!body.ahead && !isListed(subscription)) return null;
    await pauseDeliveries(await bus.database(), subscription, operator.subject, body.reason);
    return { ...subscription, paused: true };
  },
  actedOn: onSubscription,
  button: 'Pause…',
  asks: {
    text: 'Its deliveries wait until someone resumes it. Nothing is lost.',
    example: 'maintenance until 18:00',
    submit: 'Pause all its topics',
  },
  follow: followPause,
});

export const resume = action({
  name: 'resume',
  id: 'resumeSubscriber',
  path: `${HOME}/subscribers/{subscriber}/resume`,
  summary: 'Resume a paused subscriber',
  parameters: { subscriber },
  body: shape.optionalReason.extend({ topic: oneTopicOrAll(topicText) }),
  answer: paused,
  unknown: UNKNOWN_SUBSCRIBER,
  examples: {
    'of-a-topic': {
      summary: 'One topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed' },
      answer: answered(),
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews has moved.' },
      answer: answered(),
    },
    'no-such-subscriber': {
      summary: 'A subscriber that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: {},
      answer: NO_SUBSCRIBER,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const subscription = { subscriber: parameters.subscriber, topic: body.topic };
    // A pause can be lifted even where this release's catalog no longer lists the subscriber.
    const isResumed = await resumeDeliveries(
      await bus.database(),
      subscription,
      operator.subject,
      body.reason ?? null,
    );
    if (!isResumed && !isListed(subscription)) return null;
    return { ...subscription, paused: false };
  },
  actedOn: onSubscription,
  button: 'Resume',
  follow: followResume,
});

export const laneActions = [retry, probeDelivery, skip, pause, resume];

/** Whether the catalog lists the subscriber: for the topic, or for any without one. */
function isListed(wanted: { readonly subscriber: string; readonly topic: string | null }): boolean {
  const listed = wanted.topic === null ? subscriberNames() : subscribersOf(wanted.topic);
  return listed.includes(wanted.subscriber);
}
