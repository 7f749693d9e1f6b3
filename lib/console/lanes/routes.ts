import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { lanes } from '../../../drizzle/schema.ts';
import { isTopicName, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import { pause, resume } from '../../bus/deliveries/operations/pause.ts';
import { deliveryId, topicName, topicText } from '../kit/replay-request.ts';
import { probeHead } from '../../bus/deliveries/operations/probe-head.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { skip } from '../../bus/deliveries/operations/skip.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { actionRoute, NO_REASON } from '../kit/action-route.ts';
import { requireHandled } from '../kit/handling.ts';
import { hasEvents } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { TROUBLED_TOPIC } from '../overview/routes.ts';
import { topicPage } from './page.ts';
import { readTopic, topicView } from './read.ts';
import { orProblem, UNKNOWN_DELIVERY } from './not-acted-on.ts';
import { showRetryPrice } from './retry-price.ts';

const UNKNOWN_TOPIC =
  'Unknown topic. The catalog lists the topics of this release: /platform/event-bus/catalog.';

export const showTopic = operatorRoute({
  id: 'readTopic',
  path: `${HOME}/topics/{topic}`,
  scope: 'event-bus:read',
  summary: 'See one topic: its subscribers, waiting lanes, errors and newest events',
  parameters: { topic: topicText },
  answer: topicView,
  csv: [
    { path: 'heldLanes', words: 'Held lanes' },
    { path: 'haltedLanes', words: 'Halted lanes' },
    { path: 'errors', words: 'Errors' },
  ],
  links: {
    probe: {
      operationId: 'probeDelivery',
      description: 'Try the delivery that holds the first lane once, at no cost.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: { reason: 'Is accounting back?' },
    },
    retryNow: {
      operationId: 'retryNow',
      description: 'Retry the delivery that holds the first lane now.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: {},
    },
    previewRetry: {
      operationId: 'previewRetry',
      description: 'What that retry costs.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
    },
    skip: {
      operationId: 'skip',
      description: 'Skip that delivery, so that its lane continues.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: { reason: 'The subscriber will never accept it.' },
    },
  },
  unknown: UNKNOWN_TOPIC,
  examples: {
    'a-topic': {
      summary: 'A topic',
      parameters: { topic: 'payment.dispute.closed' },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        topic: TROUBLED_TOPIC,
        description: 'The bank decided a dispute.',
        version: 1,
        orderedBy: null,
        heldLanes: [
          {
            topic: 'payment.dispute.closed',
            subscriber: 'accounting',
            orderingKey: '',
            deliveryId: '41-118',
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            subject: 'dispute dsp_41',
            attempts: 1,
            maxAttempts: 5,
            nextAttemptAt: '2026-02-21T09:35:00.000Z',
            lastError: { kind: 'http_500', message: 'the subscriber answered 500: period 2026-01 is closed' },
            behind: 0,
            isMoreBehind: false,
          },
        ],
        haltedLanes: [],
        errors: [],
        gaps: [],
        events: [
          {
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            createdAt: '2026-02-21T09:30:00.000Z',
            subject: 'dispute dsp_41',
            orderingKey: '',
            state: 'failing',
          },
        ],
      }),
    },
    'no-such-topic': {
      summary: 'A topic that is not in the catalog',
      parameters: { topic: 'payment.forgotten' },
      answer: refused('not_found', { detail: UNKNOWN_TOPIC }),
    },
  },
  handle: async ({ parameters, bus }) => {
    const db = await bus.database();
    const isKnown = isTopicName(parameters.topic) || (await hasEvents(db, parameters.topic));
    return isKnown ? await readTopic(db, bus.subscribers(), parameters.topic) : null;
  },
  page: topicPage,
});

/** No lane has this id. */
const NOBODY = '999999999999999999-1';
const NO_DELIVERY = refused('not_found', { detail: UNKNOWN_DELIVERY });

const actedOn = z
  .object({ deliveryId: z.string(), topic: shape.topic, subscriber: z.string() })
  .meta({ id: 'ActedOn', description: 'The delivery that was retried, tried or skipped.' });

const withReason = shape.optionalReason.extend({ reason: shape.requiredReason });

export const retry = actionRoute('retry', {
  id: 'retryNow',
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
    return await orProblem(retryNow(db, { ...parameters, by, reason }));
  },
  actedOn: (_done, { parameters }) => parameters,
});

/** @throws Problem 409 where this release would not deliver it. */
async function requireDeliverable(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[],
): Promise<void> {
  const [found] = await db
    .select({ topic: lanes.topic, subscriber: lanes.subscriber })
    .from(lanes)
    .where(eq(lanes.id, Number(id.split('-')[0])));
  if (!found) return;
  requireHandled(found.topic, found.subscriber, attached);
}

export const probeDelivery = actionRoute('probe-delivery', {
  id: 'probeDelivery',
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
    return await orProblem(probeHead(db, { ...parameters, by, reason, incidentId }));
  },
  actedOn: (_done, { parameters }) => parameters,
});

export const skipFirst = actionRoute('skip', {
  id: 'skip',
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
    return await orProblem(skip(await bus.database(), { ...parameters, by, reason: body.reason }));
  },
  actedOn: (_done, { parameters }) => parameters,
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

export const pauseSubscriber = actionRoute('pause', {
  id: 'pauseSubscriber',
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
      answer: answered({ subscriber: 'reviews', topic: 'booking.completed', paused: true }),
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews is moving to another host.' },
      answer: answered({ subscriber: 'reviews', topic: null, paused: true }),
    },
    'ahead-of-a-release': {
      summary: 'A subscription that the next release will list',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'payment.captured', ahead: true, reason: 'Reviews will be backfilled first.' },
      answer: answered({ subscriber: 'reviews', topic: 'payment.captured', paused: true }),
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
    await pause(await bus.database(), subscription, operator.subject, body.reason);
    return { ...subscription, paused: true };
  },
  actedOn: ({ topic }, { parameters }) => ({ ...parameters, topic }),
});

export const resumeSubscriber = actionRoute('resume', {
  id: 'resumeSubscriber',
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
      answer: answered({ subscriber: 'reviews', topic: 'booking.completed', paused: false }),
    },
    'of-all-topics': {
      summary: 'All its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews has moved.' },
      answer: answered({ subscriber: 'reviews', topic: null, paused: false }),
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
    const isResumed = await resume(await bus.database(), subscription, operator.subject, body.reason ?? null);
    if (!isResumed && !isListed(subscription)) return null;
    return { ...subscription, paused: false };
  },
  actedOn: ({ topic }, { parameters }) => ({ ...parameters, topic }),
});

export const laneRoutes = [
  showTopic,
  showRetryPrice,
  retry,
  probeDelivery,
  skipFirst,
  pauseSubscriber,
  resumeSubscriber,
];

/** Whether the catalog lists the subscriber: for the topic, or for any without one. */
function isListed(wanted: { readonly subscriber: string; readonly topic: string | null }): boolean {
  return topics().some(
    ([name, { subscribers }]) =>
      (wanted.topic === null || name === wanted.topic) &&
      subscribers.some((listed) => listed === wanted.subscriber),
  );
}
