import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { actionCommand } from '../action.ts';

export const command = actionCommand({
  name: 'retire',
  summary: 'retire a subscriber that the catalog no longer lists',
  usage: ['retire <subscriber> [--topic <topic>] --reason <text> [--yes]'],
  notes: [
    'Dismisses what waits for it and what died. Afterwards the subscription shows up nowhere. Refused while the catalog of the server’s release lists it.',
    'Asks for confirmation first. Without a terminal it needs --yes.',
  ],
  options: { topic: { value: '<topic>', help: 'only this topic; by default every topic' } },
  examples: [['retire postcards --reason "postcards are history"', 'all its topics, after confirmation']],
  subjects: [
    {
      name: 'subscriber',
      missing: ['The subscriber is missing.', 'For example: npx postbud retire postcards --reason "…"'],
    },
  ],
  why: { option: 'reason', example: 'postcards are history' },
  route: async () => (await import('../../lib/console/incidents/routes.ts')).retireSubscriber,
  body: (given) => ({ topic: given.text('topic') }),
  nothing: 'Nothing was retired.',
  plan: ({ given }, { parameters }) => {
    const from = given.text('topic') ?? 'all its topics';
    const action = `Retire ${parameters['subscriber']!} from ${from}, and dismiss all that waits for it`;
    return Promise.resolve({ says: null, asks: { action, count: 1 } });
  },
  step: ({ dismissed, left }) => ({ done: dismissed, left }),
  done: ({ subscriber, topics, left }, { sum: dismissed }) => {
    if (topics.length === 0) return `Nothing is left of ${subscriber}.`;
    const rest =
      left === 0 ? '' : ` ${quantity(left, 'event')} not fanned out yet: run it again in a few seconds.`;
    return `Retired ${subscriber} from ${joinNames(topics)}: ${quantity(dismissed, 'delivery')} dismissed.${rest}`;
  },
});
