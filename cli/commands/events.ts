import type { EventItem, EventList } from '../../lib/console/events/read.ts';
import { statePhrase } from '../../lib/console/kit/document.ts';
import { timeText } from '../../lib/console/kit/instants.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { gather } from '../gather.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { TIMES } from '../times.ts';

/** A screenful. */
const LISTED = 20;

export const command: Command = {
  name: 'events',
  summary: 'list events, or find them by any id or key in them',
  usage: ['events [<id or key>] [--topic <topic>] [--state <state>] [options]'],
  notes: [
    'Finds an event by its id or the first 8 digits of it, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in its payload.',
    'The state is that of the event, the worst of its deliveries; with --subscriber, that of its delivery to the subscriber.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic' },
    state: { value: '<state>', help: 'only pending, failing, dead_lettered or delivered ones' },
    subscriber: { value: '<name>', help: 'only events for this subscriber' },
    since: { value: '<24h>', help: 'emitted within this time, such as 90m, 24h or 7d' },
    limit: { value: '<number>', help: `how many to list, newest first (default: ${LISTED})` },
  },
  examples: [
    ['events', 'the newest events'],
    ['events pi_3QxSolvik48213', 'all events of one payment intent'],
    [
      'events --topic payment.captured --subscriber accounting --state pending',
      'the payments that accounting has not received',
    ],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given } = call;
  atMost(1, given);
  const { json, view } = await list(call);
  if (call.isJson) writeJson(call, json);
  else write(view, call.terminal.out);
  return EXIT.ok;
}

async function list({ given, bus }: Call) {
  const limit = given.wholeNumber('limit', 1, 10_000) ?? LISTED;
  const query = {
    q: given.positionals[0],
    topic: given.text('topic'),
    state: given.text('state'),
    subscriber: given.text('subscriber'),
    since: given.text('since'),
  };
  const { listEvents } = await import('../../lib/console/events/routes.ts');
  return await gather(bus, listEvents, { limit, lists: ['items'], query, named: { q: 'the id or key' } });
}

function write(view: EventList, pane: Pane): void {
  const { items, filters, nextCursor } = view;
  if (items.length === 0) pane.write(wrapTo(pane.columns, nothing(view)));
  else {
    pane.write(itemTable(items, filters, view.generatedAt, pane));
    const more = nextCursor === null ? '' : `There are older ones: add --limit ${items.length * 5}. `;
    pane.write(
      `\n${pane.paint('dim', wrapTo(pane.columns, `${more}Details: npx postbud why ${items[0]!.eventId}. ${TIMES}`))}`,
    );
  }
  for (const note of notesOf(view)) pane.write(wrapTo(pane.columns, note));
}

function nothing({ filters: { q, topic, state, subscriber, since } }: EventList): string {
  if (q !== null) return `No event found by '${q}'. Ids are compared whole, with their case.`;
  const isFiltered = [topic, state, subscriber, since].some((filter) => filter !== null);
  return isFiltered ? 'No events match.' : 'No events yet.';
}

/** Says what a search leaves out. */
function notesOf({ search, generatedAt }: EventList): readonly string[] {
  if (search === null) return [];
  const { since, notSearched, includesPayloads } = search;
  return [
    ...(since === null
      ? []
      : [
          `The index has events since ${timeText(since, generatedAt)} and is working back. Older ones are found by their own id, or with --topic.`,
        ]),
    ...(notSearched === 0
      ? []
      : [`${quantity(notSearched, 'new event')} not in the index yet: try again in a minute.`]),
    ...(includesPayloads
      ? []
      : ['Payloads were not searched: only ids are looked for there, not words, dates or personal data.']),
  ];
}

function itemTable(
  items: readonly EventItem[],
  { subscriber }: EventList['filters'],
  now: string,
  pane: Pane,
): string {
  const columns = [
    { title: 'emitted' },
    { title: 'topic', isCut: true },
    { title: 'state' },
    { title: subscriber ?? '' },
    { title: 'about', isFlexible: true, leftOut: 'early' },
    { title: 'found by', isFlexible: true, leftOut: 'early' },
    { title: 'event', leftOut: 'late' },
  ] as const;
  return table(
    pane,
    columns,
    items.map((item) => [
      timeText(item.createdAt, now),
      item.topic,
      statePhrase(item.state),
      item.delivery === null ? '' : `${item.delivery.deliveryId} ${item.delivery.state}`,
      item.subject ?? '',
      item.foundBy.join(', '),
      item.eventId,
    ]),
  );
}
