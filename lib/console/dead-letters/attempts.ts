import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { phraseOf } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, DOT_ICON, PERSON_ICON, WARNING_ICON } from '../kit/icons.ts';
import { duration, time, timeText, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import type { DeadLetter } from './delivery.ts';
import { historyOf, SAME_ANSWER } from './history.ts';
import type { Answer, Moment } from './history.ts';

/** A delivery's history. */
interface History extends Pick<DeadLetter, 'attempts' | 'nextAttemptAt' | 'generatedAt'> {
  /** When and by whom its event was recorded, where the page does not say so elsewhere. */
  readonly recorded?: { readonly at: string; readonly by: string };
}

/** Draws a delivery's history for a browser. */
export function attemptTimeline(
  { attempts, nextAttemptAt, generatedAt: now, recorded }: History,
  { names }: PageContext,
): Html {
  return html`<ol class="tl">
    ${recorded && entry({ at: recorded.at, what: `Recorded by ${recorded.by}`, notes: [] }, ['', DOT_ICON], now)}
    ${historyOf(attempts, { names }).map((moment) => entry(moment, LOOKS[moment.state ?? 'operator'], now))}
    ${
      nextAttemptAt !== null &&
      entry(
        { at: nextAttemptAt, what: `Next attempt ${until(nextAttemptAt, now)}`, notes: [] },
        LOOKS.pending,
        now,
      )
    }
  </ol>`;
}

const LOOKS = {
  pending: ['', CLOCK_ICON],
  failing: ['fail', WARNING_ICON],
  dead_lettered: ['dead', DEAD_ICON],
  delivered: ['ok', CHECK_ICON],
  operator: ['act', PERSON_ICON],
} as const;

function entry(
  { at, what, tookMs, notes, answer, isProbe = false }: Omit<Moment, 'state'>,
  [tone, icon]: readonly [tone: string, icon: Html],
  now: string,
): Html {
  const shown = notes.map((note) => phraseOf(note).html).filter((note) => note !== null && note !== '');
  return html`<li class="${tone}">
    ${icon}<b>${time(at, now)}</b> ${phraseOf(what).html}${
      tookMs !== undefined && html` <span class="muted nowrap">· ${duration(tookMs)}</span>`
    }${shown.map((note) => html`<span class="w">${note}</span>`)}${
      answer && !isProbe && answerBox(answer, at, now)
    }
  </li>`;
}

function answerBox({ text, isRepeated }: Answer, at: string, now: string): Html {
  if (isRepeated) return html`<span class="w">${SAME_ANSWER}</span>`;
  return html`<pre class="code answer" tabindex="0" role="region" aria-label="Answer at ${timeText(at, now)}">
${text}</pre>`;
}
