import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import type { PageContext } from './layout.ts';
import { HOME } from './links.ts';
import type { Column } from './table.ts';

/** A list whose rows are checked, and then replayed or dismissed together after one preview. */
export interface Bulk<Row> {
  readonly field: 'group' | 'deliveryIds';
  readonly valueOf: (row: Row) => string;
  /** Names a row for screen readers. */
  readonly nameOf: (row: Row) => string;
  /** What a row is, where that has to be said. */
  readonly one?: string;
  /** Fields beside those that are checked. */
  readonly hidden?: Child;
  readonly isReplayable?: (context: PageContext) => boolean;
}

/** Makes the column of check boxes. */
export function bulkCheck<Row>({ field, valueOf, nameOf }: Bulk<Row>): Column<Row> {
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

/** Draws the form around such a list. With the script, its buttons appear when something is selected. */
export function bulkForm<Row>(
  list: Html,
  { one, hidden, isReplayable = () => true }: Bulk<Row>,
  context: PageContext,
): Html {
  const selected = one === undefined ? 'selected' : `selected ${one}s`;
  return html`<form class="card" method="get" action="${HOME}/replay" data-bulk>
    ${hidden} ${list}
    <div class="bulk">
      <span class="grow"
        ><span data-js
          ><b data-selected>0 selected</b> <span class="muted small">on this page</span></span
        ></span
      >
      <button class="btn sm quiet" type="button" data-js data-clear>Clear selection</button>
      <button class="btn sm" formaction="${HOME}/dismiss">Dismiss ${selected}…</button>
      ${isReplayable(context) && html`<button class="btn sm primary" data-bulk-button="${selected}">Replay ${selected}…</button>`}
    </div>
  </form>`;
}
