import { INCIDENT, actionCommand } from '../action.ts';

export const command = actionCommand({
  name: 'acknowledge',
  summary: 'tell others that you have taken an incident up',
  usage: ['acknowledge <incidentId> --note <text>'],
  notes: [
    'The note is shown with the incident and kept in the operator log. The incident stays open until nothing is left of it.',
  ],
  options: {},
  examples: [
    ['acknowledge 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --note "the supplier is notified"', 'with a note'],
  ],
  subjects: [INCIDENT],
  why: { option: 'note', example: 'the supplier is notified' },
  route: async () => (await import('../../lib/console/incidents/routes.ts')).acknowledgeIncident,
  done: ({ sentence }) => `Acknowledged. ${sentence}`,
});
