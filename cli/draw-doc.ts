import stringWidth from 'string-width';

import type { Block, Doc, History, Item } from '../lib/console/kit/doc.ts';
import { MARKS, phraseOf } from '../lib/console/kit/document.ts';
import { SAME_ANSWER } from '../lib/console/kit/history.ts';
import type { Moment } from '../lib/console/kit/history.ts';
import { duration, timeText } from '../lib/console/kit/instants.ts';
import { hiddenWords } from '../lib/console/kit/payload.ts';
import { printableJson } from '../lib/platform/visible.ts';
import { drawFacts, drawList } from './draw.ts';
import { markOf, writeItem } from './outcome.ts';
import type { Pane } from './terminal.ts';
import { foldTo, hang, padTo, wrapTo } from './text.ts';
import { times } from './times.ts';

/** Draws a document in a terminal. @param more said of a list that goes on: `There are older ones: add --limit 100. ` */
export function drawDoc(pane: Pane, doc: Doc, more = ''): void {
  const { title, lead, alerts = [], acts = [], next = [] } = doc;
  const blocks = doc.blocks.filter((one) => one !== false && one !== null);
  const [block, ...others] = blocks;
  // A list alone, which is empty.
  if (block && 'list' in block && others.length === 0 && block.list.rows.length === 0 && block.empty)
    return pane.write(
      wrapTo(pane.columns, `${block.empty.title}. ${phraseOf(block.empty.text).text}`.trimEnd()),
    );
  pane.write(pane.paint('bold', wrapTo(pane.columns, phraseOf(title).text)));
  const about = phraseOf(lead).text;
  if (about !== '') pane.write(wrapTo(pane.columns, about));
  const told = alerts.filter((alert) => alert !== false && alert !== null && typeof alert !== 'function');
  for (const { tone, words } of told) {
    const said = phraseOf(words).text;
    if (said !== '') writeItem(pane, GRADES[tone], said);
  }
  const titled = blocks.filter((one) => one && one.title !== undefined).length;
  for (const one of blocks) if (one) drawBlock(pane, one, doc, titled > 1);
  const suggested = [...told.map(({ act }) => act), ...acts]
    .flatMap((act) => (act && act.command ? [act.command] : []))
    .concat(next.filter((one) => one !== false && one !== null && one !== undefined));
  const advice = suggested.map(([why, line]) => wrapTo(pane.columns, `${why}: npx postbud ${line}`));
  pane.write(`\n${pane.paint('dim', [...advice, wrapTo(pane.columns, more + times())].join('\n'))}`);
}

const GRADES = { dead: 'bad', fail: 'doubtful', ok: 'good' } as const;

/** @param isHeaded whether it needs a heading: it is one of several. */
function drawBlock(pane: Pane, block: Block, { at }: Doc, isHeaded: boolean): void {
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
    const title = wrapTo(pane.columns, `Payload${hiddenWords(block.payload)}`);
    const json = printableJson(block.payload.payload, 2).replaceAll(/^/gm, '  ');
    return `${drawFacts(pane, block.facts)}\n\n${pane.paint('bold', title)}\n${json}`;
  }
  if ('histories' in block) {
    if (block.histories.length === 0) return block.none === undefined ? '' : `${block.none}.`;
    return block.histories.map((history) => historyText(pane, history, at)).join('\n\n');
  }
  if ('facts' in block) return drawFacts(pane, block.facts);
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
    ...commands.map(([why, line]) => paint('dim', hang('  ', `${why}: npx postbud ${line}`, columns))),
  ].join('\n');
}

function timelineLines(moments: readonly Moment[], now: string, { paint, columns }: Pane): readonly string[] {
  const rows = moments.map(({ at, state, what, ...moment }) => {
    const [mark, style] = state === null ? (['', 'bold'] as const) : MARKS[state];
    return { ...moment, style, at: timeText(at, now), what: `${mark} ${phraseOf(what).text}`.trimStart() };
  });
  const timeWidth = Math.max(0, ...rows.map(({ at }) => at.length));
  const timed = rows.filter(({ tookMs }) => tookMs !== undefined);
  const whatWidth = Math.max(0, ...timed.map(({ what }) => stringWidth(what)));
  const indent = ' '.repeat(timeWidth + 4);
  return rows.flatMap(({ at, what, style, tookMs, notes, answer }) => {
    const took = tookMs === undefined ? '' : duration(tookMs);
    const details = notes.flatMap((note) => phraseOf(note).text || []).join('; ');
    const first = `${paint(style, padTo(whatWidth, what))}  ${took}`.trimEnd();
    return [
      hang(`  ${padTo(timeWidth, at)}  `, first, columns),
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
    .flatMap((line) => (room === null ? [line] : foldTo(room, line).split('\n')))
    .map((line) => `${bar}${line}`.trimEnd());
}

/** An answer in a narrower column could not be read. */
const LEAST_ROOM = 20;
