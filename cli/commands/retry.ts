import { retryIncident } from '../../lib/console/incidents/actions.ts';
import { retry } from '../../lib/console/lanes/actions.ts';
import { probe } from '../../lib/console/subscribers/actions.ts';
import { actionCommand } from '../action.ts';
import type { Call, OnlineCommand } from '../command.ts';
import { misused } from '../failure.ts';
import { isIncidentId } from '../incident-id.ts';
import { isSubscriberName, ofDelivery, ofIncident, ofSubscriber, readIncident } from '../retries.ts';

const described = {
  name: 'retry',
  summary: 'retry the delivery that holds a lane now, or probe a subscriber that does not answer',
  usage: [
    'retry <deliveryId> [--reason <text>] [--wait]',
    'retry <incidentId> [--reason <text>] [--wait]',
    'retry <subscriber> [--reason <text>] [--wait]',
  ],
  notes: [
    'A lane holds the deliveries of one subscription, or of one ordering key in it, in strict order: while the first one waits for its retry, those behind it wait too.',
    'Only the delivery that holds its lane can be retried. It counts as its next attempt, which is said first: if it fails again, the usual waits go on, and the last one makes it a dead letter.',
    'Refused where this release does not deliver the subscription: retire it, or attach it.',
    'With the id of an incident, retries its first blocked lanes: enough to see whether the subscriber is back.',
    'With the name of a subscriber that does not answer, makes its next probe due now: one of its deliveries is tried, and if it gets through, all follow. No attempt is used up.',
  ],
  options: {},
  examples: [
    [
      'retry 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "ledger is back" --wait',
      'and wait for the outcome',
    ],
    ['retry 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --json', 'from a script'],
    ['retry ledger --wait', 'probe a subscriber that does not answer'],
  ],
} as const;

const delivery = actionCommand(retry, { ...described, ...ofDelivery });
const incident = actionCommand(retryIncident, { ...described, ...ofIncident });
const subscriber = actionCommand(probe, { ...described, ...ofSubscriber });

export const command: OnlineCommand = { ...delivery, run };

async function run(call: Call): Promise<number> {
  const { positionals } = call.given;
  const [named] = positionals;
  if (named === undefined)
    throw misused(
      'The delivery, the incident or the subscriber is missing.',
      'For example: npx postbud retry 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
    );
  if (isSubscriberName(named) && !isIncidentId(named)) return await subscriber.run(call);
  if (!isIncidentId(named) || positionals.length > 1) return await delivery.run(call);
  const { topic, subscriber: silent } = (await readIncident(call, named)).view;
  if (topic !== null) return await incident.run(call);
  // An outage: of all topics of a subscriber that does not answer.
  return await subscriber.run({ ...call, given: { ...call.given, positionals: [silent] } });
}
