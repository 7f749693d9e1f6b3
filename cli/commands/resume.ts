import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON } from '../reason.ts';
import { AHEAD, isAhead, namedIn, subscriptionsOf } from '../subscriptions.ts';
import type { Subscription } from '../subscriptions.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
  name: 'resume',
  summary: 'end a pause',
  usage: ['resume <subscriber> [--topic <topic> [--ahead]] [--reason <text>]'],
  notes: [
    'A pause of one topic ends with --topic, a pause of all topics without. Exits with 1 while the subscriber is still paused.',
  ],
  options: { topic: { value: '<topic>', help: 'end the pause of this topic' }, ...AHEAD, ...REASON },
  examples: [
    ['resume ledger', 'ends its pause of all topics'],
    ['resume ledger --topic payment.captured', 'ends its pause of one topic'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  const named = namedIn(given, 'resume ledger');
  const { subscriber, topic } = named;
  const ahead = isAhead(given);
  const before = ahead ? [] : (await subscriptionsOf(call, named)).own;
  const { resumeSubscriber } = await import('../../lib/console/lanes/routes.ts');
  const body = { topic, reason: given.text('reason') };
  const { json } = await bus.ask(resumeSubscriber, { parameters: { subscriber }, body });
  const after = ahead ? [] : (await subscriptionsOf(call, named)).own;
  const left = pausesIn(after).filter(
    (pausedTopic) => topic === null || pausedTopic === null || pausedTopic === topic,
  );
  if (isJson) writeJson(call, json);
  else if (left.length > 0) {
    writeOutcome(
      call,
      false,
      `${subscriber} is still paused for ${joinNames(left.map((one) => one ?? 'all its topics'))}.`,
    );
    const [first] = left;
    const of = first === null ? '' : ` --topic ${first}`;
    terminal.out.write(
      wrapTo(terminal.out.columns, `To end that too: npx postbud resume ${subscriber}${of}`),
    );
  } else if (ahead) writeOutcome(call, true, `Resumed ${subscriber} for ${topic}.`);
  else writeOutcome(call, true, resumedWords(subscriber, topic, before, after));
  return left.length > 0 ? EXIT.failed : EXIT.ok;
}

/** The topics whose pauses hold something; null stands for a pause of all. */
function pausesIn(own: readonly Subscription[]): readonly (string | null)[] {
  return [...new Set(own.flatMap(({ pause }) => (pause === null ? [] : [pause.topic])))];
}

function resumedWords(
  subscriber: string,
  topic: string | null,
  before: readonly Subscription[],
  after: readonly Subscription[],
): string {
  const isOf = (one: Subscription) => topic === null || one.topic === topic;
  if (!before.filter(isOf).some(({ paused }) => paused)) return `${subscriber} was not paused.`;
  const waiting = after.filter(isOf).reduce((total, { pending, failing }) => total + pending + failing, 0);
  const flow =
    waiting === 0 ? 'Nothing has waited for it.' : `${quantity(waiting, 'delivery')} will follow, in order.`;
  return `Resumed ${subscriber} for ${topic ?? 'all its topics'}. ${flow}`;
}
