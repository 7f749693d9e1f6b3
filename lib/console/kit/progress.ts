import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from './icons.ts';
import type { Counts } from './shapes.ts';
import { count } from './words.ts';

type Tone = 'ok' | 'wait' | 'fail' | 'dead';

interface Progress {
  readonly states: Counts & { readonly delivered: number };
  /** As many as are delivered in the end, if all goes well. */
  readonly of: number;
  /** All that the bar stands for: what has no state yet is its empty part. */
  readonly whole: number;
  /** The word for what is dead-lettered. */
  readonly dead?: string;
  /** Numbers beside those of the states. Those with a tone are part of the bar. */
  readonly others: readonly (readonly [icon: Html, name: string, number: number, tone?: Tone] | false)[];
  /** Ends the bar's name. */
  readonly otherWords?: string;
}

/** Draws the states of an operation's deliveries: their shares as a bar, and their numbers below it in the same order. */
export function progressCard(
  { states, of, whole, dead = 'dead-lettered', others, otherWords = '' }: Progress,
  action: Child = null,
): Html {
  const { delivered, pending, failing, deadLettered } = states;
  const shown = others.filter((other) => other !== false);
  return html`<div class="card progress">
    ${shareBar({
      label: `${count(delivered)} of ${count(of)} delivered, ${count(pending)} pending, ${count(failing)} failing, ${count(deadLettered)} ${dead}${otherWords}`,
      whole,
      parts: [
        ['ok', delivered],
        ['wait', pending],
        ['fail', failing],
        ['dead', deadLettered],
        ...shown.flatMap(([, , number, tone]) => (tone === undefined ? [] : [[tone, number] as const])),
      ],
    })}
    <dl class="counts">
      ${stateCount('ok', CHECK_ICON, 'delivered', delivered)}
      ${stateCount('', CLOCK_ICON, 'pending', pending)} ${stateCount('fail', RETRY_ICON, 'failing', failing)}
      ${stateCount('dead', DEAD_ICON, dead, deadLettered)}
      ${shown.map(([icon, name, number]) => stateCount('', icon, name, number))}
    </dl>
    ${action}
  </div>`;
}

interface Shares {
  readonly label: string;
  readonly whole: number;
  /** What remains of the whole stays empty. */
  readonly parts: readonly (readonly [tone: Tone, number: number])[];
}

/** Draws the parts of a whole as one bar. */
function shareBar({ label, whole, parts }: Shares): Html {
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
function stateCount(tone: string, icon: Html, name: string, number: number): Html {
  return html`<div class="${number > 0 ? tone : ''}">
    <dt>${icon}${name}</dt>
    <dd>${count(number)}</dd>
  </div>`;
}
