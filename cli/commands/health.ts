import { silenceWords } from '../../lib/console/incidents/outage.ts';
import { timeText, until } from '../../lib/console/kit/instants.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import {
  ageWords,
  intervalWords,
  isEmpty,
  shareWords,
  timesWords,
} from '../../lib/console/subscribers/figures.ts';
import type { HealthAction, HealthInterval, SubscriberHealth } from '../../lib/console/subscribers/read.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT, misused } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import { facts, table } from '../table.ts';
import type { Cell } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { TIMES } from '../times.ts';

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
  const { subscriber, topic, topics, span, intervals } = view;
  const what = topic ?? `all its topics (${count(topics.length)})`;
  pane.write(
    wrapTo(pane.columns, `${subscriber}, ${what}, the last ${span === 'hours' ? '48 hours' : '30 days'}:\n`),
  );
  if (view.outage !== null) pane.write(`${pane.paint('red', wrapTo(pane.columns, outageWords(view)))}\n`);
  pane.write(figures(view, pane));
  const shown = intervals.filter((interval) => !isEmpty(interval)).toReversed();
  if (shown.length > 0) pane.write(`\n${intervalTable(view, shown, pane)}`);
  if (view.actions.length > 0) pane.write(`\nOperators’ actions:\n\n${actionTable(view, pane)}`);
  const day = span === 'days' ? ' A day begins at midnight UTC.' : '';
  const quantiles = shown.length > 0 ? ' Of two times the first is p50, the second p95.' : '';
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${TIMES}${day}${quantiles}`))}`);
}

/** Says since when nobody answers, and what waits. */
function outageWords({ subscriber, outage, waiting, generatedAt: now }: SubscriberHealth): string {
  const { kind, since, probes, nextProbeAt } = outage!;
  const probed = probes === 0 ? '' : ` ${quantity(probes, 'probe')} without an answer.`;
  const wait = `${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'}`;
  return `${subscriber} ${silenceWords(kind)} since ${timeText(since, now)}: ${wait}.${probed} Next probe ${until(nextProbeAt, now)}; to probe now: npx postbud retry ${subscriber}`;
}

function figures({ whole }: SubscriberHealth, pane: Pane): string {
  const { delivered, deadLettered, failedAttempts, replays } = whole;
  return facts(pane, [
    ['Delivered', `${count(delivered)}${shareWords(delivered, deadLettered)}`],
    ['Dead letters', number(deadLettered, 'red')],
    ['Failed attempts', number(failedAttempts, 'yellow')],
    [
      'Replays',
      replays.delivered + replays.deadLettered === 0
        ? null
        : `${count(replays.delivered)} delivered, ${count(replays.deadLettered)} dead-lettered again`,
    ],
    ['Commit to delivered, p50 · p95', timesWords(whole.deliveredInMs)],
    ['Handler, p50 · p95', timesWords(whole.handlerMs)],
    ['Oldest in the backlog', ageWords(whole.backlogAgeSeconds)],
  ]);
}

function intervalTable({ span }: SubscriberHealth, shown: readonly HealthInterval[], pane: Pane): string {
  const columns = [
    { title: span === 'hours' ? 'hour' : 'day' },
    { title: 'delivered', align: 'right' },
    { title: 'failed', align: 'right' },
    { title: 'dead', align: 'right' },
    { title: 'replayed', align: 'right', leftOut: 'early' },
    { title: 'backlog', align: 'right' },
    { title: 'delivered in', align: 'right' },
    { title: 'handler', align: 'right' },
  ] as const;
  return table(
    pane,
    columns,
    shown.map((interval): Cell[] => [
      intervalWords(interval.startsAt, span),
      number(interval.delivered, null),
      number(interval.failedAttempts, 'yellow'),
      number(interval.deadLettered + interval.replays.deadLettered, 'red'),
      interval.replays.delivered === 0 ? '' : count(interval.replays.delivered),
      interval.backlogAgeSeconds === null ? '' : ageWords(interval.backlogAgeSeconds),
      timesWords(interval.deliveredInMs),
      timesWords(interval.handlerMs),
    ]),
  );
}

function actionTable({ actions, generatedAt }: SubscriberHealth, pane: Pane): string {
  const columns = [
    { title: 'when' },
    { title: 'what' },
    { title: 'on', isCut: true },
    { title: 'who' },
    { title: 'why', isFlexible: true },
  ] as const;
  return table(
    pane,
    columns,
    actions.map((acted) => [
      timeText(acted.at, generatedAt),
      acted.action.replaceAll('_', ' '),
      onWords(acted),
      acted.operator,
      acted.reason ?? '',
    ]),
  );
}

function onWords({ topic, deliveryId, replayId }: HealthAction): string {
  if (deliveryId !== null) return deliveryId;
  return topic ?? (replayId === null ? 'all its topics' : 'chosen deliveries');
}

function number(value: number, style: 'yellow' | 'red' | null): Cell {
  if (value === 0) return { text: '0', style: 'dim' };
  return style === null ? count(value) : { text: count(value), style };
}
