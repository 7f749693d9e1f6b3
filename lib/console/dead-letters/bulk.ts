import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { HOME } from '../kit/links.ts';
import { card } from '../kit/sections.ts';
import type { Column } from '../kit/table.ts';

// Lists whose rows are checked, and then replayed or dismissed together after one preview.

/** Makes the column of check boxes. @param nameOf names a row for screen readers. */
export function bulkCheck<Row>(
  field: 'group' | 'deliveryIds',
  valueOf: (row: Row) => string,
  nameOf: (row: Row) => string,
): Column<Row> {
  return {
    heading: SELECT_ALL,
    tone: 'check',
    cell: (row) =>
      html`<input
        type="checkbox"
        name="${field}"
        value="${valueOf(row)}"
        data-box
        aria-label="Select ${nameOf(row)}"
      />`,
  };
}

const SELECT_ALL = html`<span class="vh" data-nojs>Select</span>
  <input type="checkbox" aria-label="Select all on this page" data-js data-all />`;

interface Bulk {
  /** Whether the rows have check boxes; else it is a plain card. */
  readonly isBulk: boolean;
  readonly isReplayable?: boolean;
  /** What a row is, where that has to be said. */
  readonly one?: string;
}

/** Draws the form around such a list. With the script, its buttons appear when something is selected. */
export function bulkForm(list: Html, { isBulk, isReplayable = true, one }: Bulk): Html {
  if (!isBulk) return card(list);
  const selected = one === undefined ? 'selected' : `selected ${one}s`;
  return html`<form class="card" method="get" action="${HOME}/replay" data-bulk>
    ${list}
    <div class="bulk">
      <span class="grow"
        ><span data-js
          ><b data-selected>0 selected</b> <span class="muted small">on this page</span></span
        ></span
      >
      <button class="btn sm quiet" type="button" data-js data-clear>Clear selection</button>
      <button class="btn sm" formaction="${HOME}/dismiss">Dismiss ${selected}…</button>
      ${isReplayable && html`<button class="btn sm primary" data-bulk-button="${selected}">Replay ${selected}…</button>`}
    </div>
  </form>`;
}
