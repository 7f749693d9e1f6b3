import { actionCommand, deliveryLike } from '../action.ts';

export const command = actionCommand({
  name: 'skip',
  summary: 'dead-letter the delivery that holds a lane, so that the lane continues',
  usage: ['skip <deliveryId> --reason <text>'],
  notes: [
    'The delivery becomes a dead letter, which can be replayed like any other. Those behind it are delivered before it.',
  ],
  options: {},
  examples: [['skip 12-345 --reason "answered by phone"', 'the lane goes on with the next delivery']],
  subjects: [deliveryLike('skip 12-345 --reason "answered by phone"')],
  why: { option: 'reason', example: 'answered by phone' },
  route: async () => (await import('../../lib/console/lanes/routes.ts')).skipFirst,
  done: ({ topic, subscriber }, { subjects: { deliveryId } }) => [
    `Skipped ${deliveryId!} (${topic} to ${subscriber}). Its lane continues.`,
    `To deliver it later: npx postbud replay --delivery ${deliveryId!}`,
  ],
});
