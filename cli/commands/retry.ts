import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { requireDeliveryId } from '../dead-letter.ts';
import { EXIT, misused } from '../failure.ts';
import { WAIT, waitLimitMs } from '../follow.ts';
import { followAttempt, readDelivery, writeOutcome } from '../held-delivery.ts';
import { isIncidentId } from '../incident-id.ts';
import { isSubscriberName, probeSubscriber } from '../probe-subscriber.ts';
import { REASON } from '../reason.ts';
import { retryIncident } from '../retry-incident.ts';

export const command: Command = {
  name: 'retry',
  summary: 'retry the delivery that holds a lane now, or probe a subscriber that does not answer',
  usage: [
    'retry <deliveryId> [--reason <text>] [--wait]',
    'retry <incidentId> [--reason <text>] [--wait]',
    'retry <subscriber> [--reason <text>] [--wait]',
  ],
  notes: [
    'A lane holds the deliveries of one subscription, or of one ordering key in it, in strict order: while the first one waits for its retry, those behind it wait too.',
    'Only the delivery that holds its lane can be retried. It counts as its next attempt: if it fails again, the usual waits go on.',
    'With the id of an incident, retries its first blocked lanes: enough to see whether the subscriber is back.',
    'With the name of a subscriber that does not answer, makes its next probe due now: one of its deliveries is tried, and if it gets through, all follow. No attempt is used up.',
  ],
  options: { ...REASON, ...WAIT },
  examples: [
    ['retry 12-345 --reason "ledger is back" --wait', 'and wait for the outcome'],
    ['retry 12-345 --json', 'from a script'],
    ['retry ledger --wait', 'probe a subscriber that does not answer'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus, isJson } = call;
  atMost(1, given);
  const [deliveryId] = given.positionals;
  if (deliveryId === undefined)
    throw misused(
      'The delivery, the incident or the subscriber is missing.',
      'For example: npx postbud retry 12-345',
    );
  if (isIncidentId(deliveryId)) return await retryIncident(call, deliveryId);
  if (isSubscriberName(deliveryId)) return await probeSubscriber(call, deliveryId);
  requireDeliveryId(deliveryId);
  const isWaiting = given.isSet('wait');
  // Before anything is done: a wrong limit must not be noticed after the retry.
  waitLimitMs(given);
  const before = isWaiting ? (await readDelivery(call, deliveryId)).view : null;
  const { retry } = await import('../../lib/console/lanes/routes.ts');
  const body = { reason: given.text('reason') };
  const { json, view } = await bus.ask(retry, { parameters: { deliveryId }, body });
  if (!isJson)
    writeOutcome(call, true, `Delivery ${deliveryId} (${view.topic} to ${view.subscriber}) is due now.`);
  if (before === null) {
    if (isJson) writeJson(call, json);
    return EXIT.ok;
  }
  const outcome = await followAttempt(call, before);
  if (isJson) writeJson(call, outcome.json);
  else writeOutcome(call, outcome.code === EXIT.ok, outcome.words);
  return outcome.code;
}
