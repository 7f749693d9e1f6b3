import * as z from 'zod';

import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { deliveryId } from '../kit/replay-request.ts';
import { answered, invalid } from '../../platform/http/operation.ts';
import { NO_REASON } from '../kit/action.ts';
import { knownIn } from '../kit/known-names.ts';
import { deadLetterPath, HOME, revealedPath } from '../kit/links.ts';
import { findReveal, recordReveal, revealQuery } from '../kit/reveal.ts';
import { operatorRoute } from '../kit/route.ts';
import { view } from '../kit/view.ts';
import * as shape from '../kit/shapes.ts';
import { NO_DELIVERY, NOBODY, UNKNOWN } from './actions.ts';
import { deliveryDoc } from '../event/doc.ts';
import { deadLetter, readDeadLetter } from '../event/delivery.ts';
import { deadLettersDoc } from './doc.ts';
import { deadLetterPage } from './fields.ts';
import { deadLetterFilters, deadLetterQuery } from './query.ts';
import { readDeadLetters } from './read.ts';

const EVENT_LINK = { eventId: '$response.body#/items/0/eventId' };
const LINK = { deliveryId: '$response.body#/items/0/deliveryId' };

export const showDeadLetter = view({
  id: 'readDeadLetter',
  path: `${HOME}/dead-letters/{deliveryId}`,
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
  says: deliveryDoc,
});

const reveal = operatorRoute({
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
  handle: async ({ parameters: { deliveryId: id }, body, operator, bus }) => {
    const db = await bus.database();
    const names = readDeliveryId(id);
    const revealed = names && (await recordReveal(db, { ...names, by: operator.subject, ...body }));
    return revealed && (await readDeadLetter(db, id, bus.subscribers(), revealed));
  },
  // To an address of its own, so that a reload asks for the page again and not for another reveal.
  redirectTo: ({ reveal: made }, { parameters }) =>
    made && revealedPath(deadLetterPath(parameters.deliveryId), made.revealId),
});

const listDeadLetters = view({
  id: 'listDeadLetters',
  path: `${HOME}/dead-letters`,
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
      answer: answered(),
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
    const db = await knownIn(bus, query);
    return await readDeadLetters(db, query);
  },
  says: deadLettersDoc,
  command: {
    name: 'dead-letters',
    summary: 'list dead letters, or show one with its attempts',
    notes: ['A dead letter is a delivery that was given up. Personal data in payloads and errors is hidden.'],
    filters: deadLetterFilters,
    list: 'items',
    one: { view: showDeadLetter, argument: 'deliveryId', shape: deliveryId, reveal },
    examples: [
      ['dead-letters', 'the newest dead letters and their errors'],
      ['dead-letters --topic payment.captured --since 24h', 'those of one topic in the last 24 hours'],
      [
        'dead-letters 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
        'one delivery with its attempts and payload',
      ],
    ],
  },
});

export const deadLetterViews = [listDeadLetters, showDeadLetter, { route: reveal }];
