import { count } from '../../lib/console/kit/words.ts';
import { healthFacts, outageSentence } from '../../lib/console/subscribers/facts.ts';
import { spanWords } from '../../lib/console/subscribers/figures.ts';
import { actionList, valueList } from '../../lib/console/subscribers/lists.ts';
import type { SubscriberHealth } from '../../lib/console/subscribers/read.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawFacts, drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

export const command: Command = {
  name: 'health',
  summary: 'show how a subscriber did over time',
  usage: ['health <subscriber> [--topic <topic>] [--span <hours|days>]'],
  notes: [
    'Shows deliveries, failures, the age of the backlog and the median (p50) and 95th percentile (p95) of times, by the hour for 48 hours or by the day for 30 days, and what operators did meanwhile. Counts are approximate and a few seconds late; replays are counted apart.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic' },
    span: { value: '<hours|days>', help: 'the last 48 hours (default) or the last 30 days' },
  },
  examples: [
    ['health accounting', 'the last 48 hours, hour by hour'],
    ['health accounting --topic payment.captured --span days', 'one topic, day by day'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  if (subscriber === undefined)
    throw misused('Which subscriber?', 'For example: npx postbud health accounting');
  const { json, view } = await ask(call, subscriber);
  if (isJson) writeJson(call, json);
  else write(view, terminal.out);
  return EXIT.ok;
}

async function ask({ given, bus }: Call, subscriber: string) {
  const { showSubscriber } = await import('../../lib/console/subscribers/routes.ts');
  const topic = given.text('topic');
  const asked = { parameters: { subscriber }, query: { span: given.text('span') } };
  const all = await bus.ask(showSubscriber, asked);
  if (topic === undefined) return all;
  const { topics } = all.view;
  if (!topics.includes(topic)) {
    const advice = `npx postbud topics ${subscriber} --all lists its topics.`;
    throw unknownName(`topic of ${subscriber}`, topic, topics, advice);
  }
  return await bus.ask(showSubscriber, { ...asked, query: { ...asked.query, topic } });
}

function write(view: SubscriberHealth, pane: Pane): void {
  const { subscriber, topic, topics, span, actions } = view;
  const what = topic ?? `all its topics (${count(topics.length)})`;
  pane.write(wrapTo(pane.columns, `${subscriber}, ${what}, ${spanWords(span)}:\n`));
  const outage = outageSentence(view);
  if (outage !== null) {
    const words = `${outage.text} To probe now: npx postbud retry ${subscriber}`;
    pane.write(`${pane.paint('red', wrapTo(pane.columns, words))}\n`);
  }
  pane.write(drawFacts(pane, healthFacts(view)));
  const values = valueList(view);
  const hasValues = values.rows.length > 0;
  if (hasValues) pane.write(`\n${drawList(pane, values)}`);
  if (actions.length > 0) pane.write(`\nOperators’ actions:\n\n${drawList(pane, actionList(view))}`);
  const day = span === 'days' ? ' A day begins at midnight UTC.' : '';
  const quantiles = hasValues ? ' Of two times the first is p50, the second p95.' : '';
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${times()}${day}${quantiles}`))}`);
}
