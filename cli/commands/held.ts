import { retryIncident, skipIncident } from '../../lib/console/incidents/actions.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import {
  probeDelivery,
  retry as retryDelivery,
  skip as skipDelivery,
} from '../../lib/console/lanes/actions.ts';
import { probe as probeSubscriber } from '../../lib/console/subscribers/actions.ts';
import { commandOfWord } from '../action.ts';
import { confirm, requireSomebody, YES } from '../command.ts';
import type { Command } from '../command.ts';
import { EXIT, Failure, requireReason } from '../arguments.ts';
import { KINDS, kindNamed } from '../kinds.ts';

// What is done to the delivery that holds a lane.

export const retry = commandOfWord(
  {
    name: 'retry',
    summary: 'retry the delivery that holds a lane now, or the first ones of an incident',
    usage: ['retry <deliveryId|incidentId> [--reason <text>] [--wait]'],
    notes: [
      'Only the delivery that holds its lane can be retried. It counts as its next attempt: if it fails again, the usual waits go on, and the last one makes it a dead letter. probe costs no attempt.',
      'With the id of an incident, retries its first blocked lanes: enough to see whether the subscriber is back.',
    ],
    examples: [
      ['retry 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --wait', 'and wait for the outcome'],
      ['retry 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --wait', 'the first blocked lanes of an incident'],
    ],
  },
  retryDelivery,
  async (word) => [kindNamed(word) === 'incidentId' ? retryIncident : retryDelivery, word],
);

export const probe = commandOfWord(
  {
    name: 'probe',
    summary: 'try one delivery once, at no cost: is its subscriber well again?',
    usage: ['probe <deliveryId|incidentId|subscriber> [--reason <text>] [--wait]'],
    notes: [
      'Hands over the delivery that holds a lane. If it is delivered, its lane goes on. If it fails, its number of attempts and the time of its next one stay as they are; a retry is an attempt.',
      'With the id of an incident, tries the first of its held lanes. With the name of a subscriber that does not answer, makes its next probe due now: if one of its deliveries gets through, all follow.',
    ],
    examples: [
      ['probe ledger --wait', 'does the ledger answer again?'],
      ['probe 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --wait', 'one delivery'],
    ],
  },
  probeDelivery,
  async (word, { bus }) => {
    const kind = kindNamed(word);
    if (kind !== 'incidentId') return [kind === 'subscriber' ? probeSubscriber : probeDelivery, word];
    const { view } = await bus.ask(await KINDS.incidentId.look(), { parameters: { incidentId: word } });
    if (view.topic === null) return [probeSubscriber, view.subscriber];
    const first = view.lanes.find(({ nextAttemptAt }) => nextAttemptAt !== null);
    if (first) return [probeDelivery, first.deliveryId, { incidentId: word }];
    throw new Failure(
      EXIT.failed,
      'No delivery of this incident waits for a retry: there is nothing to try.',
    );
  },
);

const skipWords = {
  name: 'skip',
  summary: 'dead-letter the delivery that holds a lane, so that the lane continues; or all of an incident',
  usage: ['skip <deliveryId|incidentId> --reason <text> [--yes]'],
  notes: [
    'The delivery becomes a dead letter, which can be replayed like any other. Those behind it are delivered before it.',
    'With the id of an incident, skips the deliveries that hold its blocked lanes, which fail with one error. It says how many, and asks; without a terminal it needs --yes.',
  ],
  examples: [
    ['skip 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "answered by phone"', 'one delivery'],
    ['skip 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "the period is closed"', 'all of an incident'],
  ],
} as const;

const skipOne = commandOfWord(skipWords, skipDelivery, async (word, call) => {
  if (kindNamed(word) !== 'incidentId') return [skipDelivery, word];
  requireReason(call.given, `skip ${word} --reason "the period is closed"`);
  const { view } = await call.bus.ask(await KINDS.incidentId.look(), { parameters: { incidentId: word } });
  const held = view.blockedLanes - view.haltedLanes;
  const nothing = 'Nothing was skipped.';
  if (held > 0) {
    requireSomebody(call, { nothing, orElse: '' });
    await confirm(call, { action: `Skip ${quantity(held, 'delivery')}`, count: held, nothing });
  }
  return [skipIncident, word];
});

export const skip: Command = { ...skipOne, options: { ...skipOne.options, ...YES } };
