import { silenceWords } from '../../lib/console/incidents/outage.ts';
import { age, ago, until, timeText } from '../../lib/console/kit/instants.ts';
import { placeWords, uncommonOptions, waitingWords } from '../../lib/console/kit/subscription.ts';
import { count, percentage, quantity, quantityOfLanes } from '../../lib/console/kit/words.ts';
import {
  filterTopics,
  needsAttention,
  sortTopics,
  subscribersToShow,
} from '../../lib/console/overview/attention.ts';
import type { Overview, SubscriberOverview, TopicOverview } from '../../lib/console/overview/read.ts';
import { nearest } from '../../lib/platform/nearest.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT, misused } from '../failure.ts';
import type { Failure } from '../failure.ts';
import { table } from '../table.ts';
import type { Cell } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { TIMES } from '../times.ts';

export const command: Command = {
  name: 'topics',
  summary: 'show pending, failing and dead-lettered events by topic',
  usage: ['topics [text] [--all]'],
  notes: [
    'Shows the topics that have pending events or need attention, the worst first. With a text, shows the topics whose name, producer or subscribers contain it. A single match shows all its subscribers, where each is handled, and the options that differ from the defaults.',
    'A topic counts events, each in the worst state of its deliveries. A subscriber counts its deliveries.',
  ],
  options: { all: { help: 'include quiet topics' } },
  examples: [
    ['topics', 'the topics that need attention'],
    ['topics payment', 'the topics with payment in a name'],
    ['topics --json | jq .totals', 'the totals, for a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  const text = given.positionals.join(' ');
  const { showOverview } = await import('../../lib/console/overview/routes.ts');
  const { json, view } = await bus.ask(showOverview);
  const found = sortTopics(filterTopics(view.topics, text), 'blocked');
  if (found.length === 0 && text !== '') throw nothingFound(text, view.topics);
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const isWhole = given.isSet('all') || text !== '';
  const shown = isWhole ? found : found.filter(isBusy);
  const isSingled = text !== '' && shown.length === 1;
  const { out } = terminal;
  out.write(wrapTo(out.columns, `${relayWords(view, out)} ${totalsWords(view)}`));
  if (view.oldestSnapshot !== null)
    out.write(`\n${out.paint('yellow', wrapTo(out.columns, view.oldestSnapshot.text))}`);
  if (shown.length > 0) out.write(`\n${topicTable(shown, view.generatedAt, isSingled, out)}`);
  if (isSingled) {
    const subscriptions = await subscriptionTable(shown[0]!.topic, call);
    if (subscriptions !== null) out.write(`\n${subscriptions}`);
  }
  const quiet = text === '' ? quietWords(view, shown.length) : '';
  out.write(`\n${out.paint('dim', wrapTo(out.columns, `${quiet}${TIMES}`))}`);
  return EXIT.ok;
}

function isBusy(topic: TopicOverview): boolean {
  return needsAttention(topic) || topic.pending > 0;
}

/** Says whether a relay runs. */
function relayWords(
  { relay, generatedAt }: Pick<Overview, 'relay' | 'generatedAt'>,
  { paint }: Pane,
): string {
  const { state, lastPassAt, runsHere } = relay;
  if (!runsHere) {
    const last =
      lastPassAt === null
        ? 'no relay has ever run on its database'
        : `another relay last ran ${ago(lastPassAt, generatedAt)}`;
    return `${paint('yellow', 'This deployment does not relay:')} ${last}. Set RELAY=on to change that.`;
  }
  if (state === 'never_run' || lastPassAt === null)
    return `${paint('red', 'The relay has never run:')} events are saved, but not delivered.`;
  if (state === 'running') return `The relay is running, last run ${ago(lastPassAt, generatedAt)}.`;
  const since = paint('red', `The relay has not run since ${timeText(lastPassAt, generatedAt)}:`);
  return `${since} events are saved, but not delivered.`;
}

function totalsWords({ totals }: Overview): string {
  const { pending, failing, deadLettered, deliveredLast24h, replaysLast24h, deliveredShareLast24h } = totals;
  const events =
    pending + failing + deadLettered === 0
      ? 'Nothing is pending, failing or dead-lettered.'
      : `${quantity(pending, 'event')} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered.`;
  if (deliveredShareLast24h === null) return events;
  const delivered = Math.max(0, deliveredLast24h - replaysLast24h.delivered);
  return `${events} ${quantity(delivered, 'delivery')} in 24 hours, ${percentage(deliveredShareLast24h)} of those that ended.`;
}

function quietWords({ topics: all }: Overview, shown: number): string {
  const rest = all.length - shown;
  if (rest === 0) return '';
  return `${quantity(rest, 'quiet topic')}: add --all to show ${rest === 1 ? 'it' : 'them'}. `;
}

function nothingFound(text: string, all: readonly TopicOverview[]): Failure {
  const names = all.flatMap(({ topic, subscribers }) => [topic, ...subscribers.map((one) => one.subscriber)]);
  const meant = nearest(text, names);
  const none = `No topic has '${text}' in its name, producer or subscribers.`;
  return misused(
    meant === null ? none : `${none} Did you mean '${meant}'?`,
    'npx postbud topics --all lists the topics.',
  );
}

function topicTable(
  rows: readonly TopicOverview[],
  now: string,
  withSubscribers: boolean,
  pane: Pane,
): string {
  const columns = [
    { title: 'topic, subscriber', isCut: true },
    { title: 'pending', align: 'right' },
    { title: 'failing', align: 'right' },
    { title: 'dead', align: 'right' },
    { title: 'oldest due', align: 'right', leftOut: 'late' },
    { title: 'next retry', leftOut: 'late' },
    { title: '', isFlexible: true, leftOut: 'late' },
  ] as const;
  const cells = rows.flatMap((topic) => [
    [topic.topic, ...numbers(topic, now), topicNote(topic, now)],
    ...(withSubscribers ? topic.subscribers : subscribersToShow(topic)).map((one): Cell[] => [
      `  ${one.subscriber}`,
      ...numbers(one, now),
      subscriberNote(one, now),
    ]),
  ]);
  return table(pane, columns, cells);
}

/** Shows where and how a topic's subscribers are handled. @returns null for a topic that the catalog does not list. */
async function subscriptionTable(topic: string, { bus, terminal }: Call): Promise<string | null> {
  const { showCatalog } = await import('../../lib/console/catalog/routes.ts');
  const { view } = await bus.ask(showCatalog);
  const listed = view.topics.find((one) => one.topic === topic);
  if (!listed) return null;
  const columns = [
    { title: 'subscriber' },
    { title: 'runs' },
    { title: 'options', isFlexible: true },
  ] as const;
  const rows = listed.subscribers.map((one): Cell[] => [
    one.subscriber,
    one.attached ? placeWords(one.place) : { text: placeWords(one.place), style: 'dim' },
    uncommonOptions(one).join(', ') || { text: one.attached ? 'defaults' : waitingWords(one), style: 'dim' },
  ]);
  return table(terminal.out, columns, rows);
}

function numbers(row: TopicOverview | SubscriberOverview, now: string): readonly Cell[] {
  const { pending, failing, deadLettered, oldestDueAgeSeconds, nextRetryAt } = row;
  return [
    number(pending, null),
    number(failing, 'yellow'),
    number(deadLettered, 'red'),
    oldestDueAgeSeconds === null ? '' : age(oldestDueAgeSeconds),
    nextRetryAt === null ? '' : until(nextRetryAt, now),
  ];
}

function number(value: number, style: 'yellow' | 'red' | null): Cell {
  if (value === 0) return { text: '0', style: 'dim' };
  return style === null ? count(value) : { text: count(value), style };
}

function topicNote({ heldBackSince, heldBackBy, inCatalog }: TopicOverview, now: string): Cell {
  if (!inCatalog) return { text: NOT_IN_CATALOG, style: 'yellow' };
  if (heldBackSince === null) return '';
  const by =
    heldBackBy === null
      ? 'an open transaction'
      : `the prepared transaction ${heldBackBy.gid} of ${heldBackBy.owner}`;
  return { text: `held back by ${by} since ${timeText(heldBackSince, now)}`, style: 'yellow' };
}

const NOT_IN_CATALOG = 'not in the catalog of this release';

function subscriberNote(one: SubscriberOverview, now: string): Cell {
  const { attached, pause, outage, haltedLanes, inCatalog, neededVersion } = one;
  if (pause) {
    const { pausedBy, pausedAt, reason } = pause;
    return { text: `paused by ${pausedBy} since ${timeText(pausedAt, now)}: ${reason}`, style: 'yellow' };
  }
  if (outage) {
    const { kind, since, nextProbeAt } = outage;
    const next = `next probe ${until(nextProbeAt, now)}`;
    return { text: `${silenceWords(kind)} since ${timeText(since, now)}, ${next}`, style: 'red' };
  }
  if (haltedLanes > 0)
    return { text: `${quantityOfLanes(haltedLanes)} halted by a dead letter`, style: 'red' };
  if (!inCatalog) return { text: NOT_IN_CATALOG, style: 'yellow' };
  if (neededVersion !== null)
    return { text: `waits for a release with payload version ${neededVersion}`, style: 'yellow' };
  return attached ? '' : { text: 'not attached', style: 'dim' };
}
