import * as z from 'zod';

import { acceptWebhook } from '../../components/payments/accept.ts';
import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import { refused } from '../../platform/http/operation.ts';
import { action } from '../kit/action.ts';
import { webhooksPath } from '../kit/links.ts';
import { problemOf } from '../kit/problem-of.ts';
import * as shape from '../kit/shapes.ts';

const UNKNOWN =
  'No payment webhook was delivered with this event id. The list has the ids: /platform/event-bus/webhooks.';

const acceptAction = action({
  name: 'accept-webhook',
  id: 'acceptWebhook',
  path: `${webhooksPath()}/{eventId}/accept`,
  summary: 'Accept a payment webhook that is not plausible',
  description:
    'It is delivered again, and taken as it is: what it states becomes money. A replay alone does not do that. The operator and the reason are recorded.',
  parameters: { eventId: z.uuid('expected the id of an event') },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: z
    .object({ eventId: z.uuid() })
    .meta({ id: 'AcceptedWebhook', description: 'The event of the webhook that is delivered again.' }),
  problems: ['not_broken'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown webhook',
      parameters: { eventId: '019cd0a3-7c00-7c2e-9d55-000000000000' },
      json: { reason: 'The payer paid in euro, see case 4411.' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { eventId }, body: { reason }, operator, bus }) => {
    try {
      await acceptWebhook(await bus.database(), { id: eventId, by: operator.subject, reason });
      return { eventId };
    } catch (error) {
      if (error instanceof NotActedOn && error.code === 'not_found') return null;
      throw problemOf(error);
    }
  },
  home: () => webhooksPath(),
  button: 'Accept…',
  asks: {
    question: 'Take it as it is?',
    text: 'What it states becomes money, though it is not plausible. Check it at the provider first.',
    example: 'the payer paid in euro, case 4411',
    submit: 'Accept this webhook',
  },
  command: {
    summary: 'accept a payment webhook that is not plausible',
    notes: ['It is delivered again, and what it states becomes money. A replay alone does not do that.'],
    examples: [
      [
        'accept-webhook 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "the payer paid in euro, case 4411"',
        'one that webhooks lists',
      ],
    ],
    missing: ['The event id is missing.', 'npx postbud webhooks lists them.'],
    done: ({ eventId }) => `Accepted. The webhook ${eventId} is delivered again.`,
  },
});

export const webhookActions = [acceptAction];
