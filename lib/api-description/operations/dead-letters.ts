import { deadLetterQuery } from '../../operators/dead-letters/query.ts';
import { revealRequest } from '../../operators/routes.ts';
import { deadLetter, deadLetterPage } from '../answers/dead-letters.ts';
import { answered, invalid, refused } from '../../http/openapi/operation.ts';
import type { Operation } from '../../http/openapi/operation.ts';
import { deliveryIdParameter, queryParameters } from '../parameters.ts';
import { doing, showing } from './operator.ts';

/** Too high to have been given to a lane. */
const NOBODY = '999999999999999999-1';
const NO_DELIVERY = refused('not_found', { detail: 'There is no such delivery.' });

const DEAD = {
  deliveryId: '41-117',
  eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  topic: 'payment.dispute.closed',
  subscriber: 'accounting',
  subject: 'dispute dsp_41',
  createdAt: '2026-02-21T09:30:00.000Z',
  deadLetteredAt: '2026-02-21T09:30:00.420Z',
  failures: 1,
  replays: 0,
  lastError: { kind: 'permanent', message: 'the subscriber answered 410 Gone', group: '9c1d5e0f7a2b4c68' },
};

const { group: _, ...error } = DEAD.lastError;

const LINK = { deliveryId: '$response.body#/items/0/deliveryId' };

export const listDeadLetters: Operation = showing({
  id: 'listDeadLetters',
  path: '/platform/event-bus/dead-letters',
  summary: 'List dead letters, newest first',
  access: 'event-bus:read',
  parameters: queryParameters(deadLetterQuery),
  answer: deadLetterPage,
  links: {
    read: {
      operationId: 'readDeadLetter',
      description: 'The newest, with all that happened to it.',
      parameters: LINK,
    },
    reveal: {
      operationId: 'revealDeadLetter',
      description: 'The newest, with its personal data.',
      parameters: LINK,
      requestBody: { reason: 'A citizen asks where the refund is.' },
    },
  },
  problems: ['validation_failed'],
  examples: {
    'of-a-day': {
      summary: 'Those of the last day, of one topic',
      parameters: { topic: 'payment.dispute.closed', since: '24h', limit: 10 },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        filters: {
          topic: 'payment.dispute.closed',
          subscriber: null,
          since: '24h',
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
            ...error,
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
      summary: 'A window without a unit that we know',
      parameters: { since: '1y' },
      answer: invalid(
        'since',
        'custom',
        'write a whole number above 0 and a unit, s, m, h, d or w, for example 24h; ten years at most',
      ),
    },
  },
});

export const readDeadLetter: Operation = showing({
  id: 'readDeadLetter',
  path: '/platform/event-bus/dead-letters/{deliveryId}',
  summary: 'See one delivery, every attempt of it, and its payload without personal data',
  access: 'event-bus:read',
  parameters: [deliveryIdParameter],
  answer: deadLetter,
  problems: ['not_found'],
  examples: {
    nobody: { summary: 'One that there is not', parameters: { deliveryId: NOBODY }, answer: NO_DELIVERY },
  },
});

export const revealDeadLetter: Operation = doing(
  {
    id: 'revealDeadLetter',
    path: '/platform/event-bus/dead-letters/{deliveryId}/reveal',
    summary: 'See one delivery with its personal data; who looked and why is kept',
    access: 'event-bus:reveal',
    parameters: [deliveryIdParameter],
    body: { schema: revealRequest, forms: true, limitBytes: 64 * 1024 },
    answer: deadLetter,
    problems: ['not_found'],
    examples: {
      nobody: {
        summary: 'One that there is not',
        parameters: { deliveryId: NOBODY },
        json: { reason: 'A citizen asks where the refund is.' },
        answer: NO_DELIVERY,
      },
      'without-a-reason': {
        summary: 'Without a reason',
        parameters: { deliveryId: NOBODY },
        json: {},
        answer: invalid('reason', 'too_small', 'write a reason: it is kept in the log'),
      },
    },
  },
  'page',
);
