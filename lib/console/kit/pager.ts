import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { withParameters } from './links.ts';

interface PageLink {
  readonly words: string;
  /** Null: there is no such page. */
  readonly path: string | null;
  readonly relation: 'first' | 'prev' | 'next';
}

/**
 * Draws the links to the other pages of a list.
 *
 * @param position says which part of the list is shown.
 * @param of names the list, for screen readers, where the page has several.
 */
export function pager(position: Child, links: readonly PageLink[], of?: string): Html {
  return html`<nav class="pager" aria-label="${of === undefined ? 'Pages' : `Pages of ${of}`}">
    <span class="grow">${position}</span> ${links.map((link) => pageLink(link, of))}
  </nav>`;
}

/**
 * Links the other pages of a list that is read by cursors; null where it has one page.
 *
 * @param previousCursor null: it begins here; undefined: the list cannot be read backwards.
 */
export function cursorPager(
  nextCursor: string | null,
  url: URL,
  position: Child = null,
  previousCursor?: string | null,
): Html | null {
  const isFirst = previousCursor === undefined ? !url.searchParams.has('cursor') : previousCursor === null;
  if (isFirst && nextCursor === null) return null;
  const pathOf = (cursor: string | null) => withParameters(url, { cursor });
  return pager(position, [
    previousCursor === undefined
      ? { words: 'Newest', path: isFirst ? null : pathOf(null), relation: 'first' }
      : { words: 'Newer', path: isFirst ? null : pathOf(previousCursor), relation: 'prev' },
    { words: 'Older', path: nextCursor === null ? null : pathOf(nextCursor), relation: 'next' },
  ]);
}

function pageLink({ words, path, relation }: PageLink, of: string | undefined): Child {
  return path === null
    ? html`<span class="btn sm" aria-disabled="true">${words}</span>`
    : html`<a class="btn sm" href="${path}" rel="${relation}"
        >${words}${of !== undefined && html`<span class="vh"> ${of}</span>`}</a
      >`;
}
