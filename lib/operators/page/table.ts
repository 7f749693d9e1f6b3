import { html } from './markup.ts';
import type { Child, Html } from './markup.ts';

interface Table {
  /** For those who hear the page; no other table of the page has the same. */
  readonly name: string;
  /** Says more than the name where that is not enough. */
  readonly caption?: string;
  /** `th` elements. */
  readonly headings: Child;
  /** `tbody` elements. */
  readonly body: Child;
  /** Where few columns need less room on a phone. */
  readonly isNarrow?: boolean;
}

/** Draws a table that scrolls sideways where the screen is narrower, also by keyboard. */
export function table({ name, caption = name, headings, body, isNarrow = false }: Table): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table">
    <table class="${isNarrow ? 'narrow-table' : 'wide-table'}">
      <caption class="vh">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${headings}
        </tr>
      </thead>
      ${body}
    </table>
  </div>`;
}

/** @param tone `first`, `last` or `num`: where the column stands, and that it holds numbers. */
export function columnHeading(words: string, tone = ''): Html {
  return html`<th class="${tone}" scope="col">${words}</th>`;
}

/** Stands over the column of buttons, which shows no heading. */
export const ACTIONS_HEADING = html`<th class="last" scope="col"><span class="vh">Actions</span></th>`;
