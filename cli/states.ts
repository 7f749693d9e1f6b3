import { failureWords } from '../lib/operators/page/states.ts';
import type { LastError } from '../lib/operators/shapes.ts';
import type { Cell } from './table.ts';
import type { Paint } from './terminal.ts';

type State = 'pending' | 'failing' | 'dead_lettered' | 'delivered';

const WORDS: Readonly<Record<State, { readonly text: string; readonly style: Parameters<Paint>[0] }>> = {
  pending: { text: '· pending', style: 'dim' },
  failing: { text: '! failing', style: 'yellow' },
  dead_lettered: { text: '✗ dead-lettered', style: 'red' },
  delivered: { text: '✓ delivered', style: 'green' },
};

/** A state as a mark, a word and a colour. */
export function stateCell(state: State): Exclude<Cell, string> {
  return WORDS[state];
}

/** A failure with its kind before it, where the message does not say it: `TypeError: the ledger is down`. */
export function failureText({ kind, message }: LastError): string {
  const words = failureWords({ kind, message });
  return /^http/i.test(kind) || words === '' ? words || kind : `${kind}: ${words}`;
}
