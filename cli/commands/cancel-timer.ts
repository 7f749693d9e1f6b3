import { actionCommand } from '../action.ts';

const EXAMPLE =
  'cancel-timer 019cd0a3-7c00-7c2e-9d55-7b1f6a0c3d21 --reason "the booking was made by mistake"';

export const command = actionCommand({
  name: 'cancel-timer',
  summary: 'cancel a timer, so that its event never happens',
  usage: ['cancel-timer <eventId> --reason <text>'],
  notes: ['Its producer is not told. One that was released is an event, and can’t be cancelled.'],
  options: {},
  examples: [[EXAMPLE, 'one that timers lists']],
  subjects: [{ name: 'eventId', missing: ['The event id is missing.', 'npx postbud timers lists them.'] }],
  why: { option: 'reason', example: 'the booking was made by mistake' },
  route: async () => (await import('../../lib/console/timers/routes.ts')).cancelTimerRoute,
  done: ({ topic, timerKey }) =>
    `Cancelled. This ${topic}${timerKey === null ? '' : ` of ${timerKey}`} will not happen.`,
});
