import type { Block, Doc, Item } from '../lib/console/kit/doc.ts';
import { phraseOf } from '../lib/console/kit/document.ts';
import { drawFacts, drawList } from './draw.ts';
import { markOf, writeItem } from './outcome.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './text.ts';
import { times } from './times.ts';

/** Draws a document in a terminal. @param more said of a list that goes on: `There are older ones: add --limit 100. ` */
export function drawDoc(pane: Pane, doc: Doc, more = ''): void {
  const { title, lead, alerts = [], acts = [], blocks, next = [] } = doc;
  const [block, ...others] = blocks;
  // A list alone, which is empty.
  if (block && 'list' in block && others.length === 0 && block.list.rows.length === 0 && block.empty)
    return pane.write(wrapTo(pane.columns, `${block.empty.title}.`));
  pane.write(pane.paint('bold', wrapTo(pane.columns, phraseOf(title).text)));
  const about = phraseOf(lead).text;
  if (about !== '') pane.write(wrapTo(pane.columns, about));
  const told = alerts.filter((alert) => alert !== false && alert !== null && typeof alert !== 'function');
  for (const alert of told) writeItem(pane, GRADES[alert.tone], phraseOf(alert.words).text);
  const titled = blocks.filter((one) => one && one.title !== undefined).length;
  for (const one of blocks) if (one) drawBlock(pane, one, titled > 1);
  const suggested = [...told.map(({ act }) => act), ...acts]
    .flatMap((act) => (act && act.command ? [act.command] : []))
    .concat(next.filter((one) => one !== false && one !== null && one !== undefined));
  const advice = suggested.map(([why, line]) => wrapTo(pane.columns, `${why}: npx postbud ${line}`));
  pane.write(`\n${pane.paint('dim', [...advice, wrapTo(pane.columns, more + times())].join('\n'))}`);
}

const GRADES = { dead: 'bad', fail: 'doubtful', ok: 'good' } as const;

/** @param isHeaded whether it needs a heading: it is one of several. */
function drawBlock(pane: Pane, block: Block, isHeaded: boolean): void {
  const text = textOf(pane, block);
  if (text === '') return;
  const [title, hint] = [phraseOf(block.title).text, phraseOf(block.hint).text];
  const heading = hint === '' ? title : `${title} (${hint})`;
  pane.write('');
  if (isHeaded && title !== '') pane.write(pane.paint('bold', wrapTo(pane.columns, heading)));
  pane.write(text);
}

function textOf(pane: Pane, block: Block): string {
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
