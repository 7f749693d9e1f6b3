import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';

interface PageLink {
  readonly words: string;
  /** Null: there is no such page. */
  readonly path: string | null;
  readonly relation: 'first' | 'prev' | 'next';
}

/** Draws the links to the other pages of a list. @param position says which part of the list is shown. */
export function pager(position: Child, links: readonly PageLink[]): Html {
  return html`<nav class="pager" aria-label="Pages">
    <span class="grow">${position}</span> ${links.map(pageLink)}
  </nav>`;
}

function pageLink({ words, path, relation }: PageLink): Child {
  return path === null
    ? html`<span class="btn sm" aria-disabled="true">${words}</span>`
    : html`<a class="btn sm" href="${path}" rel="${relation}">${words}</a>`;
}
