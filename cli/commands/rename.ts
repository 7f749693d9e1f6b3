import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { actionCommand } from '../action.ts';

const EXAMPLE = 'For example: npx postbud rename postcards notifications --reason "…"';

export const command = actionCommand({
  name: 'rename',
  summary: 'hand what waits for a subscriber’s former name over to its new one',
  usage: [
    'rename <former name> <new name> [--topic <topic>] --reason <text> [--yes]',
    'rename <former name> <new name> [--topic <topic>] --dry-run',
  ],
  notes: [
    'What waits and what died goes to the new name, in order and before anything newer. What was delivered stays under the former name. Delivery ids change.',
    'Refused while the catalog of the server’s release lists the former name, and where it does not list the new one.',
    'Asks for confirmation first. Without a terminal it needs --yes.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic; by default every topic' },
    'dry-run': { help: 'only say what would be moved' },
  },
  examples: [
    ['rename postcards notifications --reason "renamed in 2.4"', 'all its topics, after confirmation'],
    ['rename postcards notifications --dry-run', 'how many, by topic'],
  ],
  subjects: [
    { name: 'subscriber', missing: ['The former name is missing.', EXAMPLE] },
    { name: 'to', missing: ['The new name is missing.', EXAMPLE] },
  ],
  why: { option: 'reason', example: 'renamed in 2.4' },
  route: renameSubscriber,
  body: (given) => ({ topic: given.text('topic') }),
  named: { to: 'the new name' },
  nothing: 'Nothing was renamed.',
  async plan({ bus }, asked) {
    const preview = { ...asked, body: { ...asked.body, dryRun: true } };
    const { json, view } = await bus.ask(await renameSubscriber(), preview);
    const { subscriber, to, topics, left: count } = view;
    const action = `Rename ${subscriber} to ${to}, and move ${quantity(count, 'delivery')}`;
    if (topics.length === 0) return { says: `✓ Nothing is left of ${subscriber}.`, asks: null, json };
    return { says: topics.map(topicWords).join('\n'), asks: { action, count }, json };
  },
  step: ({ moved, dismissed, left }) => ({ done: moved + dismissed, left }),
  done({ subscriber, to, topics, left }, { views }) {
    const moved = views.reduce((sum, view) => sum + view.moved, 0);
    const dismissed = views.reduce((sum, view) => sum + view.dismissed, 0);
    const names = joinNames(topics.map(({ topic }) => topic));
    const twins =
      dismissed === 0
        ? ''
        : ` ${quantity(dismissed, 'delivery')} dismissed, because ${to} has the same events.`;
    const rest =
      left === 0
        ? ''
        : ` ${quantity(left, 'delivery')} ${left === 1 ? 'has' : 'have'} come for ${subscriber} meanwhile: run it again.`;
    return `Renamed ${subscriber} to ${to} on ${names}: ${quantity(moved, 'delivery')} moved.${twins}${rest}`;
  },
});

async function renameSubscriber() {
  return (await import('../../lib/console/subscribers/rename.ts')).renameSubscriber;
}

function topicWords({
  topic,
  waiting,
  deadLettered,
}: {
  readonly topic: string;
  readonly waiting: number;
  readonly deadLettered: number;
}): string {
  const waits = `${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'}`;
  return `${topic}: ${waits}, ${quantity(deadLettered, 'dead letter')}`;
}
