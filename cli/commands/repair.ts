import { OUTCOMES } from '../../lib/console/set-aside/words.ts';
import { actionCommand } from '../action.ts';

export const command = actionCommand({
  name: 'repair',
  summary: 'repair what the bus set aside, or an event that was never fanned out',
  usage: ['repair <id> --reason <text>', 'repair <eventId> --reason <text>'],
  notes: [
    'An event that exists is delivered: in its place, or, where newer ones of its topic are fanned out already, behind them. A row without an event is dismissed, and stays on record.',
    'With an event id: one that the doctor names, which neither waits for fan-out nor has deliveries.',
  ],
  options: {},
  examples: [
    ['repair 7 --reason "written by hand, case 4411"', 'what set-aside lists under 7'],
    ['repair 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "its marker was deleted"', 'an event'],
  ],
  subjects: [{ name: 'id', missing: ['The id is missing.', 'npx postbud set-aside lists them.'] }],
  why: { option: 'reason', example: 'written by hand, case 4411' },
  route: async () => (await import('../../lib/console/set-aside/routes.ts')).repairRow,
  done: ({ outcome }, { subjects }) => `Repaired ${subjects['id']!}. ${OUTCOMES[outcome]}`,
});
