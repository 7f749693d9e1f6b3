import { subscriptionList } from '../../lib/console/catalog/lists.ts';
import { phraseOf } from '../../lib/console/kit/document.ts';
import { ago } from '../../lib/console/kit/instants.ts';
import { count, percentage, quantity } from '../../lib/console/kit/words.ts';
import {
  filterTopics,
  needsAttention,
  sortTopics,
  subscribersToShow,
} from '../../lib/console/overview/attention.ts';
import type { Overview, TopicOverview } from '../../lib/console/overview/read.ts';
import { topicList } from '../../lib/console/overview/topic-table.ts';
import { relayTrouble } from '../../lib/console/overview/trouble.ts';
import { nearest } from '../../lib/platform/nearest.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import type { Failure } from '../failure.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

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
  const subscribersOf = isSingled ? (topic: TopicOverview) => topic.subscribers : subscribersToShow;
  if (shown.length > 0) out.write(`\n${drawList(out, topicList(shown, subscribersOf, view.generatedAt))}`);
  if (isSingled) {
    const subscriptions = await subscriptionTable(shown[0]!.topic, call);
    if (subscriptions !== null) out.write(`\n${subscriptions}`);
  }
  const quiet = text === '' ? quietWords(view, shown.length) : '';
  out.write(`\n${out.paint('dim', wrapTo(out.columns, `${quiet}${times()}`))}`);
  return EXIT.ok;
}

function isBusy(topic: TopicOverview): boolean {
  return needsAttention(topic) || topic.pending > 0;
}

/** Says whether a relay runs. */
function relayWords(view: Overview, { paint }: Pane): string {
  const trouble = relayTrouble(view);
  if (trouble === null)
    return `The relay is running, last run ${ago(view.relay.lastPassAt ?? view.generatedAt, view.generatedAt)}.`;
  const { tone, title, text } = trouble;
  return `${paint(tone === 'dead' ? 'red' : 'yellow', phraseOf(title).text)} ${text.text}`;
}

function totalsWords({ totals }: Overview): string {
  const { pending, failing, deadLettered, deliveredLast24h, replaysLast24h, deliveredShareLast24h } = totals;
  const events =
    pending + failing + deadLettered === 0
      ? 'Nothing is pending, failing or dead-lettered.'
      : `${quantity(pending, 'event')} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered.`;
  if (deliveredShareLast24h === null) return events;
  const delivered = Math.max(0, deliveredLast24h - replaysLast24h.delivered);
  return `${events} ${count(delivered)} delivered in 24 hours, ${percentage(deliveredShareLast24h)} of those that ended.`;
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

/** Shows where and how a topic's subscribers are handled. @returns null for a topic that the catalog does not list. */
async function subscriptionTable(topic: string, { bus, terminal }: Call): Promise<string | null> {
  const { listCatalog } = await import('../../lib/console/catalog/views.ts');
  const { view } = await bus.ask(listCatalog.route);
  const listed = view.topics.find((one) => one.topic === topic);
  return listed ? drawList(terminal.out, subscriptionList(listed)) : null;
}
