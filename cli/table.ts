import stringWidth from 'string-width';

import type { Pane, Paint } from './terminal.ts';
import { cutTo, padTo } from './text.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'right';
  /** May be cut with `…` where the terminal is too narrow. */
  readonly isFlexible?: boolean;
  /** May be left out: early, rather than cut other columns short, or late, where nothing else makes the table fit. */
  readonly leftOut?: 'early' | 'late';
}

/** A text, or one with a style. */
export type Cell = string | { readonly text: string; readonly style: Parameters<Paint>[0] };

const GAP = '  ';

/** The steps that make a table fit, each taken where the one before is not enough. */
const STEPS = [
  { narrowest: 20, leftOut: 'early' },
  { narrowest: 12, leftOut: 'late' },
] as const;

/**
 * Draws a table that fits the terminal, without its empty columns. Where the terminal is too narrow, the widest columns
 * are cut, then the last optional ones left out. A file or another program gets the whole table.
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

type Sized = Filled & { readonly width: number };

function fitting(filled: readonly Filled[], available: number): readonly Sized[] {
  let left = filled;
  let sized: readonly Sized[] = [];
  for (const { narrowest, leftOut } of STEPS) {
    for (;;) {
      sized = sizedTo(available, left, narrowest);
      if (totalOf(sized) <= available) return sized;
      const last = left.findLast(({ column }) => column.leftOut === leftOut);
      if (!last) break;
      left = left.filter((one) => one !== last);
    }
  }
  return sized;
}

/** Cuts the widest flexible column until all fit, but none below `narrowest` or its title. */
function sizedTo(available: number, filled: readonly Filled[], narrowest: number): readonly Sized[] {
  const sized = filled.map((one) => ({
    ...one,
    width: Math.max(stringWidth(one.column.title), ...one.cells.map((cell) => stringWidth(textOf(cell)))),
  }));
  while (totalOf(sized) > available) {
    const [widest] = sized
      .filter(({ column, width }) => column.isFlexible && width > Math.max(narrowest, column.title.length))
      .toSorted((one, other) => other.width - one.width);
    if (!widest) break;
    widest.width -= 1;
  }
  return sized;
}

function totalOf(sized: readonly Sized[]): number {
  return sized.reduce((sum, { width }) => sum + width, GAP.length * (sized.length - 1));
}
