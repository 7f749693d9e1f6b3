import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';

interface Table {
  /** For screen readers; unique on the page. */
  readonly name: string;
  /** A longer name for screen readers, where `name` is not enough. */
  readonly caption?: string;
  readonly columns: readonly Column[];
  readonly rows?: readonly Html[];
  /** `tbody` elements, instead of rows. */
  readonly groups?: readonly Html[];
  /** Where few columns need less room on a phone. */
  readonly isNarrow?: boolean;
}

/** A column's heading, with `num` over numbers and `end` over a column that is aligned at its end; or a whole `th`. */
type Column = string | readonly [words: string, tone: 'num' | 'end'] | Html;

/** Draws a table that scrolls sideways where the screen is narrower, also by keyboard. */
export function table({ name, caption = name, columns, rows, groups, isNarrow = false }: Table): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table">
    <table class="${isNarrow ? 'narrow-table' : 'wide-table'}">
      <caption class="vh">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(columnHeading)}
        </tr>
      </thead>
      ${groups}${
        rows &&
        html`<tbody>
          ${rows}
        </tbody>`
      }
    </table>
  </div>`;
}

function columnHeading(column: Column): Html {
  if (typeof column === 'string') return html`<th scope="col">${column}</th>`;
  return isNamed(column) ? html`<th class="${column[1]}" scope="col">${column[0]}</th>` : column;
}

function isNamed(column: Exclude<Column, string>): column is readonly [string, 'num' | 'end'] {
  return Array.isArray(column);
}

/** A column of buttons, whose heading only screen readers read. */
export const ACTIONS = html`<th class="end" scope="col"><span class="vh">Actions</span></th>`;
