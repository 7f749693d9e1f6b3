import type { Call } from './command.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './text.ts';

/** Says how an action ended, with a mark that needs no colour. */
export function writeOutcome({ terminal: { out } }: Call, isGood: boolean, words: string): void {
  out.write(wrapTo(out.columns, `${markOf(out, isGood ? 'good' : 'bad')} ${words}`));
}

/** Writes one of several things below each other, with the same marks. */
export function writeItem(pane: Pane, grade: Grade, words: string): void {
  pane.write(hang(`  ${markOf(pane, grade)} `, words, pane.columns));
}

type Grade = keyof typeof MARKS;

const MARKS = { good: ['green', '✓'], doubtful: ['yellow', '!'], bad: ['red', '✗'] } as const;

export function markOf({ paint }: Pane, grade: Grade): string {
  const [style, mark] = MARKS[grade];
  return paint(style, mark);
}
