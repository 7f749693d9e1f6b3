import { ago, until } from '../lib/operators/page/instants.ts';
import { count, counted } from '../lib/operators/page/words.ts';
import type { DeadLetterItem, ErrorGroup } from '../lib/operators/dead-letters/read.ts';
import { deadLetterPage } from './answers.ts';
import type { Bus } from './bus.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, Command } from './command.ts';
import { showDeadLetter } from './dead-letter.ts';
import { EXIT, misused } from './failure.ts';
import { when } from './instants.ts';
import { failureText } from './states.ts';
import { table } from './table.ts';
import type { Pane } from './terminal.ts';

type View = (typeof deadLetterPage)['_output'];

/** What one page of the endpoint holds at most. */
const PAGE = 100;

/** A screenful. */
const LISTED = 20;

const FILTERS = {
  topic: { value: '<topic>', help: 'of this topic' },
  subscriber: { value: '<name>', help: 'of this subscriber' },
  since: { value: '<24h>', help: 'that died within so long: a number and s, m, h, d or w' },
  group: { value: '<group>', help: 'of one error, as --json and the console name it' },
  search: { value: '<text>', help: 'with this in the error; or an event’s id' },
} as const;

export const deadLetters: Command = {
  name: 'dead-letters',
  summary: 'what was given up: by error, one by one, or all about one',
  usage: [
    'dead-letters [--topic <topic>] [--subscriber <name>] [options]',
    'dead-letters <deliveryId> [--reveal <reason>]',
  ],
  notes: ['Personal data in payloads and errors is hidden.'],
  options: {
    ...FILTERS,
    limit: { value: '<number>', help: `how many to list, the newest; else ${LISTED}` },
    reveal: {
      value: '<reason>',
      help: 'show the personal data of one: needs the scope event-bus:reveal; who looked and why is logged',
    },
  },
  examples: [
    ['dead-letters', 'the newest, and the errors they died of'],
    ['dead-letters --topic payment.captured --since 24h', 'those of one topic since yesterday'],
    ['dead-letters 12-345', 'every attempt of one, and its payload'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given } = call;
  atMost(1, given);
  const [deliveryId] = given.positionals;
  const filters = [...Object.keys(FILTERS), 'limit'].filter((name) => given.isSet(name));
  if (deliveryId !== undefined) {
    if (filters.length > 0) throw misused(`--${filters[0]} is for the list, not for one dead letter.`);
    return await showDeadLetter(call, deliveryId);
  }
  if (given.isSet('reveal'))
    throw misused('--reveal needs the delivery: dead-letters <deliveryId> --reveal …');
  const { json, view } = await list(call);
  if (call.isJson) writeJson(call, json);
  else
    write(
      view,
      filters.some((name) => name !== 'limit'),
      call.terminal.out,
    );
  return EXIT.ok;
}

/** @returns as one page, however many it took. */
async function list({ given, bus }: Call): Promise<{ json: unknown; view: View }> {
  const limit = given.wholeNumber('limit', 1, 10_000) ?? LISTED;
  const query = {
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
    since: given.text('since'),
    group: given.text('group'),
    q: given.text('search'),
  };
  const pages = [await page(bus, query, limit)];
  for (let missing = limit; ;) {
    const { items, nextCursor } = pages.at(-1)!.view;
    missing -= items.length;
    if (missing <= 0 || nextCursor === null) return together(pages);
    pages.push(await page(bus, { ...query, cursor: nextCursor }, missing));
  }
}

async function page(bus: Bus, query: Readonly<Record<string, string | undefined>>, limit: number) {
  const path = '/platform/event-bus/dead-letters';
  return await bus.ask({
    path,
    answer: deadLetterPage,
    query: { ...query, limit: Math.min(limit, PAGE) },
    named: { q: '--search' },
  });
}

function together(pages: readonly { readonly json: unknown; readonly view: View }[]) {
  const [first] = pages.map(({ view }) => view);
  const items = pages.flatMap(({ view }) => view.items);
  const jsons = pages.map(({ json }) => json as { readonly items: readonly unknown[] });
  const { nextCursor } = pages.at(-1)!.view;
  return {
    json: { ...jsons[0], items: jsons.flatMap((one) => one.items), nextCursor },
    view: { ...first!, items, nextCursor },
  };
}

function write(view: View, isFiltered: boolean, pane: Pane): void {
  const { items, groups, total, totalInAll, generatedAt: now } = view;
  if (items.length === 0) {
    pane.write(nothing(view, isFiltered));
    return;
  }
  const of = total === totalInAll ? '' : ` of ${count(totalInAll)} in all`;
  const errors = groups.length === 1 ? 'all of one error' : `of ${count(groups.length)} errors`;
  pane.write(`${counted(total, 'dead letter')}${of}${total === 1 ? '' : `, ${errors}`}.`);
  if (groups.length > 0 && total > 1) pane.write(`\n${groupTable(groups, now, pane)}`);
  pane.write(`\n${itemTable(items, now, pane)}`);
  const rest = total - items.length;
  const more = rest > 0 ? `${count(rest)} older: --limit ${Math.min(total, 10_000)} shows more. ` : '';
  pane.write(
    `\n${pane.paint('dim', `${more}All about one: npx postbud dead-letters ${items[0]!.deliveryId}`)}`,
  );
}

function nothing({ totalInAll, failing, nextRetryAt, generatedAt }: View, isFiltered: boolean): string {
  if (isFiltered && totalInAll > 0)
    return `No dead letters match. There ${totalInAll === 1 ? 'is one' : `are ${count(totalInAll)}`} in all.`;
  if (failing === 0) return 'No dead letters, and nothing is failing.';
  const next = nextRetryAt === null ? '' : `; the next retry is ${until(nextRetryAt, generatedAt)}`;
  return `No dead letters. ${counted(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing${next}.`;
}

function groupTable(groups: readonly ErrorGroup[], now: string, pane: Pane): string {
  const columns = [
    { title: 'dead', align: 'right' },
    { title: 'error', isFlexible: true },
    { title: 'topic', isFlexible: true },
    { title: 'subscriber', leftOut: 'late' },
    { title: 'latest', leftOut: 'late' },
    { title: '', leftOut: 'early' },
  ] as const;
  return table(
    pane,
    columns,
    groups.map((group) => [
      { text: count(group.count), style: 'red' },
      failureText(group),
      group.topic,
      group.subscriber,
      ago(group.lastAt, now),
      group.isStillFailing ? { text: 'still failing', style: 'yellow' } : '',
    ]),
  );
}

function itemTable(items: readonly DeadLetterItem[], now: string, pane: Pane): string {
  const columns = [
    { title: 'delivery' },
    { title: 'died', leftOut: 'late' },
    { title: 'topic', isFlexible: true },
    { title: 'subscriber', leftOut: 'late' },
    { title: 'about', isFlexible: true, leftOut: 'early' },
    { title: 'error', isFlexible: true },
  ] as const;
  return table(
    pane,
    columns,
    items.map((item) => [
      item.deliveryId,
      when(item.deadLetteredAt, now),
      item.topic,
      item.subscriber,
      item.subject ?? '',
      failureText(item.lastError),
    ]),
  );
}
