import { html } from '../../platform/markup.ts';
import type { Child } from '../../platform/markup.ts';
import type { Phrase } from '../kit/document.ts';
import { CHECK_ICON, WARNING_ICON } from '../kit/icons.ts';
import { ago, timeAndAgo } from '../kit/instants.ts';
import { count } from '../kit/words.ts';

export function muted(text: string): Phrase {
  return { html: html`<span class="muted">${text}</span>`, text };
}

export function countOrZero(number: number): Phrase | string {
  return number === 0 ? muted('0') : count(number);
}

/** How long ago, in a browser with its time. @param none where it never was. */
export function agoOr(none: string, at: string | null, now: string): Phrase {
  return at === null ? muted(none) : { html: timeAndAgo(at, now), text: ago(at, now) };
}

/** What works. @param more below it, in a browser. */
export function fine(text: string, more?: string): Phrase {
  return {
    html: html`<span class="state ok-t">${CHECK_ICON}${text}</span
      >${more !== undefined && html`<span class="s">${more}</span>`}`,
    text,
  };
}

/** What does not. @param advice below it, in a browser. */
export function troubled(text: string, advice: Child): Phrase {
  return {
    html: html`<span class="state fail-t">${WARNING_ICON}${text}</span><span class="s">${advice}</span>`,
    text,
    style: 'yellow',
  };
}
