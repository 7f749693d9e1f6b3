import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT, misused } from '../failure.ts';
import { requireIncidentId } from '../incident-id.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
  name: 'acknowledge',
  summary: 'tell others that you have taken an incident up',
  usage: ['acknowledge <incidentId> --note <text>'],
  notes: [
    'The note is shown with the incident and kept in the operator log. The incident stays open until nothing is left of it.',
  ],
  options: { note: { value: '<text>', help: 'what others should know' } },
  examples: [
    ['acknowledge 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --note "the supplier is notified"', 'with a note'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(1, given);
  const [incidentId] = given.positionals;
  const note = given.text('note');
  if (incidentId === undefined)
    throw misused('The incident is missing.', 'npx postbud incidents lists them.');
  requireIncidentId(incidentId);
  if (note === undefined)
    throw misused('--note is missing.', 'For example: --note "the supplier is notified"');
  const { acknowledgeIncident } = await import('../../lib/console/incidents/routes.ts');
  const named = { note: '--note' };
  const { json, view } = await bus.ask(acknowledgeIncident, {
    parameters: { incidentId },
    body: { note },
    named,
  });
  if (isJson) writeJson(call, json);
  else terminal.out.write(wrapTo(terminal.out.columns, `✓ Acknowledged. ${view.sentence}`));
  return EXIT.ok;
}
