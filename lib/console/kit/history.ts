import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { phraseOf } from './document.ts';
import type { Part } from './document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PERSON_ICON, WARNING_ICON } from './icons.ts';
import { duration, time, timeText } from './instants.ts';
import type { State } from './shapes.ts';

/** A moment of a history. */
export interface Moment {
  readonly at: string;
  /** The state that it began; null for an operator's action. */
  readonly state: State | null;
  readonly what: Part;
  readonly tookMs?: number;
  /** An error, what followed, an operator's reason. */
  readonly notes: readonly Part[];
  readonly answer?: Answer | null;
}

/** What a component elsewhere answered, safe to show with its line breaks. */
interface Answer {
  readonly text: string;
  /** Whether the moment before has the same answer, which is not shown again. */
  readonly isRepeated: boolean;
}

export const SAME_ANSWER = 'the same answer as before';

const LOOKS = {
  pending: ['', CLOCK_ICON],
  failing: ['fail', WARNING_ICON],
  dead_lettered: ['dead', DEAD_ICON],
  delivered: ['ok', CHECK_ICON],
  operator: ['act', PERSON_ICON],
} as const;

/** Draws a history for a browser, oldest first. */
export function timeline(moments: readonly Moment[], now: string): Html {
  return html`<ol class="tl">
    ${moments.map(({ at, state, what, tookMs, notes, answer }) => {
      const [tone, icon] = LOOKS[state ?? 'operator'];
      const shown = notes.map((note) => phraseOf(note).html).filter((note) => note !== null && note !== '');
      return html`<li class="${tone}">
        ${icon}<b>${time(at, now)}</b> ${phraseOf(what).html}${
          tookMs !== undefined && html` <span class="muted nowrap">· ${duration(tookMs)}</span>`
        }${shown.map((note) => html`<span class="w">${note}</span>`)}${answer && answerBox(answer, at, now)}
      </li>`;
    })}
  </ol>`;
}

function answerBox({ text, isRepeated }: Answer, at: string, now: string): Html {
  if (isRepeated) return html`<span class="w">${SAME_ANSWER}</span>`;
  return html`<pre class="code answer" tabindex="0" role="region" aria-label="Answer at ${timeText(at, now)}">
${text}</pre>`;
}
