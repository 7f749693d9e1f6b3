import type { EventList } from '../../lib/console/events/fields.ts';
import { itemList, reachNotes } from '../../lib/console/events/lists.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT } from '../failure.ts';
import { followEvents } from '../follow-events.ts';
import { gather, moreWords, MOST } from '../gather.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

/** A screenful. */
const LISTED = 20;

export const command: Command = {
  name: 'events',
  summary: 'list events, or find them by any id or key in them',
  usage: ['events [<id or key>] [--topic <topic>] [--state <state>] [options]', 'events --follow [options]'],
  notes: [
    'Finds an event by its id or the first 8 digits of it, a delivery id, a correlation or causation id, an ordering key, a deduplication key, a provider’s webhook event id, or any id in its payload.',
    'The state is that of the event, the worst of its deliveries; with --subscriber, that of its delivery to the subscriber.',
    'With --follow, writes each outcome of a delivery as it comes, delivered, failing or dead-lettered, one a line, until Ctrl-C; first the newest ten.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only this topic' },
    state: { value: '<state>', help: 'only pending, failing, dead_lettered or delivered ones' },
    subscriber: { value: '<name>', help: 'only events for this subscriber' },
    since: { value: '<24h>', help: 'emitted within this time, such as 90m, 24h or 7d' },
    limit: { value: '<number>', help: `how many to list, newest first (default: ${LISTED})` },
    follow: { help: 'follow what becomes of deliveries, until Ctrl-C; with --json one object a line' },
  },
  examples: [
    ['events', 'the newest events'],
    ['events pi_3QxSolvik48213', 'all events of one payment intent'],
    [
      'events --topic payment.captured --subscriber accounting --state pending',
      'the payments that accounting has not received',
    ],
    ['events --follow --subscriber ledger --state failing', 'what the ledger fails with, as it fails'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given } = call;
  atMost(1, given);
  if (given.isSet('follow')) return await followEvents(call);
  const { json, view } = await list(call);
  if (call.isJson) writeJson(call, json);
  else write(view, call.terminal.out);
  return EXIT.ok;
}

async function list({ given, bus }: Call) {
  const limit = given.wholeNumber('limit', 1, MOST) ?? LISTED;
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
  const { items, nextCursor } = view;
  if (items.length === 0) pane.write(wrapTo(pane.columns, nothing(view)));
  else {
    pane.write(drawList(pane, itemList(view)));
    const more = nextCursor === null ? '' : moreWords('There are older ones', items.length);
    pane.write(
      `\n${pane.paint('dim', wrapTo(pane.columns, `${more}Details: npx postbud why ${items[0]!.eventId}. ${times()}`))}`,
    );
  }
  for (const { text } of reachNotes(view)) pane.write(wrapTo(pane.columns, text));
}

function nothing({ filters: { q, topic, state, subscriber, since } }: EventList): string {
  if (q !== null) return `No event found by '${q}'. Ids are compared whole, with their case.`;
  const isFiltered = [topic, state, subscriber, since].some((filter) => filter !== null);
  return isFiltered ? 'No events match.' : 'No events yet.';
}
