import { raw } from 'hono/html';

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';

interface Table {
  /** For screen readers; unique on the page. */
  readonly name: string;
  /** A longer name for screen readers, where `name` is not enough. */
  readonly caption?: string;
  readonly columns: readonly Column[];
  /** `tr` elements with a `th class="row"` or `td` for each column. */
  readonly rows?: readonly Html[];
  /** `tbody` elements, instead of rows. */
  readonly groups?: readonly Html[];
}

/**
 * A column's heading, with `num` over numbers and `end` over a column that is aligned at its end; a whole `th` with the
 * label that its cells have in a card; or a whole `th` whose cells need no label.
 */
type Column = string | readonly [words: string, tone: 'num' | 'end'] | LabelledHeading | Html;

interface LabelledHeading {
  readonly label: string;
  readonly heading: Html;
}

/**
 * Draws a table. On a narrow screen each row is a card: its cells stand below each other, each with its column's heading
 * as a label.
 */
export function table({ name, caption = name, columns, rows, groups }: Table): Html {
  const labels = columns.map(labelOf);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table">
    <table role="table">
      <caption class="vh">
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(columnHeading)}
        </tr>
      </thead>
      ${groups && withLabels(html`${groups}`, labels)}${
        rows &&
        html`<tbody role="rowgroup">
          ${withLabels(html`${rows}`, labels)}
        </tbody>`
      }
    </table>
  </div>`;
}

const ROLES = { tbody: 'rowgroup', tr: 'row', th: 'rowheader', td: 'cell' } as const;

/**
 * Gives each cell its column's label, and each element its role, which a browser may drop when the style draws a row as a
 * card. All text is escaped, so a tag in the markup of rows is an element; a row has no table inside.
 */
function withLabels(rows: Html, labels: readonly string[]): Html {
  let column = 0;
  return raw(
    String(rows).replaceAll(/<(tbody|tr|th|td)(?=[\s>])([^>]*)/g, (tag, name: keyof typeof ROLES) => {
      if (name === 'tr') column = 0;
      const role = html` role="${ROLES[name]}"`;
      if (name === 'tr' || name === 'tbody') return `${tag}${role.toString()}`;
      const columns = Number(/colspan="(\d+)"/.exec(tag)?.[1] ?? 1);
      const label = columns > 1 ? '' : labels[column];
      column += columns;
      return `${tag}${role.toString()}${label ? html` data-label="${label}"`.toString() : ''}`;
    }),
  );
}

function columnHeading(column: Column): Html {
  if (typeof column === 'string') return html`<th scope="col" role="columnheader">${column}</th>`;
  if (isNamed(column))
    return html`<th class="${column[1]}" scope="col" role="columnheader">${column[0]}</th>`;
  return isLabelled(column) ? column.heading : column;
}

function labelOf(column: Column): string {
  if (typeof column === 'string') return column;
  if (isNamed(column)) return column[0];
  return isLabelled(column) ? column.label : '';
}

function isNamed(column: Exclude<Column, string>): column is readonly [string, 'num' | 'end'] {
  return Array.isArray(column);
}

function isLabelled(column: LabelledHeading | Html): column is LabelledHeading {
  return 'heading' in column;
}

/** A column of buttons, whose heading only screen readers read. */
export const ACTIONS = html`<th class="end" scope="col" role="columnheader">
  <span class="vh">Actions</span>
</th>`;
