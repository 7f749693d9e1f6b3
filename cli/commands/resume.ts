import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { resume } from '../../lib/console/lanes/actions.ts';
import { actionCommand } from '../action.ts';
import { AHEAD, subscriptionsActedOn } from '../subscriptions.ts';
import type { Subscription } from '../subscriptions.ts';

export const command = actionCommand(resume, {
  summary: 'end a pause',
  usage: ['resume <subscriber> [--topic <topic> [--ahead]] [--reason <text>]'],
  notes: [
    'A pause of one topic ends with --topic, a pause of all topics without. Exits with 1 while the subscriber is still paused.',
  ],
  options: { topic: { value: '<topic>', help: 'end the pause of this topic' }, ...AHEAD },
  examples: [
    ['resume ledger', 'ends its pause of all topics'],
    ['resume ledger --topic payment.captured', 'ends its pause of one topic'],
  ],
  why: { option: 'reason', example: 'it is back', isOptional: true },
  body: (given) => ({ topic: given.text('topic') ?? null }),
  readFirst: subscriptionsActedOn,
  async done({ subscriber, topic }, { call, asked, before }) {
    const { own } = await subscriptionsActedOn(call, asked);
    const left = pausesIn(own).filter((paused) => topic === null || paused === null || paused === topic);
    const [first] = left;
    if (first !== undefined)
      return {
        isGood: false,
        words: `${subscriber} is still paused for ${joinNames(left.map((one) => one ?? 'all its topics'))}.`,
        next: `To end that too: npx postbud resume ${subscriber}${first === null ? '' : ` --topic ${first}`}`,
      };
    if (call.given.isSet('ahead')) return `Resumed ${subscriber} for ${topic!}.`;
    return resumedWords(subscriber, topic, before.own, own);
  },
});

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
