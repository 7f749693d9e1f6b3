import { revealEvent, showEvent } from '../../lib/console/event/views.ts';
import { itemList, namedItems, listEvents } from '../../lib/console/events/views.ts';
import { NO_NAMES } from '../../lib/console/kit/document.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import { EXIT, Failure, misused, missing } from '../arguments.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawDoc, drawList } from '../draw.ts';
import { wrapTo } from '../terminal.ts';

export const command: Command = {
  name: 'why',
  summary: 'say in one sentence why an event is not delivered, and show its deliveries',
  usage: ['why <id> [--reveal <reason>]'],
  notes: [
    'The id is that of an event or of a delivery, or anything else that a search finds: a correlation or webhook id, a key, or an id in a payload. If several events have it, they are listed, and the answer is for the newest of them that is not delivered.',
    'Ends with 1 if no event has the id. npx postbud events <id> lists them alone.',
  ],
  options: {
    reveal: {
      value: '<reason>',
      help: 'show the personal data of the event; needs the scope event-bus:reveal, and is logged with your name and reason',
    },
  },
  examples: [
    ['why 019a9bd2-7f3e-7a41-8c1e-2f6b0d9e4a77', 'one event'],
    ['why 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting', 'the event of a delivery'],
    ['why pi_3QxSolvik48213', 'the events of one payment intent'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, isJson, bus, terminal } = call;
  const { out } = terminal;
  atMost(1, given);
  const [id] = given.positionals;
  if (id === undefined) throw missing('eventId', command.examples);
  const query = { q: id, limit: 100 };
  const { view: list } = await bus.ask(listEvents.route, { query, named: { q: 'the id' } });
  const named = namedItems(list.items);
  // The id of an event is also its correlation id and the causation id of others.
  const items = named.length === 1 ? [...named] : list.items;
  const undelivered = items.find(({ state }) => state !== 'delivered');
  const one = undelivered ?? items[0];
  if (one === undefined)
    throw new Failure(
      EXIT.failed,
      `No event found by '${id}'.`,
      'Ids are compared whole, with their case. Delivered events are pruned after 30 days.',
    );
  const reason = given.text('reveal');
  if (items.length > 1 && reason !== undefined)
    throw misused(`--reveal needs the id of one event: '${id}' finds ${items.length}.`);
  if (items.length > 1 && !isJson) {
    const all = `${quantity(items.length, 'event')} found by '${id}', newest first.`;
    const which = undelivered ? 'The newest that is not delivered' : 'The newest';
    out.write(`${all}\n\n${drawList(out, itemList({ ...list, items }))}\n`);
    out.write(`${wrapTo(out.columns, `${which} is ${one.eventId}:`)}\n`);
  }
  const asked = { parameters: { eventId: one.eventId } };
  const { json, view } =
    reason === undefined
      ? await bus.ask(showEvent.route, asked)
      : await bus.ask(revealEvent, { ...asked, body: { reason }, named: { reason: '--reveal' } });
  if (isJson) writeJson(call, json);
  else drawDoc(out, showEvent.says(view, NO_NAMES));
  if (reason !== undefined) terminal.err.write('The operator log has recorded your name and reason.');
  return EXIT.ok;
}
