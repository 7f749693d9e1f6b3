import * as z from 'zod';

import { cancelTimerById } from '../../bus/deliveries/operations/cancel-timer.ts';
import { action } from '../kit/action.ts';
import { timersPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';

const UNKNOWN =
  'Unknown timer: it was released or cancelled, or never set. The list has the ids: /platform/event-bus/timers.';

const cancelled = z
  .object({
    eventId: z.uuid(),
    topic: shape.topic,
    timerKey: z.string().nullable(),
  })
  .meta({ id: 'CancelledTimer', description: 'The timer whose event will not happen.' });

const cancelTimer = action({
  name: 'cancel-timer',
  id: 'cancelTimer',
  path: `${timersPath()}/{eventId}/cancel`,
  summary: 'Cancel a timer: its event never happens',
  description: 'Its producer is not told. The operator and the reason are recorded.',
  parameters: { eventId: z.uuid('expected the id of an event') },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: cancelled,
  unknown: UNKNOWN,
  handle: async ({ parameters: { eventId }, body: { reason }, operator, bus }) => {
    const asked = { id: eventId, by: operator.subject, reason };
    const done = await cancelTimerById(await bus.database(), asked);
    return done && { eventId, ...done };
  },
  button: 'Cancel…',
  asks: {
    text: 'Never let it happen? Its event is not recorded, and its producer is not told.',
    example: 'the booking was made by mistake',
    submit: 'Cancel this timer',
  },
  done: ({ topic, timerKey }) =>
    `Cancelled. This ${topic}${timerKey === null ? '' : ` of ${timerKey}`} will not happen.`,
  command: {
    summary: 'cancel a timer, so that its event never happens',
    notes: ['Its producer is not told. One that was released is an event, and can’t be cancelled.'],
    examples: [
      [
        'cancel-timer 019cd0a3-7c00-7c2e-9d55-7b1f6a0c3d21 --reason "the booking was made by mistake"',
        'one that timers lists',
      ],
    ],
  },
});

export const timerActions = [cancelTimer];
