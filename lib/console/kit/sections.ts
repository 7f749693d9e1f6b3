import { raw } from 'hono/html';

import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';

export function card(content: Child): Html {
  return html`<div class="card">${content}</div>`;
}

/** Says in a card that a list is empty, and what may be done instead. */
export function emptyCard(title: string, text: Child = null, action: Child = null): Html {
  return card(html`<p class="none muted"><b>${title}.</b> ${text} ${action}</p>`);
}

/** Draws names beside their values. @param tone a class of the list, such as `roomy`. */
export function factList(facts: readonly (Fact | false | null)[], tone = ''): Html {
  return html`<dl class="kv ${tone}">
    ${facts.map(
      (fact) =>
        fact &&
        html`<dt>${fact[0]}</dt>
          <dd>${fact[1]}</dd>`,
    )}
  </dl>`;
}

/** False or null where it is left out. */
export type Fact = readonly [name: Child, value: Child];

/** A path of the console within a sentence, whose end is not part of it. */
const PATHS = /(\/platform\/event-bus(?:\/[\w.-]*\w)*(?:\?\w+=\w+)?)/;

/** Draws a text with its paths of the console as links. */
export function withLinks(text: string): Child {
  return text.split(PATHS).map((part) => (PATHS.test(part) ? html`<a href="${part}">${part}</a>` : part));
}

/** Draws the most important news of a page. @param action a link to what it is about. */
export function alert(tone: Tone, words: Child, action?: Child): Html {
  return html`<div class="alert ${tone}" data-alert>
    ${TONE_ICONS[tone]}
    <p>${words}</p>
    ${action}
  </div>`;
}

/** Icons stand beside words with the same meaning, so screen readers skip them. */
export const BUS_ICON = icon(
  '<path d="M3 12h18M6 12V7m6 5v5m6-5V7"/><circle cx="6" cy="5.2" r="1.8"/><circle cx="12" cy="18.8" r="1.8"/><circle cx="18" cy="5.2" r="1.8"/>',
);
export const CHECK_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="m8 12.3 2.7 2.7L16 9.6"/>');
export const CLOCK_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3 2"/>');
export const COPY_ICON = icon(
  '<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M5 15V6a2 2 0 0 1 2-2h9"/>',
);
export const DEAD_ICON = icon(
  '<path d="M8.2 3h7.6L21 8.2v7.6L15.8 21H8.2L3 15.8V8.2z"/><path d="M12 8v5m0 3v.1"/>',
);
export const HALT_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="M9 9h6v6H9z"/>');
export const MOON_ICON = icon('<path d="M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z"/>');
export const PAUSE_ICON = icon('<path d="M9 5v14M15 5v14"/>');
export const PERSON_ICON = icon('<circle cx="12" cy="8" r="3.5"/><path d="M5 20a7 7 0 0 1 14 0"/>');
export const RETRY_ICON = icon('<path d="M20 11a8 8 0 1 0-2.3 6"/><path d="M20 5v6h-6"/>');
export const SEARCH_ICON = icon('<circle cx="11" cy="11" r="6"/><path d="m20 20-4.6-4.6"/>');
export const SILENT_ICON = icon('<path d="M3 12h5m8 0h5M8 7v10m8-10v10"/>');
export const WARNING_ICON = icon('<path d="M12 4 2.8 20h18.4z"/><path d="M12 10v4.5m0 2.5v.1"/>');

function icon(shapes: string): Html {
  return raw(`<svg class="ico" viewBox="0 0 24 24" aria-hidden="true">${shapes}</svg>`);
}

/** How good news are. */
export type Tone = 'dead' | 'fail' | 'ok' | 'wait';

export const TONE_ICONS: Readonly<Record<Tone, Html>> = {
  dead: DEAD_ICON,
  fail: WARNING_ICON,
  ok: CHECK_ICON,
  wait: CLOCK_ICON,
};
