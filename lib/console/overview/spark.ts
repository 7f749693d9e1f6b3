import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { count } from '../kit/words.ts';
import type { Hours } from './read.ts';

interface Grid {
  readonly step: number;
  readonly width: number;
  readonly height: number;
}

/** One bar per hour; the unit is that of the `viewBox`. */
const NARROW: Grid = { step: 5, width: 3.8, height: 24 };
const WIDE: Grid = { step: 5.5, width: 4.3, height: 36 };

/** Draws a topic's deliveries per hour as bars, the dead-lettered ones in front. */
export function spark(topic: string, hours: Hours): Html {
  const label = `${topic}: ${count(sum(hours.delivered))} delivered and ${count(sum(hours.deadLettered))} dead-lettered in the last 24 hours`;
  const highest = Math.max(1, ...hours.delivered, ...hours.deadLettered);
  return html`<svg class="spark" viewBox="0 0 120 24" role="img" aria-label="${label}">
    <path d="${bars(hours.delivered, highest, NARROW)}" />
    <path class="d" d="${bars(hours.deadLettered, highest, NARROW)}" />
  </svg>`;
}

/** Draws the delivered ones alone, larger. */
export function wideSpark(delivered: readonly number[]): Html {
  const label = 'Deliveries per hour over the last 24 hours';
  const shape = bars(delivered, Math.max(1, ...delivered), WIDE);
  return html`<svg class="spark wide" viewBox="0 0 132 36" role="img" aria-label="${label}">
    <path d="${shape}" />
  </svg>`;
}

function bars(numbers: readonly number[], highest: number, { step, width, height }: Grid): string {
  return numbers
    .map((number, hour) => {
      if (number === 0) return '';
      // A single delivery stays visible beside thousands; the tallest bar leaves 2 free.
      const tall = Math.max(2, Math.round((number / highest) * (height - 2)));
      return `M${hour * step} ${height}v-${tall}h${width}v${tall}z`;
    })
    .join('');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
