import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { count } from './words.ts';

interface Table<Row> {
  /** For screen readers; unique on the page. */
  readonly name: string;
  /** A longer name for screen readers, where `name` is not enough. */
  readonly caption?: string;
  /** From left to right; false leaves one out. */
  readonly columns: readonly (Column<Row> | false)[];
  readonly rows?: readonly Row[];
  /** Rows that belong together, instead of `rows`. */
  readonly groups?: readonly Group<Row>[];
  /** The classes of a row: `r` marks the one under the pointer. */
  readonly rowLook?: Look<Row>;
}

/** A column: its heading, and what each row has in it. */
export interface Column<Row> {
  /** Heads the column, and each of its cells where a row is a card. Cells that explain themselves have none. */
  readonly label?: string;
  /** What the heading shows, if not just the label. */
  readonly heading?: Html;
  /** How its rows are sorted by it. */
  readonly sorted?: 'ascending' | 'descending';
  /** The class of the heading and of the cells: `num` for numbers, `end` for what is aligned at its end. */
  readonly tone?: 'num' | 'end' | 'check';
  /** Whether its cells name their rows. */
  readonly isRowHeader?: boolean;
  /** More classes of a cell. */
  readonly look?: Look<Row>;
  /** The number of columns, from this one on, that a row's cell fills. */
  readonly span?: (row: Row) => number;
  readonly cell: (row: Row) => Child;
}

interface Group<Row> {
  /** The words by which the script's filter finds the group. */
  readonly words?: string;
  readonly rows: readonly Row[];
}

/** Classes, the same for all rows or by row. */
type Look<Row> = string | ((row: Row) => string | false);

/**
 * Draws a table. On a narrow screen each row is a card: its cells stand below each other, each with its column's label.
 * Every element has its role, which a browser may drop when the style draws a row as a card.
 */
export function table<Row>({
  name,
  caption = name,
  columns,
  rows = [],
  groups = [{ rows }],
  rowLook = 'r',
}: Table<Row>): Html {
  const shown = columns.filter((column) => column !== false);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table">
    <table role="table">
      <caption class="vh">
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${shown.map(headingOf)}
        </tr>
      </thead>
      ${groups.map((group) => bodyOf(group, shown, rowLook))}
    </table>
  </div>`;
}

/** A column of buttons, whose heading only screen readers read. */
export const ACTIONS = { heading: html`<span class="vh">Actions</span>`, tone: 'end' } as const;

/** Makes a column of numbers, with zeros in grey. */
export function numberColumn<Row>(label: string, numberIn: (row: Row) => number): Column<Row> {
  return {
    label,
    tone: 'num',
    look: (row) => numberIn(row) === 0 && 'zero',
    cell: (row) => count(numberIn(row)),
  };
}

/** Draws a dash in the place of a number, with words for screen readers. */
export function absent(words: string): Html {
  return html`<span aria-hidden="true">–</span><span class="vh">${words}</span>`;
}

function headingOf<Row>({ label, heading = html`${label}`, sorted, tone }: Column<Row>): Html {
  return html`<th${attribute('class', tone)} scope="col" role="columnheader"${attribute('aria-sort', sorted)}>${heading}</th>`;
}

function bodyOf<Row>({ words, rows }: Group<Row>, columns: readonly Column<Row>[], look: Look<Row>): Html {
  return html`<tbody${attribute('data-words', words)} role="rowgroup">
    ${rows.map((row) => html`<tr${attribute('class', lookOf(look, row))} role="row">${cellsOf(row, columns)}</tr>`)}
  </tbody>`;
}

function cellsOf<Row>(row: Row, columns: readonly Column<Row>[]): Html[] {
  const [column, ...later] = columns;
  if (!column) return [];
  const span = column.span?.(row) ?? 1;
  return [cellOf(row, column, span), ...cellsOf(row, later.slice(span - 1))];
}

function cellOf<Row>(
  row: Row,
  { label, isRowHeader = false, tone, look, cell }: Column<Row>,
  span: number,
): Html {
  const classes = [isRowHeader && 'row', tone, lookOf(look, row)].filter(Boolean).join(' ');
  const labelled = span === 1 && attribute('data-label', label);
  return isRowHeader
    ? html`<th${attribute('class', classes)} scope="row" role="rowheader"${labelled}>${cell(row)}</th>`
    : html`<td${attribute('class', classes)}${span > 1 && html` colspan="${span}"`} role="cell"${labelled}>${cell(row)}</td>`;
}

function lookOf<Row>(look: Look<Row> | undefined, row: Row): string | false | undefined {
  return typeof look === 'function' ? look(row) : look;
}

/** @returns nothing for an attribute without a value. */
function attribute(name: string, value: string | false | undefined): Html | false {
  return value ? html` ${name}="${value}"` : false;
}
