import * as z from 'zod';

import { dismissOne } from '../../bus/deliveries/operations/dismiss.ts';
import { refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { instantOf } from '../../platform/time.ts';
import { action } from '../kit/action.ts';
import { orEarlier } from '../kit/earlier.ts';
import { deadLetterPath, HOME } from '../kit/links.ts';
import { deliveryId } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { followDismissal } from './follow-delivery.ts';

/** No lane has this id. */
export const NOBODY = '00000000-0000-7000-8000-000000000000.accounting';
export const UNKNOWN =
  'Unknown delivery. Copy its id from the list of dead letters, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting.';
export const NO_DELIVERY = refused('not_found', { detail: UNKNOWN });

const dismissed = z
  .object({
    deliveryId: z.string(),
    topic: shape.topic,
    subscriber: z.string(),
    dismissedAt: shape.instant.meta({ description: 'Earlier, if it was dismissed before.' }),
    released: z.boolean().meta({ description: 'Whether it halted its lane, which goes on now.' }),
  })
  .meta({ id: 'DismissedDeadLetter', description: 'The dismissed dead letter.' });

export const dismiss = action({
  name: 'dismiss',
  id: 'dismissDeadLetter',
  path: `${HOME}/dead-letters/{deliveryId}/dismiss`,
  summary: 'Dismiss one dead letter',
  description:
    'It leaves all counts and lists, stays on record until its event is pruned, and can still be replayed by its id. If it halts its lane, the lane goes on. A repeated request changes nothing.',
  parameters: { deliveryId },
  body: z
    .object({ reason: shape.requiredReason, next: shape.optionalReason.shape.next })
    .meta(shape.needsReason),
  answer: dismissed,
  problems: ['not_dead'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: NOBODY },
      json: { reason: 'Booked by hand.' },
      answer: NO_DELIVERY,
    },
  },
  handle: async ({ parameters, body: { reason }, operator, bus }) => {
    const db = await bus.database();
    const acting = dismissOne(db, { ...parameters, by: operator.subject, reason });
    try {
      const done = await orEarlier(db, { deliveryIds: [parameters.deliveryId] }, acting);
      return { ...done, dismissedAt: instantOf(done.dismissedAt) };
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_found') return null;
      throw error;
    }
  },
  actedOn: {
    /** `released` says that it halted its lane, which goes on. */
    shape: z.object({ deliveryId, lane: z.literal('released').nullable().default(null) }),
    of: ({ released }, { parameters }) => ({ ...parameters, lane: released ? 'released' : null }),
  },
  home: (_done, { parameters }) => deadLetterPath(parameters.deliveryId),
  button: 'Dismiss…',
  asks: {
    question: 'Never replay it?',
    text: 'It leaves the counts, and can still be replayed until the event is pruned.',
    example: 'booked by hand',
    submit: 'Dismiss this dead letter',
  },
  follow: followDismissal,
});

export const deadLetterActions = [dismiss];
