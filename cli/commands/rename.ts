import { joinNames } from '../../lib/console/kit/words.ts';
import { standingWords } from '../../lib/console/subscribers/leaving-words.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, confirm } from '../confirm.ts';
import { misused } from '../failure.ts';
import { carryOut, titleOf } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON, requireReason } from '../reason.ts';
import { wrapTo } from '../text.ts';

const EXAMPLE = 'rename postcards letters --reason "letters from 2.4 on"';
const NOTHING = 'Nothing was renamed.';

export const command: Command = {
  name: 'rename',
  summary: 'rename a subscriber before the release that lists its new name',
  usage: [
    'rename <former name> <new name> [--topic <topic>] --reason <text> [--yes]',
    'rename <former name> <new name> [--topic <topic>] --dry-run',
  ],
  notes: [
    'Its lanes with all their deliveries, its pauses, errors and incidents are the new name’s. Nothing of them is handed over until a release runs that lists it: deploy that right after. Events that the former release emits meanwhile are for the former name: backfill them for the new one, then retire the former one.',
    'Refused where the new name is another subscriber’s. First shows what it would rename, then asks for confirmation. Without a terminal it needs --yes.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic; by default every topic' },
    'dry-run': { help: 'show the preview and stop' },
    ...REASON,
    ...YES,
  },
  examples: [
    [EXAMPLE, 'all its topics, after confirmation'],
    ['rename postcards letters --dry-run', 'a preview only'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus } = call;
  atMost(2, given);
  const [subscriber, to] = given.positionals;
  const advice = `For example: npx postbud ${EXAMPLE}`;
  if (subscriber === undefined) throw misused('The former name is missing.', advice);
  if (to === undefined) throw misused('The new name is missing.', advice);
  const reason = given.isSet('dry-run') ? 'a preview' : requireReason(given, EXAMPLE);
  const { rename } = await import('../../lib/console/subscribers/rename.ts');
  const ask = (dryRun: boolean) =>
    bus.ask(rename.route, {
      parameters: { subscriber },
      body: { to, topic: given.text('topic'), reason, dryRun },
      named: { to: 'the new name' },
    });
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => ask(true),
    draw({ topics }, { write, paint, columns }) {
      if (topics.length === 0) return write(`✓ Nothing is left of ${subscriber}.`);
      write(paint('bold', titleOf(given, 'rename', `${subscriber} to ${to}`)));
      for (const one of topics) write(wrapTo(columns, `${one.topic}: ${standingWords(one)}`));
    },
    async confirm({ topics }) {
      if (topics.length === 0) return;
      const on = joinNames(topics.map(({ topic }) => topic));
      const count = topics.reduce((sum, { waiting, deadLettered }) => sum + waiting + deadLettered, 0);
      await confirm(call, { action: `Rename ${subscriber} to ${to} on ${on}`, count, nothing: NOTHING });
    },
    begin: () => ask(false),
    tell(_, { topics }) {
      if (topics.length === 0) return;
      const on = joinNames(topics.map(({ topic }) => topic));
      writeOutcome(
        call,
        true,
        `Renamed ${subscriber} to ${to} on ${on}. Deploy the release that lists ${to} now.`,
      );
    },
  });
}
