import type { EventItem, EventList } from '../../lib/console/events/fields.ts';
import { itemList, namedItems } from '../../lib/console/events/doc.ts';
import { NO_NAMES } from '../../lib/console/kit/operator-names.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawDoc } from '../draw-doc.ts';
import { drawList } from '../draw.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { wrapTo } from '../text.ts';

export const command: Command = {
  name: 'why',
  summary: 'say in one sentence why an event is not delivered, and show its deliveries',
  usage: ['why <id>'],
  notes: [
    'The id is that of an event or of a delivery, or anything else that a search finds: a correlation or webhook id, a key, or an id in a payload. If several events have it and one of them is not delivered, the answer is for that one. Otherwise they are listed with their states, and the answer is for the newest.',
    'Ends with 1 if no event has the id. --json writes the one event as an object, and several as a list.',
  ],
  options: {},
  examples: [
    ['why 019a9bd2-7f3e-7a41-8c1e-2f6b0d9e4a77', 'one event'],
    ['why 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting', 'the event of a delivery'],
    ['why pi_3QxSolvik48213', 'the events of one payment intent'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal } = call;
  atMost(1, given);
  const [id] = given.positionals;
  if (id === undefined) {
    throw misused(
      'Which event? Give its id, or another id in it.',
      'For example: npx postbud why 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
    );
  }
  const list = await find(call, id);
  const { items: found, nextCursor } = list;
  const isMore = nextCursor !== null;
  const [newest] = found;
  if (newest === undefined) {
    throw new Failure(
      EXIT.failed,
      `No event found by '${id}'.`,
      'Ids are compared whole, with their case. Delivered events are pruned after 30 days.',
    );
  }
  const undelivered = isMore
    ? await findUndelivered(call, id)
    : found.filter(({ state }) => state !== 'delivered');
  const one = undelivered.length === 1 ? undelivered[0]! : newest;
  const isSingle = found.length === 1 || undelivered.length === 1;
  if (!isSingle && call.isJson) {
    writeJson(call, found);
    return EXIT.ok;
  }
  const { out } = terminal;
  const all = `${found.length}${isMore ? ' or more' : ''} events found by '${id}'`;
  if (!isSingle) out.write(`${all}, newest first.\n\n${drawList(out, itemList(list))}`);
  if (found.length > 1 && !call.isJson) {
    const which = isSingle ? `${all}. The one that is not delivered` : '\nThe newest';
    out.write(`${wrapTo(out.columns, `${which} is ${one.eventId}:`)}\n`);
  }
  const { showEvent } = await import('../../lib/console/event/views.ts');
  const { json, view } = await call.bus.ask(showEvent.route, { parameters: { eventId: one.eventId } });
  if (call.isJson) writeJson(call, json);
  else drawDoc(out, showEvent.says(view, NO_NAMES));
  return EXIT.ok;
}

/** More are not listed: who has so many looks for something else. */
const MOST_LISTED = 20;

/** @returns the event that has this very id, or all that a search finds, newest first. */
async function find({ bus }: Call, q: string): Promise<EventList> {
  const { listEvents } = await import('../../lib/console/events/views.ts');
  const { view } = await bus.ask(listEvents.route, {
    query: { q, limit: MOST_LISTED },
    named: { q: 'the id' },
  });
  const named = namedItems(view.items);
  // The id of an event is also its correlation id and the causation id of others.
  return named.length === 1 ? { ...view, items: [...named], nextCursor: null } : view;
}

/** Finds the undelivered events among more than are listed. @returns two at most of each state; none if there may be more. */
async function findUndelivered({ bus }: Call, q: string): Promise<readonly EventItem[]> {
  const { listEvents } = await import('../../lib/console/events/views.ts');
  const states = ['pending', 'failing', 'dead_lettered'] as const;
  const found = await Promise.all(
    states.map((state) => bus.ask(listEvents.route, { query: { q, state, limit: 2 } })),
  );
  const isWhole = found.every(({ view }) => view.items.length > 1 || view.nextCursor === null);
  return isWhole ? found.flatMap(({ view }) => view.items) : [];
}
