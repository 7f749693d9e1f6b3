import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { confirm, requireConfirmable, YES } from '../confirm.ts';
import { EXIT, misused } from '../failure.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
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
    reason: { value: '<text>', help: 'recorded in the operator log' },
    'dry-run': { help: 'only say what would be moved' },
    ...YES,
  },
  examples: [
    ['rename postcards notifications --reason "renamed in 2.4"', 'all its topics, after confirmation'],
    ['rename postcards notifications --dry-run', 'how many, by topic'],
  ],
  run,
};

const NOTHING = 'Nothing was renamed.';

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(2, given);
  const [subscriber, to] = given.positionals;
  const isDry = given.isSet('dry-run');
  const reason = given.text('reason') ?? (isDry ? 'preview' : undefined);
  const topic = given.text('topic');
  if (subscriber === undefined || to === undefined)
    throw misused(
      `The ${subscriber === undefined ? 'former name is' : 'new name is'} missing.`,
      'For example: npx postbud rename postcards notifications --reason "…"',
    );
  if (reason === undefined) throw misused('--reason is missing.', 'For example: --reason "renamed in 2.4"');
  if (!isDry) requireConfirmable(call, NOTHING, ', or --dry-run to see what it would do');
  const { renameSubscriber } = await import('../../lib/console/subscribers/rename.ts');
  const parameters = { subscriber };
  const body = { to, reason, ...(topic !== undefined && { topic }) };
  const named = { to: 'the new name' };
  const preview = await bus.ask(renameSubscriber, { parameters, body: { ...body, dryRun: true }, named });
  if (!isDry || !isJson) terminal.err.write(wrapTo(terminal.err.columns, previewOf(preview.view)));
  if (isDry && isJson) writeJson(call, preview.json);
  if (isDry || preview.view.topics.length === 0) return EXIT.ok;
  const { left: count } = preview.view;
  const action = `Rename ${subscriber} to ${to}, and move ${quantity(count, 'delivery')}`;
  await confirm(call, { action, count, nothing: NOTHING });
  const total = { moved: 0, dismissed: 0 };
  for (;;) {
    const { json, view } = await bus.ask(renameSubscriber, { parameters, body });
    total.moved += view.moved;
    total.dismissed += view.dismissed;
    terminal.progress(view.left > 0 ? `${total.moved} moved, ${view.left} left` : null);
    // One request has a function's time; more than that takes several. What comes meanwhile takes another command.
    if (view.left > 0 && total.moved + total.dismissed < count) continue;
    if (isJson) writeJson(call, json);
    else terminal.out.write(wrapTo(terminal.out.columns, wordsOf(view, preview.view.topics, total)));
    return EXIT.ok;
  }
}

interface Renamed {
  readonly subscriber: string;
  readonly to: string;
  readonly left: number;
  readonly topics: readonly {
    readonly topic: string;
    readonly waiting: number;
    readonly deadLettered: number;
  }[];
}

function previewOf({ subscriber, topics }: Renamed): string {
  if (topics.length === 0) return `✓ Nothing is left of ${subscriber}.`;
  return topics
    .map(
      ({ topic, waiting, deadLettered }) =>
        `${topic}: ${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'}, ${quantity(deadLettered, 'dead letter')}`,
    )
    .join('\n');
}

function wordsOf(
  { subscriber, to, left }: Renamed,
  topics: Renamed['topics'],
  { moved, dismissed }: { readonly moved: number; readonly dismissed: number },
): string {
  const names = joinNames(topics.map(({ topic }) => topic));
  const twins =
    dismissed === 0
      ? ''
      : ` ${quantity(dismissed, 'delivery')} dismissed, because ${to} has the same events.`;
  const rest =
    left === 0
      ? ''
      : ` ${quantity(left, 'delivery')} ${left === 1 ? 'has' : 'have'} come for ${subscriber} meanwhile: run it again.`;
  return `✓ Renamed ${subscriber} to ${to} on ${names}: ${quantity(moved, 'delivery')} moved.${twins}${rest}`;
}
