import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { standingWords } from '../../lib/console/subscribers/leaving-words.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, confirm } from '../confirm.ts';
import { misused } from '../failure.ts';
import { carryOut, lostWords, titleOf } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON, requireReason } from '../reason.ts';
import { wrapTo } from '../text.ts';

const EXAMPLE = 'retire postcards --reason "postcards are history"';
const NOTHING = 'Nothing was retired.';

export const command: Command = {
  name: 'retire',
  summary: 'retire a subscriber that the catalog no longer lists',
  usage: [
    'retire <subscriber> [--topic <topic>] --reason <text> [--yes]',
    'retire <subscriber> [--topic <topic>] --dry-run',
  ],
  notes: [
    'Dismisses what waits for it and what died, and deletes what is recorded of its deliveries. Afterwards the subscription shows up nowhere but in the operator log. Refused while the catalog of the server’s release lists it.',
    'First shows what it would dismiss, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since, it dismisses nothing and exits with 1.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic; by default every topic' },
    'dry-run': { help: 'show the preview and stop' },
    ...REASON,
    ...YES,
  },
  examples: [
    [EXAMPLE, 'all its topics, after confirmation'],
    ['retire postcards --dry-run', 'a preview only'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  if (subscriber === undefined)
    throw misused('The subscriber is missing.', `For example: npx postbud ${EXAMPLE}`);
  const reason = given.isSet('dry-run') ? '' : requireReason(given, EXAMPLE);
  const topic = given.text('topic');
  const parameters = { subscriber };
  const { retire, showRetirePreview } = await import('../../lib/console/subscribers/retire.ts');
  let isLost = false;
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => bus.ask(showRetirePreview, { parameters, query: { topic } }),
    draw({ topics }, { columns, paint, write }) {
      if (topics.length === 0) return write(`✓ No deliveries are left of ${subscriber}.`);
      write(paint('bold', titleOf(given, 'retire', subscriber)));
      for (const one of topics) write(wrapTo(columns, `${one.topic}: ${standingWords(one)}`));
    },
    async confirm({ topics, matched: count }) {
      const from = joinNames(topics.map((one) => one.topic));
      const action = `Retire ${subscriber} from ${from}, and dismiss ${quantity(count, 'delivery')}`;
      if (topics.length > 0) await confirm(call, { action, count, nothing: NOTHING });
    },
    begin: async ({ matched: expectedCount }, isAgain) => {
      isLost = isAgain;
      const body = { topic, reason, ...(!isAgain && { expectedCount }) };
      return await bus.ask(retire.route, { parameters, body });
    },
    tell(view, { topics }) {
      if (!('dismissed' in view) || topics.length === 0) return;
      const from = joinNames(topics.map((one) => one.topic));
      const done = `Retired ${subscriber} from ${from}: ${quantity(view.dismissed, 'delivery')} dismissed.`;
      writeOutcome(call, true, `${done}${lostWords(isLost)}`);
    },
  });
}
