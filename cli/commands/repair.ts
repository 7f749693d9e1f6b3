import { OUTCOMES } from '../../lib/console/set-aside/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT, misused } from '../failure.ts';
import { writeOutcome } from '../held-delivery.ts';

export const command: Command = {
  name: 'repair',
  summary: 'repair what the bus set aside, or an event that was never fanned out',
  usage: ['repair <id> --reason <text>', 'repair <eventId> --reason <text>'],
  notes: [
    'An event that exists is delivered: in its place, or, where newer ones of its topic are fanned out already, behind them. A row without an event is dismissed, and stays on record.',
    'With an event id: one that the doctor names, which neither waits for fan-out nor has deliveries.',
  ],
  options: { reason: { value: '<text>', help: 'recorded in the operator log' } },
  examples: [
    ['repair 7 --reason "written by hand, case 4411"', 'what set-aside lists under 7'],
    ['repair 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "its marker was deleted"', 'an event'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, isJson, bus } = call;
  atMost(1, given);
  const [id] = given.positionals;
  const reason = given.text('reason');
  if (id === undefined) throw misused('The id is missing.', 'npx postbud set-aside lists them.');
  if (reason === undefined)
    throw misused('--reason is missing.', 'For example: --reason "written by hand, case 4411"');
  const { repairRow } = await import('../../lib/console/set-aside/routes.ts');
  const { json, view } = await bus.ask(repairRow, { parameters: { id }, body: { reason } });
  if (isJson) writeJson(call, json);
  else writeOutcome(call, true, `Repaired ${id}. ${OUTCOMES[view.outcome]}`);
  return EXIT.ok;
}
