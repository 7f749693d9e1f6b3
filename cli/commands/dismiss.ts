import { haltWords } from '../../lib/console/deliveries/halts.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import { dismiss } from '../../lib/console/dead-letters/actions.ts';
import { dismissal } from '../../lib/console/dismissals/operations.ts';
import { dismissIncident } from '../../lib/console/incidents/actions.ts';
import { hasFilter } from '../../lib/console/kit/filter.ts';
import { ALL_TIME } from '../../lib/console/kit/links.ts';
import { INCIDENT, actionCommand } from '../action.ts';
import type { OnlineCommand } from '../command.ts';
import { isDeliveryId, requireDeliveryId } from '../delivery-id.ts';
import { misused } from '../failure.ts';
import { operationCommand } from '../operation-command.ts';
import { readDelivery } from '../retries.ts';

const described = {
  name: 'dismiss',
  summary: 'dismiss dead letters, which will not be replayed: of an incident, one, or all that match',
  usage: [
    'dismiss <incidentId> --reason <text> [--yes]',
    'dismiss <deliveryId> --reason <text> [--yes]',
    'dismiss --topic <topic> --since <24h> --reason <text> [options]',
    'dismiss --delivery <deliveryId> [--delivery <deliveryId> …] --reason <text> [options]',
  ],
  notes: [
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed with replay --include dismissed.',
    'A lane that a dead letter halts goes on once it is dismissed.',
    'Asks for confirmation first, after a preview of all that match. Without a terminal it needs --yes.',
  ],
  options: {},
  examples: [
    ['dismiss 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "test data"', 'after confirmation'],
    [
      'dismiss 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "booked by hand"',
      'one dead letter, which may halt its lane',
    ],
    [
      'dismiss --topic payment.captured --since 24h --reason "test data"',
      'all of a topic in the last 24 hours, after a preview',
    ],
  ],
  why: { option: 'reason', example: 'test data' },
  nothing: 'Nothing was dismissed.',
} as const;

const ofIncident = actionCommand(dismissIncident, {
  ...described,
  subjects: [
    {
      ...INCIDENT,
      missing: [
        'The incident is missing.',
        'For one dead letter give its delivery id. npx postbud incidents lists them.',
      ],
    },
  ],
  async plan({ bus }, { parameters }) {
    const { showIncident } = await import('../../lib/console/incidents/views.ts');
    const { sentence, owed, generatedAt: until } = (await bus.ask(showIncident.route, { parameters })).view;
    const action = `Dismiss ${quantity(owed, 'dead letter')}`;
    return {
      says: sentence,
      asks: owed === 0 ? null : { action, count: owed },
      keepsTo: (isFirst) => ({ until, ...(isFirst && { expectedCount: owed }) }),
    };
  },
  step: ({ dismissed, left }) => ({ done: dismissed, left }),
  done: (_, { sum }) => `Dismissed ${quantity(sum, 'dead letter')}.`,
});

const ofDelivery = actionCommand(dismiss, {
  ...described,
  async plan(call, { parameters }) {
    const { view } = await readDelivery(call, parameters['deliveryId']!);
    const error = view.lastError === null ? '' : `: ${failureText(view.lastError)}`;
    const halt = view.halts === null ? '' : `. It ${haltWords(view.halts)}`;
    return {
      says: `${view.topic} to ${view.subscriber}${error}${halt}.`,
      asks: view.deadLetteredAt === null ? null : { action: 'Dismiss it', count: 1 },
    };
  },
  done: ({ released }, { subjects }) =>
    `Dismissed dead letter ${subjects['deliveryId']!}.${released ? ' Its lane goes on.' : ''}`,
});

const ofFilter = operationCommand(dismissal, (fields) => {
  const { deliveryIds, since = ALL_TIME } = fields;
  for (const id of String(deliveryIds ?? '').split(',')) if (id) requireDeliveryId(id);
  if (deliveryIds !== undefined) return fields;
  if (!hasFilter(fields))
    throw misused(
      'What to dismiss is missing: add --topic, --subscriber, --group, --search, --until or --delivery.',
      `For example: npx postbud ${dismissal.command.example}`,
    );
  return { ...fields, since };
});

export const command: OnlineCommand = {
  ...ofIncident,
  options: { ...ofFilter.options, ...ofIncident.options },
  async run(call) {
    const { given } = call;
    const [id] = given.positionals;
    const matching = Object.keys(ofFilter.options).find(
      (name) => !(name in ofIncident.options) && given.isSet(name),
    );
    if (id === undefined && matching !== undefined) return await ofFilter.run(call);
    if (matching !== undefined)
      throw misused(`'${id}' is dismissed alone: leave out --${matching}, or leave out the id.`);
    return await (isDeliveryId(id ?? '') ? ofDelivery : ofIncident).run(call);
  },
};
