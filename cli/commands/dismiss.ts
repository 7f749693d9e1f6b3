import { quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { confirm, requireConfirmable, YES } from '../confirm.ts';
import { isDeliveryId } from '../dead-letter.ts';
import { dismissDeadLetter } from '../dismiss-dead-letter.ts';
import { EXIT, misused } from '../failure.ts';
import { requireIncidentId } from '../incident-id.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
  name: 'dismiss',
  summary: 'dismiss the dead letters of an incident, or one dead letter, which will not be replayed',
  usage: ['dismiss <incidentId> --reason <text> [--yes]', 'dismiss <deliveryId> --reason <text> [--yes]'],
  notes: [
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed with replay --include dismissed.',
    'A lane that a dead letter halts goes on once it is dismissed.',
    'Asks for confirmation first. Without a terminal it needs --yes.',
  ],
  options: {
    reason: { value: '<text>', help: 'recorded in the operator log' },
    ...YES,
  },
  examples: [
    ['dismiss 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "test data"', 'after confirmation'],
    ['dismiss 12-345 --reason "booked by hand"', 'one dead letter, which may halt its lane'],
  ],
  run,
};

const NOTHING = 'Nothing was dismissed.';

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(1, given);
  const [incidentId] = given.positionals;
  const reason = given.text('reason');
  if (incidentId === undefined)
    throw misused(
      'The incident is missing.',
      'For one dead letter give its delivery id. npx postbud incidents lists them.',
    );
  const isOne = isDeliveryId(incidentId);
  if (!isOne) requireIncidentId(incidentId);
  if (reason === undefined) throw misused('--reason is missing.', 'For example: --reason "test data"');
  requireConfirmable(call, NOTHING);
  if (isOne) return await dismissDeadLetter(call, incidentId, reason, NOTHING);
  const parameters = { incidentId };
  const { dismissIncident, showIncident } = await import('../../lib/console/incidents/routes.ts');
  const { view: found } = await bus.ask(showIncident, { parameters });
  terminal.err.write(wrapTo(terminal.err.columns, found.sentence));
  const action = `Dismiss ${quantity(found.owed, 'dead letter')}`;
  if (found.owed > 0) await confirm(call, { action, count: found.owed, nothing: NOTHING });
  let dismissed = 0;
  for (;;) {
    const { json, view } = await bus.ask(dismissIncident, { parameters, body: { reason } });
    dismissed += view.dismissed;
    terminal.progress(view.left > 0 ? `${dismissed} dismissed, ${view.left} left` : null);
    // One request has a function's time; more than that takes several.
    if (view.left > 0 && view.dismissed > 0) continue;
    if (isJson) writeJson(call, json);
    else terminal.out.write(`✓ Dismissed ${quantity(dismissed, 'dead letter')}.`);
    return EXIT.ok;
  }
}
