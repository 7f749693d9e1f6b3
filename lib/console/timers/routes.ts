import * as z from 'zod';

import { cancelTimerById } from '../../bus/deliveries/operations/cancel-timer.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { actionRoute } from '../kit/action-route.ts';
import { timersPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { timersPage } from './page.ts';
import { readTimers, timerList, timersQuery } from './read.ts';

const EVENT_ID = '019cd0a3-7c00-7c2e-9d55-7b1f6a0c3d21';

export const listTimers = operatorRoute({
  id: 'listTimers',
  path: timersPath(),
  scope: 'event-bus:read',
  summary: 'List timers: events that happen later, by time',
  query: timersQuery,
  answer: timerList,
  links: {
    cancel: {
      operationId: 'cancelTimer',
      description: 'Cancel the next one.',
      parameters: { eventId: '$response.body#/items/0/eventId' },
      requestBody: { reason: 'The booking was made by mistake.' },
    },
  },
  problems: ['validation_failed'],
  examples: {
    'of-a-topic': {
      summary: 'Those of one topic',
      parameters: { topic: 'booking.reminder.due', limit: 10 },
      answer: answered({
        generatedAt: '2026-03-09T09:31:00.000Z',
        filters: { topic: 'booking.reminder.due', timerKey: null },
        items: [
          {
            eventId: EVENT_ID,
            topic: 'booking.reminder.due',
            timerKey: 'bkg_48213',
            dueAt: '2026-03-13T16:00:00.000Z',
            setAt: '2026-02-20T09:12:41.000Z',
            refusedAt: null,
            producer: 'bookings',
            subject: 'booking bkg_48213',
          },
        ],
        nextCursor: null,
      }),
    },
  },
  handle: async ({ query, bus }) => await readTimers(await bus.database(), query),
  page: timersPage,
});

const UNKNOWN =
  'Unknown timer: it was released or cancelled, or never set. The list has the ids: /platform/event-bus/timers.';

const cancelled = z
  .object({
    eventId: z.uuid(),
    topic: shape.topic,
    timerKey: z.string().nullable(),
  })
  .meta({ id: 'CancelledTimer', description: 'The timer whose event will not happen.' });

export const cancelTimerRoute = actionRoute('cancel-timer', {
  id: 'cancelTimer',
  summary: 'Cancel a timer: its event never happens',
  description: 'Its producer is not told. The operator and the reason are recorded.',
  parameters: { eventId: z.uuid('expected the id of an event') },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: cancelled,
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown timer',
      parameters: { eventId: '019cd0a3-7c00-7c2e-9d55-000000000000' },
      json: { reason: 'The booking was made by mistake.' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { eventId }, body: { reason }, operator, bus }) => {
    const asked = { id: eventId, by: operator.subject, reason };
    const done = await cancelTimerById(await bus.database(), asked);
    return done && { eventId, ...done };
  },
  actedOn: (_done, { parameters }) => parameters,
  home: () => timersPath(),
});

export const timerRoutes = [listTimers, cancelTimerRoute];
