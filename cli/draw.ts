import { phraseOf } from '../lib/console/kit/document.ts';
import type { Facts, List, Part } from '../lib/console/kit/document.ts';
import { facts, table } from './table.ts';
import type { Cell } from './table.ts';
import type { Pane } from './terminal.ts';

// Draws in a terminal what the console's pages say.

function cellOf(part: Part): Cell {
  const { text, style } = phraseOf(part);
  return style === undefined ? text : { text, style };
}

/** Draws a list as a table that fits the terminal. */
export function drawList<Row>(pane: Pane, { columns, rows }: List<Row>): string {
  const shown = columns.filter((column) => column !== false).filter(({ only }) => only !== 'console');
  return table(
    pane,
    shown.map(({ label = '', tone, terminal }) => ({
      title: label.toLowerCase(),
      ...(tone === 'num' && { align: 'right' as const }),
      ...terminal,
    })),
    rows.map((row) => shown.map(({ cell }) => cellOf(cell(row)))),
  );
}

/** Draws facts in two columns. */
export function drawFacts(pane: Pane, rows: Facts): string {
  return facts(
    pane,
    rows.flatMap((row) => (row ? [[row[0].toLowerCase(), cellOf(row[1])] as const] : [])),
  );
}
