import stringWidth from 'string-width';

import type { Pane, Paint } from './terminal.ts';
import { cutMiddle, cutTo, hang, hardWrapTo, padTo } from './text.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'right';
  /** May be narrower than its text, which then continues below, on up to three lines. */
  readonly isFlexible?: boolean;
  /**
   * Is narrowed before the others, and its text cut in the middle: a topic is still known by its beginning and its end,
   * where an error or a reason is not.
   */
  readonly isCut?: boolean;
  /** May be left out: early, rather than narrow other columns, or late, where nothing else makes the table fit. */
  readonly leftOut?: 'early' | 'late';
  /** Stands on a line of its own, below its row, where the table is too wide: an id of 50 characters, which is copied whole. */
  readonly isBelow?: boolean;
}

/** A text, or one with a style. */
export type Cell = string | { readonly text: string; readonly style: Parameters<Paint>[0] };

const GAP = '  ';

/** Who reads a list sees the beginning of a longer text; the page of one thing shows it whole. */
const MOST_LINES = 3;

/** The steps that make a table fit, each taken where the one before is not enough. */
const STEPS = [
  { narrowest: 20, leftOut: 'early' },
  { narrowest: 12, leftOut: 'late' },
] as const;

/**
 * Draws a table that fits the terminal, without its empty columns. Where the terminal is too narrow, long ids get lines of
 * their own, then topics are cut, long texts wrapped and optional columns left out; where even that is not enough, each row
 * is drawn as a block of names and values. A file or another program gets the whole table.
 */
export function table(pane: Pane, columns: readonly Column[], rows: readonly (readonly Cell[])[]): string {
  const all = columns.map((column, index) => ({ column, cells: rows.map((row) => row[index] ?? '') }));
  const filled = all.filter(({ cells }) => cells.some((cell) => textOf(cell) !== ''));
  const available = pane.columns ?? Infinity;
  const isTooWide = totalOf(filled.map(atFullWidth)) > available;
  const isBelow = ({ column }: Filled) => isTooWide && column.isBelow === true;
  const below = filled.filter(isBelow);
  const shown = fitting(
    filled.filter((one) => !isBelow(one)),
    available,
  );
  if (totalOf(shown) > available) return blocks(pane, filled, rows.length);
  const head = shown.map(({ column, width }) => padTo(width, column.title, column.align));
  const lines = rows.flatMap((_, row) => [
    ...rowLines(pane, shown, row),
    ...below.flatMap(({ cells }) => belowLine(pane, cells[row]!)),
  ]);
  return [pane.paint('bold', head.join(GAP).trimEnd()), ...lines].join('\n');
}

/** Names and their values, one below the other; null leaves a name out. */
export type Facts = readonly (readonly [name: string, value: Cell | null])[];

/** Draws names and values in two columns; a long value continues below its beginning. */
export function facts(pane: Pane, rows: Facts): string {
  const filled = rows.flatMap(([name, value]) =>
    value === null || textOf(value) === '' ? [] : [{ name, value }],
  );
  const width = Math.max(0, ...filled.map(({ name }) => stringWidth(name)));
  return filled
    .map(({ name, value }) => hang(`  ${padTo(width, name)}  `, painted(pane, value), pane.columns))
    .join('\n');
}

const textOf = (cell: Cell) => (typeof cell === 'string' ? cell : cell.text);

function painted({ paint }: Pane, cell: Cell, text = textOf(cell)): string {
  return typeof cell === 'string' || text === '' ? text : paint(cell.style, text);
}

interface Filled {
  readonly column: Column;
  readonly cells: readonly Cell[];
}

type Sized = Filled & { readonly width: number };

/** Draws a row, on as many lines as its longest cell needs. */
function rowLines(pane: Pane, shown: readonly Sized[], row: number): readonly string[] {
  const cells = shown.map(({ column, width, cells: all }) => {
    const text = textOf(all[row]!);
    const lines = column.isCut ? [cutMiddle(width, text)] : linesOf(width, text);
    return { cell: all[row]!, column, width, lines };
  });
  const height = Math.max(...cells.map(({ lines }) => lines.length));
  return Array.from({ length: height }, (_, line) =>
    cells
      .map(({ cell, column, width, lines }) =>
        painted(pane, cell, padTo(width, lines[line] ?? '', column.align)),
      )
      .join(GAP)
      .trimEnd(),
  );
}

function belowLine(pane: Pane, cell: Cell): readonly string[] {
  return textOf(cell) === '' ? [] : [hang(GAP, painted(pane, cell), pane.columns)];
}

function linesOf(width: number, text: string): readonly string[] {
  if (stringWidth(text) <= width) return [text];
  const lines = hardWrapTo(width, text).split('\n');
  if (lines.length <= MOST_LINES) return lines;
  return [...lines.slice(0, MOST_LINES - 1), cutTo(width, lines.slice(MOST_LINES - 1).join(' '))];
}

function blocks(pane: Pane, filled: readonly Filled[], count: number): string {
  return Array.from({ length: count }, (_, row) =>
    facts(
      pane,
      filled.map(({ column, cells }) => [column.title, cells[row]!]),
    ),
  ).join('\n\n');
}

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

/** Narrows the cut columns, then the flexible ones, always the widest, but none below `narrowest` or its title. */
function sizedTo(available: number, filled: readonly Filled[], narrowest: number): readonly Sized[] {
  const sized = filled.map(atFullWidth);
  for (const kind of ['isCut', 'isFlexible'] as const) {
    while (totalOf(sized) > available) {
      const [widest] = sized
        .filter(({ column, width }) => column[kind] && width > Math.max(narrowest, column.title.length))
        .toSorted((one, other) => other.width - one.width);
      if (!widest) break;
      widest.width -= 1;
    }
  }
  return sized;
}

function atFullWidth(one: Filled) {
  const widths = one.cells.map((cell) => stringWidth(textOf(cell)));
  return { ...one, width: Math.max(stringWidth(one.column.title), ...widths) };
}

function totalOf(sized: readonly Sized[]): number {
  return sized.reduce((sum, { width }) => sum + width, GAP.length * (sized.length - 1));
}
