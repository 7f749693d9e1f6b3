import { heldLaneList } from '../../lib/console/held-lanes/block.ts';
import { pauseSentence } from '../../lib/console/kit/pauses.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import { heldOf, outageSentence, standingFacts } from '../../lib/console/subscribers/facts.ts';
import type { SubscriberHealth } from '../../lib/console/subscribers/read.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawFacts, drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import { writeItem } from '../outcome.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

const EXAMPLE = 'subscriber ledger';

export const command: Command = {
  name: 'subscriber',
  summary: 'show how a subscriber is, and what can be done',
  usage: ['subscriber <name>'],
  notes: [
    'Shows where it runs, its state, who paused it and why, what waits, its last delivery, its last failure in its own words, and the commands that apply to it. npx postbud health <name> shows how it did over time.',
  ],
  options: {},
  examples: [
    [EXAMPLE, 'the ledger as it is now'],
    [`${EXAMPLE} --json | jq -r '.items[0].state'`, 'its state in a word, for a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  if (subscriber === undefined)
    throw misused('The subscriber is missing.', `For example: npx postbud ${EXAMPLE}`);
  const { showSubscriber } = await import('../../lib/console/subscribers/routes.ts');
  const { json, view } = await bus.ask(showSubscriber, { parameters: { subscriber } });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  const [one] = view.items;
  out.write(drawFacts(out, [['Subscriber', subscriber], ...standingFacts(view)]));
  const held = one.pauses.map((pause) => pauseSentence({ subscriber, ...pause }, view.generatedAt));
  const silence = outageSentence(view);
  for (const { text } of [...held, ...(silence ? [silence] : [])]) writeItem(out, 'doubtful', text);
  for (const { sentence, state } of view.incidents)
    writeItem(out, state === 'happening' ? 'bad' : 'doubtful', sentence);
  if (view.heldLanes.length > 0) out.write(`\n${drawList(out, heldLaneList(heldOf(view)))}`);
  const advice = [...adviceOf(view), times()].map((line) => wrapTo(out.columns, line)).join('\n');
  out.write(`\n${out.paint('dim', advice)}`);
  return EXIT.ok;
}

/** Names the commands that apply to it now. */
function adviceOf({
  subscriber,
  items: [one],
  incidents,
  heldLanes,
  unlisted,
  gaps,
}: SubscriberHealth): string[] {
  const happening = incidents.find(({ state, topic }) => state === 'happening' && topic !== null);
  const owed = incidents.find(({ owed: letters }) => letters > 0);
  const [left] = unlisted;
  const [gap] = gaps;
  const isPaused = one.pauses.some(({ topic }) => topic === null);
  const commands: readonly (readonly [why: string, line: string] | false | null | undefined)[] = [
    ...one.pauses.map(({ topic }) => ['To resume it', `resume ${subscriber}${of(topic)}`] as const),
    one.outage && ['To probe it now', `retry ${subscriber} --wait`],
    heldLanes.length > 0 &&
      !one.outage && ['Is it well? To try one delivery, at no cost', `probe ${subscriber} --wait`],
    happening && ['When it is fixed', `retry ${happening.incidentId} --wait`],
    owed && [`To replay ${quantity(owed.owed, 'dead letter')}`, `replay --incident ${owed.incidentId}`],
    left && ['If nobody needs it any more', `retire ${subscriber}${of(left.topic)} --reason <text>`],
    gap && ['To deliver older events', `backfill ${subscriber}${of(gap.topic)} --since 30d`],
    one.place !== 'unattached' && !isPaused && ['To send it a test event', `smoke ${subscriber}`],
    one.inCatalog && !isPaused && ['To pause it', `pause ${subscriber} --reason <text>`],
    ['How it did over time', `health ${subscriber}`],
  ];
  return commands.flatMap((next) => (next ? [`${next[0]}: npx postbud ${next[1]}`] : []));
}

function of(topic: string | null): string {
  return topic === null ? '' : ` --topic ${topic}`;
}
