import * as z from 'zod';

import { topics } from '../../bus/catalog/catalog.ts';
import { deliveryId } from '../kit/replay-request.ts';
import { answered, invalid } from '../../platform/http/operation.ts';
import { NO_REASON, routesOf } from '../kit/action.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { deadLetterPath, HOME, revealedPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { deadLetterActions, NO_DELIVERY, NOBODY, UNKNOWN } from './actions.ts';
import { deadLetterPage as drawDeadLetter } from './delivery-page.ts';
import { deadLetter, readDeadLetter, revealDeadLetter } from './delivery.ts';
import { deadLetterPage } from './fields.ts';
import { deadLettersPage } from './page.ts';
import { deadLetterQuery } from './query.ts';
import { readDeadLetters } from './read.ts';
import { findReveal, revealQuery } from './reveal.ts';

const DEAD = {
  deliveryId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
  eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  topic: 'payment.dispute.closed',
  subscriber: 'accounting',
  subject: 'dispute dsp_41',
  createdAt: '2026-02-21T09:30:00.000Z',
  deadLetteredAt: '2026-02-21T09:30:00.420Z',
  failures: 1,
  replays: 0,
  isHalting: false,
  lastError: {
    kind: 'permanent',
    message: 'the subscriber answered 410: account closed',
    group: '9c1d5e0f7a2b4c68',
  },
};

const { group: _, ...errorOfGroup } = DEAD.lastError;

const EVENT_LINK = { eventId: '$response.body#/items/0/eventId' };
const LINK = { deliveryId: '$response.body#/items/0/deliveryId' };

const SUBSCRIBERS_BY_TOPIC = topics().map(([topic, { subscribers }]) => ({ topic, subscribers }));

export const listDeadLetters = operatorRoute({
  id: 'listDeadLetters',
  path: `${HOME}/dead-letters`,
  scope: 'event-bus:read',
  summary: 'List dead letters, newest first',
  query: deadLetterQuery,
  answer: deadLetterPage,
  csv: 'Dead letters',
  links: {
    read: {
      operationId: 'readDeadLetter',
      description: 'The newest dead letter, with its history.',
      parameters: LINK,
    },
    readEvent: {
      operationId: 'readEvent',
      description: 'Its event, with all deliveries.',
      parameters: EVENT_LINK,
    },
    revealEvent: {
      operationId: 'revealEvent',
      description: 'Its event, with its personal data.',
      parameters: EVENT_LINK,
      requestBody: { reason: 'A citizen asks where the refund is.' },
    },
    dismiss: {
      operationId: 'dismissDeadLetter',
      description: 'Dismiss the newest dead letter.',
      parameters: LINK,
      requestBody: { reason: 'Booked by hand.' },
    },
    reveal: {
      operationId: 'revealDeadLetter',
      description: 'The newest dead letter, with its personal data.',
      parameters: LINK,
      requestBody: { reason: 'A citizen asks where the refund is.' },
    },
  },
  problems: ['validation_failed'],
  examples: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h', limit: 10 },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: {
          topic: 'payment.dispute.closed',
          subscriber: null,
          since: '24h',
          until: null,
          group: null,
          q: null,
          limit: 10,
        },
        items: [DEAD],
        total: 1,
        totalInAll: 1,
        groups: [
          {
            group: '9c1d5e0f7a2b4c68',
            ...errorOfGroup,
            topic: DEAD.topic,
            subscriber: DEAD.subscriber,
            count: 1,
            firstAt: DEAD.deadLetteredAt,
            lastAt: DEAD.deadLetteredAt,
            isStillFailing: true,
          },
        ],
        nextCursor: null,
        previousCursor: null,
        failing: 0,
        nextRetryAt: null,
      }),
    },
    'a-wrong-window': {
      summary: 'A window with an unknown unit',
      parameters: { since: '1y' },
      answer: invalid(
        'since',
        'custom',
        'expected a time span such as 90m, 24h or 7d (units s, m, h, d, w), at most ten years',
      ),
    },
  },
  handle: async ({ query, bus }) => {
    const db = await bus.database();
    await requireKnownTopic(db, query.topic);
    await requireKnownSubscriber(db, query.subscriber);
    return await readDeadLetters(db, query);
  },
  page: (view, context) => deadLettersPage(view, context, SUBSCRIBERS_BY_TOPIC),
});

export const showDeadLetter = operatorRoute({
  id: 'readDeadLetter',
  path: `${HOME}/dead-letters/{deliveryId}`,
  scope: 'event-bus:read',
  summary: 'See one delivery, every attempt of it, and its payload without personal data',
  parameters: { deliveryId },
  query: revealQuery,
  answer: deadLetter,
  unknown: UNKNOWN,
  examples: {
    nobody: { summary: 'An unknown delivery', parameters: { deliveryId: NOBODY }, answer: NO_DELIVERY },
  },
  handle: async ({ parameters, query, operator, bus }) => {
    const db = await bus.database();
    const revealed = await findReveal(db, operator, query, parameters.deliveryId);
    return await readDeadLetter(db, parameters.deliveryId, bus.subscribers(), revealed);
  },
  page: drawDeadLetter,
});

export const reveal = operatorRoute({
  id: 'revealDeadLetter',
  path: `${HOME}/dead-letters/{deliveryId}/reveal`,
  scope: 'event-bus:reveal',
  summary: 'See one delivery with its personal data; the operator and the reason are recorded',
  parameters: { deliveryId },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: deadLetter,
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'A citizen asks where the refund is.' },
      answer: NO_DELIVERY,
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { deliveryId: NOBODY },
      json: {},
      answer: NO_REASON,
    },
  },
  handle: async ({ parameters, body, operator, bus }) =>
    await revealDeadLetter(await bus.database(), parameters.deliveryId, bus.subscribers(), {
      by: operator.subject,
      reason: body.reason,
    }),
  // To an address of its own, so that a reload asks for the page again and not for another reveal.
  redirectTo: (view, { parameters }) =>
    view.reveal && revealedPath(deadLetterPath(parameters.deliveryId), view.reveal.revealId),
});

export const deadLetterRoutes = [listDeadLetters, showDeadLetter, reveal, ...routesOf(deadLetterActions)];
