import type { Pane, Paint } from './terminal.ts';
import { cutTo, padTo, widthOf } from './text.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'right';
  /** May be cut with `…` where the terminal is too narrow. */
  readonly isFlexible?: boolean;
  /** May be left out where cutting is not enough. */
  readonly isOptional?: boolean;
}

/** A text, or one with a style. */
export type Cell = string | { readonly text: string; readonly style: Parameters<Paint>[0] };

const GAP = '  ';

/** A flexible column tells too little below this width. */
const NARROWEST = 20;

/**
 * Draws a table that fits the terminal: columns that nobody filled are left out, and where it is too narrow the widest
 * are cut, then the last optional ones left out. Into a file or another program everything goes.
 */
export function table(pane: Pane, columns: readonly Column[], rows: readonly (readonly Cell[])[]): string {
  const all = columns.map((column, index) => ({ column, cells: rows.map((row) => row[index] ?? '') }));
  const filled = all.filter(({ cells }) => cells.some((cell) => textOf(cell) !== ''));
  const shown = fitting(filled, pane.columns ?? Infinity);
  const head = shown.map(({ column, width }) => padTo(width, column.title, column.align));
  const lines = rows.map((_, row) =>
    shown.map(({ column, width, cells }) => {
      const cell = cells[row]!;
      const text = padTo(width, cutTo(width, textOf(cell)), column.align);
      return typeof cell === 'string' ? text : pane.paint(cell.style, text);
    }),
  );
  return [
    pane.paint('bold', head.join(GAP).trimEnd()),
    ...lines.map((line) => line.join(GAP).trimEnd()),
  ].join('\n');
}

const textOf = (cell: Cell) => (typeof cell === 'string' ? cell : cell.text);

interface Filled {
  readonly column: Column;
  readonly cells: readonly Cell[];
}

function fitting(filled: readonly Filled[], available: number): readonly (Filled & { width: number })[] {
  const sized = filled.map((one) => ({
    ...one,
    width: Math.max(widthOf(one.column.title), ...one.cells.map((cell) => widthOf(textOf(cell)))),
  }));
  const total = () => sized.reduce((sum, { width }) => sum + width, GAP.length * (sized.length - 1));
  while (total() > available) {
    const widest = sized
      .filter(({ column, width }) => column.isFlexible && width > Math.max(NARROWEST, column.title.length))
      .toSorted((one, other) => other.width - one.width)[0];
    if (!widest) {
      const last = filled.findLast(({ column }) => column.isOptional);
      return last
        ? fitting(
            filled.filter((one) => one !== last),
            available,
          )
        : sized;
    }
    widest.width -= 1;
  }
  return sized;
}
