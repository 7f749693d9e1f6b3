import * as z from 'zod';

import { acceptWebhook } from '../../components/payments/accept.ts';
import { action } from '../kit/action.ts';
import { webhooksPath } from '../kit/links.ts';
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
  handle: async ({ parameters: { eventId }, body: { reason }, operator, bus }) => {
    await acceptWebhook(await bus.database(), { id: eventId, by: operator.subject, reason });
    return { eventId };
  },
  button: 'Accept…',
  asks: {
    text: 'Take it as it is? What it states becomes money, though it is not plausible. Check it at the provider first.',
    example: 'the payer paid in euro, case 4411',
    submit: 'Accept this webhook',
  },
  done: ({ eventId }) => `Accepted. The webhook ${eventId} is delivered again.`,
  command: {
    summary: 'accept a payment webhook that is not plausible',
    notes: ['It is delivered again, and what it states becomes money. A replay alone does not do that.'],
    examples: [
      [
        'accept-webhook 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "the payer paid in euro, case 4411"',
        'one that webhooks lists',
      ],
    ],
  },
});

export const webhookActions = [acceptAction];
