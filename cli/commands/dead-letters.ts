import type { DeadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import { errorList, letterList } from '../../lib/console/dead-letters/lists.ts';
import { until } from '../../lib/console/kit/instants.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { showDeadLetter } from '../dead-letter.ts';
import { drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import { gather, MOST } from '../gather.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

/** A screenful. */
const LISTED = 20;

const FILTERS = {
  topic: { value: '<topic>', help: 'only this topic' },
  subscriber: { value: '<name>', help: 'only this subscriber' },
  since: { value: '<24h>', help: 'dead-lettered within this time, such as 90m, 24h or 7d' },
  until: {
    value: '<1h>',
    help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
  },
  group: { value: '<group>', help: 'only one group of equal errors, by its id in --json' },
  search: { value: '<text>', help: 'only errors that contain this text, or the event with this id' },
} as const;

export const command: Command = {
  name: 'dead-letters',
  summary: 'list dead letters, or show one with its attempts',
  usage: [
    'dead-letters [--topic <topic>] [--subscriber <name>] [options]',
    'dead-letters <deliveryId> [--reveal <reason>]',
  ],
  notes: ['A dead letter is a delivery that was given up. Personal data in payloads and errors is hidden.'],
  options: {
    ...FILTERS,
    limit: { value: '<number>', help: `how many to list, newest first (default: ${LISTED})` },
    reveal: {
      value: '<reason>',
      help: 'show the personal data of one delivery; needs the scope event-bus:reveal, and is logged with your name and reason',
    },
  },
  examples: [
    ['dead-letters', 'the newest dead letters and their errors'],
    ['dead-letters --topic payment.captured --since 24h', 'those of one topic in the last 24 hours'],
    [
      'dead-letters 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
      'one delivery with its attempts and payload',
    ],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given } = call;
  atMost(1, given);
  const [deliveryId] = given.positionals;
  const filters = [...Object.keys(FILTERS), 'limit'].filter((name) => given.isSet(name));
  if (deliveryId !== undefined) {
    if (filters.length > 0)
      throw misused(`--${filters[0]} filters the list; it can’t be used with a delivery id.`);
    return await showDeadLetter(call, deliveryId);
  }
  if (given.isSet('reveal'))
    throw misused(
      '--reveal needs a delivery id, for example: dead-letters 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reveal "a support case"',
    );
  const { json, view } = await list(call);
  if (call.isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = call.terminal;
  const isFiltered = filters.some((name) => name !== 'limit');
  write(view, isFiltered, out);
  return EXIT.ok;
}

async function list({ given, bus }: Call) {
  const limit = given.wholeNumber('limit', 1, MOST) ?? LISTED;
  const query = {
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
    since: given.text('since'),
    until: given.text('until'),
    group: given.text('group'),
    q: given.text('search'),
  };
  const { listDeadLetters } = await import('../../lib/console/dead-letters/routes.ts');
  return await gather(bus, listDeadLetters, { limit, lists: ['items'], query, named: { q: '--search' } });
}

function write(view: DeadLetterPage, isFiltered: boolean, pane: Pane): void {
  const { items, groups, total, totalInAll, generatedAt: now } = view;
  if (items.length === 0) {
    pane.write(nothing(view, isFiltered));
    return;
  }
  const of = total === totalInAll ? '' : ` of ${count(totalInAll)}`;
  const errors =
    groups.length === 1 ? 'all with the same error' : `with ${count(groups.length)} different errors`;
  pane.write(`${quantity(total, 'dead letter')}${of}${total === 1 ? '' : `, ${errors}`}.`);
  if (groups.length > 0 && total > 1) pane.write(`\n${drawList(pane, errorList(groups, now))}`);
  pane.write(`\n${drawList(pane, letterList(items, now))}`);
  const rest = total - items.length;
  const more = rest > 0 ? `${count(rest)} older: add --limit ${Math.min(total, MOST)}. ` : '';
  const details = `Details: npx postbud dead-letters ${items[0]!.deliveryId}`;
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${more}${details}. ${times()}`))}`);
}

function nothing(
  { totalInAll, failing, nextRetryAt, generatedAt }: DeadLetterPage,
  isFiltered: boolean,
): string {
  if (isFiltered && totalInAll > 0) return `No dead letters match (${count(totalInAll)} without filters).`;
  if (failing === 0) return 'No dead letters, and nothing is failing.';
  const next = nextRetryAt === null ? '' : `; the next retry is ${until(nextRetryAt, generatedAt)}`;
  return `No dead letters. ${quantity(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing${next}.`;
}
