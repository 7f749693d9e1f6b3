import * as z from 'zod';

import { optionalReason } from '../../operators/access/asked.ts';
import { pauseRequest, resumeRequest, skipRequest } from '../../operators/lanes/routes.ts';
import type { ActedOn } from '../../deliveries/first-of-lane.ts';
import { topic } from '../answers/values.ts';
import { answered, invalid, refused } from '../../http/openapi/operation.ts';
import type { Operation } from '../../http/openapi/operation.ts';
import { deliveryIdParameter, subscriberParameter } from '../parameters.ts';
import { doing } from './operator.ts';

const limitBytes = 64 * 1024;

const actedOn = z
  .object({ deliveryId: z.string(), topic, subscriber: z.string() })
  .meta({ id: 'ActedOn', description: 'The delivery that was acted on.' }) satisfies z.ZodType<ActedOn>;

const paused = z
  .object({ subscriber: z.string(), topic: topic.nullable(), paused: z.boolean() })
  .meta({ id: 'Paused', description: 'Whether its deliveries wait now.' });

const NOBODY = '999999999999999999-1';
const NO_DELIVERY = refused('not_found', { detail: 'There is no such delivery.' });
const NO_REASON = invalid('reason', 'too_small', 'write a reason: it is kept in the log');
const NO_SUBSCRIBER = refused('not_found', { detail: 'The catalog lists no such subscriber.' });

export const retryNow: Operation = doing({
  id: 'retryNow',
  path: '/platform/event-bus/deliveries/{deliveryId}/retry',
  summary: 'Have the delivery that holds a lane tried again now',
  access: 'event-bus:replay',
  parameters: [deliveryIdParameter],
  body: { schema: optionalReason, forms: true, limitBytes },
  answer: actedOn,
  problems: ['not_found', 'not_first', 'not_waiting', 'under_way'],
  examples: {
    nobody: {
      summary: 'One that there is not',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'Accounting is back.' },
      answer: NO_DELIVERY,
    },
  },
});

export const skip: Operation = doing({
  id: 'skip',
  path: '/platform/event-bus/deliveries/{deliveryId}/skip',
  summary: 'Give up the delivery that holds a lane, so that the lane goes on',
  description: 'It becomes a dead letter and can be replayed like any other.',
  access: 'event-bus:replay',
  parameters: [deliveryIdParameter],
  body: { schema: skipRequest, forms: true, limitBytes },
  answer: actedOn,
  problems: ['not_found', 'not_first', 'not_waiting', 'under_way'],
  examples: {
    nobody: {
      summary: 'One that there is not',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'The subscriber will never take it.' },
      answer: NO_DELIVERY,
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { deliveryId: NOBODY },
      json: {},
      answer: NO_REASON,
    },
  },
});

export const pauseSubscriber: Operation = doing({
  id: 'pauseSubscriber',
  path: '/platform/event-bus/subscribers/{subscriber}/pause',
  summary: 'Have the deliveries of a subscriber wait',
  description: 'Nothing fails by waiting. A pause that stands is left as it is.',
  access: 'event-bus:replay',
  parameters: [subscriberParameter],
  body: { schema: pauseRequest, forms: true, limitBytes },
  answer: paused,
  problems: ['not_found'],
  examples: {
    'of-a-topic': {
      summary: 'Of one topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed', reason: 'It is being moved.' },
      answer: answered({ subscriber: 'reviews', topic: 'booking.completed', paused: true }),
    },
    'of-all-topics': {
      summary: 'Of all its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'It is being moved.' },
      answer: answered({ subscriber: 'reviews', topic: null, paused: true }),
    },
    'by-a-browser': {
      summary: 'The same as a form of a page',
      parameters: { subscriber: 'reviews' },
      form: { reason: 'It is being moved.', next: '/platform/event-bus/catalog' },
      answer: { status: 303 },
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { subscriber: 'reviews' },
      json: {},
      answer: NO_REASON,
    },
    'no-such-subscriber': {
      summary: 'One that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: { reason: 'It is being moved.' },
      answer: NO_SUBSCRIBER,
    },
  },
});

export const resumeSubscriber: Operation = doing({
  id: 'resumeSubscriber',
  path: '/platform/event-bus/subscribers/{subscriber}/resume',
  summary: 'Let the deliveries of a subscriber flow again',
  access: 'event-bus:replay',
  parameters: [subscriberParameter],
  body: { schema: resumeRequest, forms: true, limitBytes },
  answer: paused,
  problems: ['not_found'],
  examples: {
    'of-a-topic': {
      summary: 'Of one topic',
      parameters: { subscriber: 'reviews' },
      json: { topic: 'booking.completed' },
      answer: answered({ subscriber: 'reviews', topic: 'booking.completed', paused: false }),
    },
    'of-all-topics': {
      summary: 'Of all its topics',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'It has moved.' },
      answer: answered({ subscriber: 'reviews', topic: null, paused: false }),
    },
    'no-such-subscriber': {
      summary: 'One that the catalog does not list',
      parameters: { subscriber: 'postcards' },
      json: {},
      answer: NO_SUBSCRIBER,
    },
  },
});
