import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { count } from './words.ts';

interface Shares {
  readonly label: string;
  readonly whole: number;
  /** What remains of the whole stays empty. */
  readonly parts: readonly (readonly [tone: 'ok' | 'wait' | 'fail' | 'dead', number: number])[];
}

/** Draws the parts of a whole as one bar. */
export function shareBar({ label, whole, parts }: Shares): Html {
  let from = 0;
  return html`<svg
    class="share"
    viewBox="0 0 1000 12"
    preserveAspectRatio="none"
    role="img"
    aria-label="${label}"
  >
    ${parts.map(([tone, number]) => {
      const x = from;
      from += (number / Math.max(1, whole)) * 1000;
      return number > 0 && html`<rect class="${tone}" x="${x}" width="${from - x}" height="12" />`;
    })}
  </svg>`;
}

/** One of the numbers below the bar. */
export function stateCount(tone: string, icon: Html, name: string, number: number): Html {
  return html`<div class="${number > 0 ? tone : ''}">
    <dt>${icon}${name}</dt>
    <dd>${count(number)}</dd>
  </div>`;
}
