import { probeDelivery } from '../../lib/console/lanes/actions.ts';
import { probe } from '../../lib/console/subscribers/actions.ts';
import { actionCommand } from '../action.ts';
import type { Call, OnlineCommand } from '../command.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { isIncidentId } from '../incident-id.ts';
import { isSubscriberName, ofSubscriber, probeOfDelivery, readIncident } from '../retries.ts';

const described = {
  name: 'probe',
  summary: 'try one delivery once, at no cost: is its subscriber well again?',
  usage: [
    'probe <deliveryId> [--reason <text>] [--wait]',
    'probe <incidentId> [--reason <text>] [--wait]',
    'probe <subscriber> [--reason <text>] [--wait]',
  ],
  notes: [
    'Hands over the delivery that holds a lane. If it is delivered, its lane goes on. If it fails, its number of attempts and the time of its next one stay as they are; a retry is an attempt.',
    'With the id of an incident or the name of a subscriber, tries the first of its held lanes. While the subscriber does not answer, makes its next probe due now: if one gets through, all follow.',
    'Refused while the subscriber is paused, while a relay delivers the lane, and where this release does not deliver the subscription.',
  ],
  options: {},
  examples: [
    ['probe ledger --wait', 'is the ledger well again?'],
    [
      'probe 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "after the deployment" --wait',
      'one delivery',
    ],
  ],
} as const;

const delivery = actionCommand(probeDelivery, { ...described, ...probeOfDelivery });
const subscriber = actionCommand(probe, { ...described, ...ofSubscriber });

export const command: OnlineCommand = { ...delivery, run };

async function run(call: Call): Promise<number> {
  const { positionals } = call.given;
  const [named] = positionals;
  if (named === undefined)
    throw misused(
      'The delivery, the incident or the subscriber is missing.',
      'For example: npx postbud probe ledger',
    );
  const isIncident = isIncidentId(named);
  if (positionals.length > 1 || !(isIncident || isSubscriberName(named))) return await delivery.run(call);
  const { silent, first } = isIncident ? await firstOfIncident(call, named) : await firstOf(call, named);
  const instead = silent ?? first;
  if (instead === undefined)
    throw new Failure(
      EXIT.failed,
      `Nothing ${isIncident ? 'of this incident' : `for ${named}`} waits for a retry: there is nothing to try.`,
    );
  const asked = { ...call, given: { ...call.given, positionals: [instead] } };
  return await (silent === null ? delivery : subscriber).run(asked);
}

/** What is probed: a subscriber that does not answer, or else the first delivery that holds a lane. */
interface Probed {
  readonly silent: string | null;
  readonly first?: string | undefined;
}

async function firstOfIncident(call: Call, incidentId: string): Promise<Probed> {
  const { topic, subscriber: of, lanes } = (await readIncident(call, incidentId)).view;
  return topic === null ? { silent: of } : { silent: null, first: lanes[0]?.deliveryId };
}

async function firstOf({ bus }: Call, name: string): Promise<Probed> {
  const { showSubscriber } = await import('../../lib/console/subscribers/views.ts');
  const { items, heldLanes } = (await bus.ask(showSubscriber.route, { parameters: { subscriber: name } }))
    .view;
  return items[0].outage === null ? { silent: null, first: heldLanes[0]?.deliveryId } : { silent: name };
}
