import type { LastError, State } from '../lib/console/kit/shapes.ts';
import { failureWords, stateWord } from '../lib/console/kit/states.ts';
import type { Cell } from './table.ts';

const MARKS = {
  pending: { mark: '·', style: 'dim' },
  failing: { mark: '!', style: 'yellow' },
  dead_lettered: { mark: '✗', style: 'red' },
  delivered: { mark: '✓', style: 'green' },
} as const;

/** Shows a state by a mark, a word and a colour. */
export function stateCell(state: State): Exclude<Cell, string> {
  const { mark, style } = MARKS[state];
  return { text: `${mark} ${stateWord(state)}`, style };
}

/** Writes an error with its kind, unless the message says it: `TypeError: the ledger is down`. */
export function failureText({ kind, message }: LastError): string {
  const words = failureWords({ kind, message });
  return /^http/i.test(kind) || words === '' ? words || kind : `${kind}: ${words}`;
}
