import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { duplicatesWarning, standingWords } from '../../lib/console/subscribers/leaving-words.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, confirm } from '../confirm.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { carryOut, lostWords, titleOf, writeWarnings } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON, requireReason } from '../reason.ts';
import { inSteps } from '../steps.ts';
import { wrapTo } from '../text.ts';

const EXAMPLE = 'rename postcards notifications --reason "renamed in 2.4"';
const NOTHING = 'Nothing was renamed.';

export const command: Command = {
  name: 'rename',
  summary: 'hand what waits for a subscriber’s former name over to its new one',
  usage: [
    'rename <former name> <new name> [--topic <topic>] --reason <text> [options]',
    'rename <former name> <new name> [--topic <topic>] --dry-run',
  ],
  notes: [
    'What waits and what died goes to the new name, in order and before anything newer. What was delivered stays under the former name. Delivery ids change.',
    'Refused while the catalog of the server’s release lists the former name, and where it does not list the new one.',
    'First shows what it would move, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since, it moves nothing and exits with 1. Deliveries of events that the new name has already are not moved but dismissed: with --yes, only if --dismiss-duplicates agrees to that.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic; by default every topic' },
    'dismiss-duplicates': { help: 'dismiss deliveries of events that the new name has already' },
    'dry-run': { help: 'show the preview and stop' },
    ...REASON,
    ...YES,
  },
  examples: [
    [EXAMPLE, 'all its topics, after confirmation'],
    ['rename postcards notifications --dry-run', 'a preview only'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus } = call;
  const { subscriber, to, reason } = namesIn(call);
  const topic = given.text('topic');
  const parameters = { subscriber };
  const named = { to: 'the new name' };
  const { rename, showRenamePreview } = await import('../../lib/console/subscribers/rename.ts');
  const sum = { moved: 0, dismissed: 0 };
  let isLost = false;
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => bus.ask(showRenamePreview, { parameters, query: { to, topic }, named }),
    draw(view, pane) {
      const { write, paint, columns } = pane;
      if (view.topics.length === 0) return write(`✓ Nothing is left of ${subscriber}.`);
      write(paint('bold', titleOf(given, 'rename', `${subscriber} to ${to}`)));
      for (const one of view.topics) write(wrapTo(columns, `${one.topic}: ${standingWords(one)}`));
      writeWarnings(pane, [duplicatesWarning(view)]);
    },
    async confirm({ topics, left, duplicates }) {
      if (topics.length === 0) return;
      if (duplicates > 0 && given.isSet('yes') && !given.isSet('dismiss-duplicates'))
        throw new Failure(
          EXIT.failed,
          NOTHING,
          `Add --dismiss-duplicates to dismiss what ${to} has already.`,
        );
      const moves = `move ${quantity(left - duplicates, 'delivery')}`;
      const dismisses = duplicates === 0 ? '' : `, and dismiss ${quantity(duplicates, 'duplicate')}`;
      const action = `Rename ${subscriber} to ${to}, ${duplicates === 0 ? 'and ' : ''}${moves}${dismisses}`;
      await confirm(call, { action, count: left, nothing: NOTHING });
    },
    begin: async ({ duplicates, left: expectedCount }, isAgain) => {
      isLost = isAgain;
      return await inSteps(
        call,
        async (before) => {
          const isFirst = before === null && !isAgain;
          const how = { dismissDuplicates: duplicates > 0, ...(isFirst && { expectedCount }) };
          const done = await bus.ask(rename.route, {
            parameters,
            body: { to, topic, reason, ...how },
            named,
          });
          sum.moved += done.view.moved;
          sum.dismissed += done.view.dismissed;
          return done;
        },
        stepOf,
      );
    },
    tell({ left }, { topics }) {
      if (topics.length === 0) return;
      const names = joinNames(topics.map((one) => one.topic));
      const twins =
        sum.dismissed === 0
          ? ''
          : ` ${quantity(sum.dismissed, 'delivery')} dismissed, because ${to} has the same events.`;
      const have = left === 1 ? 'has' : 'have';
      const rest =
        left === 0
          ? ''
          : ` ${quantity(left, 'delivery')} ${have} come for ${subscriber} meanwhile: run it again.`;
      const moved = `Renamed ${subscriber} to ${to} on ${names}: ${quantity(sum.moved, 'delivery')} moved.`;
      writeOutcome(call, true, `${moved}${twins}${lostWords(isLost)}${rest}`);
    },
  });
}

/** @throws Failure for a missing name or reason. */
function namesIn({ given }: Call) {
  atMost(2, given);
  const [subscriber, to] = given.positionals;
  const advice = `For example: npx postbud ${EXAMPLE}`;
  if (subscriber === undefined) throw misused('The former name is missing.', advice);
  if (to === undefined) throw misused('The new name is missing.', advice);
  return { subscriber, to, reason: given.isSet('dry-run') ? '' : requireReason(given, EXAMPLE) };
}

function stepOf({
  moved,
  dismissed,
  left,
}: {
  readonly moved: number;
  readonly dismissed: number;
  readonly left: number;
}) {
  return { done: moved + dismissed, left };
}
