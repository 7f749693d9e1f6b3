import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';

interface Section {
  /** Of the section, to be linked to; its heading has it with `h-` before it. */
  readonly id: string;
  readonly title: Child;
  /** Beside the title: defines a term or says how the list is sorted. */
  readonly hint?: Child;
  readonly content: Child;
}

/** Draws a part of a page below its heading. */
export function section({ id, title, hint, content }: Section): Html {
  return html`<section id="${id}" aria-labelledby="h-${id}">
    <div class="bar">
      <h2 id="h-${id}">${title}</h2>
      ${hint !== undefined && html`<span class="muted small">${hint}</span>`}
    </div>
    ${content}
  </section>`;
}

export function card(content: Child): Html {
  return html`<div class="card">${content}</div>`;
}

/** Says in one line of a card that a list is empty. */
export function emptyLine(words: string): Html {
  return html`<p class="none muted">${words}</p>`;
}

interface EmptyPage {
  readonly icon?: Html;
  readonly title: string;
  readonly text: Child;
  readonly action?: Child;
}

/** Draws a card for a page that has nothing to list, with what to do next. */
export function emptyCard({ icon, title, text, action }: EmptyPage): Html {
  return card(
    html`<div class="empty">
      ${icon}
      <h2>${title}</h2>
      <p>${text}</p>
      ${action}
    </div>`,
  );
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
const PATHS = /(\/platform\/event-bus(?:\/[\w-]+)*)/;

/** Draws a text with its paths of the console as links. */
export function withLinks(text: string): Child {
  return text.split(PATHS).map((part) => (PATHS.test(part) ? html`<a href="${part}">${part}</a>` : part));
}

/** Draws the most important news of a page. @param action a link to what it is about. */
export function alert(tone: 'dead' | 'fail' | 'ok', icon: Html, words: Child, action?: Child): Html {
  return html`<div class="alert ${tone}" data-alert>
    ${icon}
    <p>${words}</p>
    ${action}
  </div>`;
}
