import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { confirm, requireConfirmable, YES } from '../confirm.ts';
import { EXIT, misused } from '../failure.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
  name: 'retire',
  summary: 'retire a subscriber that the catalog no longer lists',
  usage: ['retire <subscriber> [--topic <topic>] --reason <text> [--yes]'],
  notes: [
    'Dismisses what waits for it and what died. Afterwards the subscription shows up nowhere. Refused while the catalog of the server’s release lists it.',
    'Asks for confirmation first. Without a terminal it needs --yes.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic; by default every topic' },
    reason: { value: '<text>', help: 'recorded in the operator log' },
    ...YES,
  },
  examples: [['retire postcards --reason "postcards are history"', 'all its topics, after confirmation']],
  run,
};

const NOTHING = 'Nothing was retired.';

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  const reason = given.text('reason');
  const topic = given.text('topic');
  if (subscriber === undefined)
    throw misused('The subscriber is missing.', 'For example: npx postbud retire postcards --reason "…"');
  if (reason === undefined)
    throw misused('--reason is missing.', 'For example: --reason "postcards are history"');
  requireConfirmable(call, NOTHING);
  const from = topic === undefined ? 'all its topics' : topic;
  const action = `Retire ${subscriber} from ${from}, and dismiss all that waits for it`;
  await confirm(call, { action, count: 1, nothing: NOTHING });
  const { retireSubscriber } = await import('../../lib/console/incidents/routes.ts');
  let dismissed = 0;
  for (;;) {
    const { json, view } = await bus.ask(retireSubscriber, {
      parameters: { subscriber },
      body: { reason, ...(topic !== undefined && { topic }) },
    });
    dismissed += view.dismissed;
    terminal.progress(view.left > 0 ? `${dismissed} dismissed, ${view.left} left` : null);
    if (view.left > 0 && view.dismissed > 0) continue;
    if (isJson) writeJson(call, json);
    else terminal.out.write(wrapTo(terminal.out.columns, wordsOf(subscriber, dismissed, view)));
    return EXIT.ok;
  }
}

function wordsOf(
  subscriber: string,
  dismissed: number,
  { topics, left }: { readonly topics: readonly string[]; readonly left: number },
): string {
  if (topics.length === 0) return `✓ Nothing is left of ${subscriber}.`;
  const rest =
    left === 0 ? '' : ` ${quantity(left, 'event')} not fanned out yet: run it again in a few seconds.`;
  return `✓ Retired ${subscriber} from ${joinNames(topics)}: ${quantity(dismissed, 'delivery')} dismissed.${rest}`;
}
