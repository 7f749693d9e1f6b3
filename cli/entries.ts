import { timeText } from '../lib/console/kit/instants.ts';
import { moreWords } from './gather.ts';
import type { Pane } from './terminal.ts';
import { hang, padTo, wrapTo } from './text.ts';
import { times } from './times.ts';

/** What an operator did: one of a list in the order of time. */
export interface Entry {
  readonly at: string;
  /** In bold, and as short as a state or an action is. */
  readonly word: string;
  /** What, who and why, an id: each on a line of its own. */
  readonly parts: readonly string[];
}

/** Writes what operators did, and what to add for older entries. @param hasMore whether there are any. */
export function writeEntries(pane: Pane, entries: readonly Entry[], now: string, hasMore: boolean): void {
  const timeWidth = Math.max(...entries.map(({ at }) => timeText(at, now).length));
  const wordWidth = Math.max(...entries.map(({ word }) => word.length));
  for (const { at, word, parts } of entries) {
    const start = `${padTo(timeWidth, timeText(at, now))}  ${pane.paint('bold', padTo(wordWidth, word))}  `;
    pane.write(entryText(start, ' '.repeat(timeWidth + wordWidth + 4), parts, pane));
  }
  const more = hasMore ? moreWords('There are older entries', entries.length) : '';
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${more}${times()}`))}`);
}

/** On a terminal as a paragraph; elsewhere in one line, for `grep`. */
function entryText(start: string, indent: string, parts: readonly string[], { columns }: Pane): string {
  if (columns === null) return start + parts.join('  ');
  return parts.map((part, index) => hang(index === 0 ? start : indent, part, columns)).join('\n');
}

export const whoWords = (operator: string, reason: string | null) =>
  reason === null ? `by ${operator}` : `by ${operator}: ${reason}`;
