import stringWidth from 'string-width';

import type { Block, Doc, History, Item, Suggestion } from '../lib/console/kit/doc.ts';
import { phraseOf, SAME_ANSWER } from '../lib/console/kit/document.ts';
import type { Facts, List, Moment, Phrase } from '../lib/console/kit/document.ts';
import { duration, shownZone, timeText } from '../lib/console/kit/words.ts';
import { LOOKS } from '../lib/console/kit/states.ts';
import { hiddenPhrase } from '../lib/console/kit/payload.ts';
import { printableJson } from '../lib/platform/visible.ts';
import type { Pane, Terminal } from './terminal.ts';
import { hang, padTo, wrapTo } from './terminal.ts';

// Draws in a terminal what the console's pages say, and how an action ended.

/** Draws a document. @param more said of a list that goes on: `There are older ones: add --limit 100. ` */
export function drawDoc(pane: Pane, doc: Doc, more = ''): void {
  // What only a browser draws has no lines.
  const blocks = doc.blocks.flatMap((one) => (one && !('drawn' in one && !one.lines) ? [one] : []));
  const [block, ...others] = blocks;
  // A list alone, which is empty.
  if (block && 'list' in block && others.length === 0 && block.list.rows.length === 0 && block.empty)
    return pane.write(
      wrapTo(pane.columns, `${block.empty.title}. ${phraseOf(block.empty.text).text}`.trimEnd()),
    );
  const { title, lead, acts = [], next = [], alerts = [] } = doc;
  pane.write(pane.paint('bold', wrapTo(pane.columns, phraseOf(title).text)));
  const about = phraseOf(lead).text;
  if (about !== '') pane.write(wrapTo(pane.columns, about));
  const told = alerts.filter((alert) => alert !== false && alert !== null && typeof alert !== 'function');
  for (const { tone, words } of told) {
    const said = phraseOf(words).text;
    if (said !== '') pane.write(hang(`  ${markOf(pane, GRADES[tone])} `, said, pane.columns));
  }
  const isHeaded = blocks.filter((one) => one.title !== undefined).length > 1;
  for (const one of blocks) drawBlock(pane, one, doc.at, isHeaded);
  const suggested = [...told.map(({ act }) => act), ...acts].map((act) => act && act.command);
  const advice = [...suggested, ...next].flatMap((one) => (one ? [suggestion(pane, one)] : []));
  pane.write(`\n${pane.paint('dim', [...advice, wrapTo(pane.columns, more + times())].join('\n'))}`);
}

/** @param isHeaded whether it needs a heading: it is one of several. */
function drawBlock(pane: Pane, block: Block, at: string, isHeaded: boolean): void {
  const text = textOf(pane, block, at);
  if (text === '') return;
  const [title, hint] = [phraseOf(block.title).text, phraseOf(block.hint).text];
  const heading = hint === '' ? title : `${title} (${hint})`;
  pane.write('');
  if (isHeaded && title !== '') pane.write(pane.paint('bold', wrapTo(pane.columns, heading)));
  pane.write(text);
}

function textOf(pane: Pane, block: Block, at: string): string {
  if ('payload' in block) {
    const hidden = wrapTo(pane.columns, hiddenPhrase(block.payload).text);
    const json = printableJson(block.payload.payload, 2).replaceAll(/^/gm, '  ');
    return [pane.paint('bold', 'Payload'), hidden, json].filter(Boolean).join('\n');
  }
  if ('histories' in block) {
    if (block.histories.length === 0) return block.none === undefined ? '' : `${block.none}.`;
    return block.histories.map((history) => historyText(pane, history, at)).join('\n\n');
  }
  if ('facts' in block)
    return drawFacts(
      pane,
      block.facts.map((fact) => fact && [fact[0].toLowerCase(), fact[1]]),
    );
  if ('drawn' in block)
    return (block.lines ?? []).map((line) => wrapTo(pane.columns, phraseOf(line).text)).join('\n');
  if ('items' in block) return block.items.map((item) => itemText(pane, item)).join('\n');
  const { list, empty } = block;
  if (list.rows.length > 0) return drawList(pane, list);
  return empty ? wrapTo(pane.columns, `${empty.title}.`) : '';
}

function itemText(pane: Pane, { tone, words, details }: Item): string {
  const shown = details.map((detail) => phraseOf(detail)).filter(({ text }) => text !== '');
  return [
    hang(`${markOf(pane, GRADES[tone])} `, phraseOf(words).text, pane.columns),
    ...shown.map(({ text, style }) => hang('  ', style ? pane.paint(style, text) : text, pane.columns)),
  ].join('\n');
}

/** Writes the history of one thing, why it waits, and the commands for it. */
function historyText(pane: Pane, { title, words, moments, acts }: History, now: string): string {
  const { paint, columns } = pane;
  const lines = words.flatMap((one) => phraseOf(one).text || []);
  const commands = acts.flatMap((act) => (act && act.command ? [act.command] : []));
  return [
    paint('bold', wrapTo(columns, phraseOf(title).text)),
    ...lines.map((line) => hang('  ', line, columns)),
    ...timelineLines(moments, now, pane),
    ...commands.map((one) => paint('dim', suggestion(pane, one, '  '))),
  ].join('\n');
}

/** A command stays in one piece, to be copied: where it is too long, on a line of its own. */
function suggestion({ columns }: Pane, [why, command]: Suggestion, indent = ''): string {
  const line = `${indent}${why}: npx postbud ${command}`;
  return stringWidth(line) <= (columns ?? Infinity)
    ? line
    : `${indent}${why}:\n${indent}  npx postbud ${command}`;
}

function timelineLines(moments: readonly Moment[], now: string, { paint, columns }: Pane): readonly string[] {
  const times = moments.map(({ at }) => timeText(at, now));
  const width = Math.max(0, ...times.map(({ length }) => length));
  const indent = ' '.repeat(width + 4);
  return moments.flatMap(({ state, what, tookMs, notes, answer }, place) => {
    const { style, mark } = LOOKS[state ?? 'operator'];
    const took = tookMs === undefined ? '' : `  ${duration(tookMs)}`;
    const first = paint(style, `${mark} ${phraseOf(what).text}`.trimStart()) + took;
    const details = notes.flatMap((note) => phraseOf(note).text || []).join('; ');
    return [
      hang(`  ${padTo(width, times[place]!)}  `, first, columns),
      ...(details === '' ? [] : [hang(indent, details, columns)]),
      ...(answer ? answerLines(answer, indent, columns) : []),
    ];
  });
}

/** Writes what a component elsewhere answered, behind a bar, so that it is not taken for words of ours. */
function answerLines(
  { text, isRepeated }: NonNullable<Moment['answer']>,
  indent: string,
  columns: number | null,
): readonly string[] {
  if (isRepeated) return [indent + SAME_ANSWER];
  const bar = `${indent}│ `;
  const lines = text.replaceAll('\t', '  ').trimEnd().split('\n');
  const room = columns === null ? null : Math.max(LEAST_ROOM, columns - stringWidth(bar));
  return lines
    .flatMap((line) => wrapTo(room, line, { hard: true, trim: false }).split('\n'))
    .map((line) => `${bar}${line}`.trimEnd());
}

/** An answer in a narrower column could not be read. */
const LEAST_ROOM = 20;

const SIGNS = { good: ['green', '✓'], doubtful: ['yellow', '!'], bad: ['red', '✗'] } as const;
const GRADES = { dead: 'bad', fail: 'doubtful', ok: 'good', wait: 'doubtful' } as const;

/** Says how an action ended, with a mark that needs no colour. */
export function writeOutcome(
  { terminal: { out } }: { readonly terminal: Terminal },
  isGood: boolean,
  words: string,
): void {
  out.write(wrapTo(out.columns, `${markOf(out, isGood ? 'good' : 'bad')} ${words}`));
}

function markOf({ paint }: Pane, grade: keyof typeof SIGNS): string {
  const [style, mark] = SIGNS[grade];
  return paint(style, mark);
}

/** Names the zone of the times above it: whoever reads a terminal or a file may be in another one. */
export const times = () => `Times are ${shownZone()}.`;

/** Names the zone of the times in a text, if it has any. */
export function writeZone(pane: Pane, text: string): void {
  if (/\d\d:\d\d/.test(text)) pane.write(pane.paint('dim', times()));
}

const GAP = '  ';

/**
 * Draws a list as a table that fits the terminal, without its empty columns. Where the terminal is too narrow, the widest
 * columns stand below each row, numbers last. A file or another program gets the whole table.
 */
export function drawList<Row>(pane: Pane, { columns, rows, idOf }: List<Row>): string {
  const ids = idOf ? rows.map(idOf) : [];
  const given = columns.flatMap((column) => {
    if (column === false) return [];
    const { label = '', tone, cell } = column;
    const title = label.toLowerCase();
    return [
      {
        title,
        align: tone === 'num' ? ('right' as const) : undefined,
        cells: rows.map((row) => phraseOf(cell(row))),
      },
    ];
  });
  const filled = [...given, { title: 'id', align: undefined, cells: ids.map(phraseOf) }]
    .filter(({ cells }) => cells.some(({ text }) => text !== ''))
    .map((column) => ({ ...column, width: widthOf(column) }));
  const shown = fitting(filled, pane.columns ?? Infinity);
  const others = filled.filter((column) => !shown.includes(column));
  const head = shown.map(({ title, width, align }) => padTo(width, title, align));
  const lines = rows.flatMap((_, row) => {
    const cells = shown.map(({ cells: all, width, align }) =>
      painted(pane, all[row]!, padTo(width, all[row]!.text, align)),
    );
    const below = others.filter(({ title, cells: all }) => title !== 'id' && all[row]!.text !== '');
    const said = below.map(({ title, cells: all }) => `${title}: ${painted(pane, all[row]!)}`).join('; ');
    // Alone, so that it can be copied.
    const id = others.some(({ title }) => title === 'id') ? ids[row]! : '';
    return [
      wrapTo(pane.columns, cells.join(GAP).trimEnd(), { hard: true, trim: false }),
      ...[said, id].filter(Boolean).map((text) => hang(GAP, text, pane.columns)),
    ];
  });
  return [pane.paint('bold', head.join(GAP).trimEnd()), ...lines].join('\n');
}

/** Draws names and values in two columns, without empty values; a long value continues below its beginning. */
export function drawFacts(pane: Pane, rows: Facts): string {
  const all = rows.flatMap((row) => (row ? [{ name: row[0], value: phraseOf(row[1]) }] : []));
  const filled = all.filter(({ value }) => value.text !== '');
  const width = Math.max(0, ...filled.map(({ name }) => stringWidth(name)));
  return filled
    .map(({ name, value }) => hang(`  ${padTo(width, name)}  `, painted(pane, value), pane.columns))
    .join('\n');
}

function painted({ paint }: Pane, { style, text: whole }: Phrase, text = whole): string {
  return style === undefined || text === '' ? text : paint(style, text);
}

interface Sized {
  readonly title: string;
  /** Of numbers. */
  readonly align: 'right' | undefined;
  readonly cells: readonly Phrase[];
  readonly width: number;
}

/** Leaves out the widest column but the first until the others fit. */
function fitting(columns: readonly Sized[], available: number): readonly Sized[] {
  const total = columns.reduce((sum, { width }) => sum + width, GAP.length * (columns.length - 1));
  const texts = columns.slice(1).filter(({ align }) => !align);
  const [widest] = (texts.length > 0 ? texts : columns.slice(1)).toSorted(
    (one, other) => other.width - one.width,
  );
  if (total <= available || !widest) return columns;
  return fitting(
    columns.filter((column) => column !== widest),
    available,
  );
}

function widthOf({ title, cells }: Omit<Sized, 'width'>): number {
  return Math.max(stringWidth(title), ...cells.map(({ text }) => stringWidth(text)));
}
