import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import type { Hours } from './read.ts';
import { count } from '../page/words.ts';

/** A bar an hour, 5 apart; the tallest leaves 2 of its height free. */
const STEP = 5;
const WIDTH = 3.8;

/** Deliveries hour by hour as bars, the dead-lettered ones in front. */
export function spark(of: string, hours: Hours): Html {
  const label = `${of}: ${count(sum(hours.delivered))} delivered and ${count(sum(hours.deadLettered))} dead-lettered in the last 24 hours`;
  const highest = Math.max(1, ...hours.delivered, ...hours.deadLettered);
  return html`<svg class="spark" viewBox="0 0 120 24" role="img" aria-label="${label}">
    <path d="${bars(hours.delivered, highest, { step: STEP, width: WIDTH, height: 24 })}" />
    <path class="d" d="${bars(hours.deadLettered, highest, { step: STEP, width: WIDTH, height: 24 })}" />
  </svg>`;
}

/** As `spark`, larger and without the dead-lettered ones. */
export function wideSpark(delivered: readonly number[]): Html {
  const label = 'Delivered per hour over the last 24 hours';
  const shape = bars(delivered, Math.max(1, ...delivered), { step: 5.5, width: 4.3, height: 36 });
  return html`<svg class="spark wide" viewBox="0 0 132 36" role="img" aria-label="${label}">
    <path d="${shape}" />
  </svg>`;
}

interface Grid {
  readonly step: number;
  readonly width: number;
  readonly height: number;
}

function bars(numbers: readonly number[], highest: number, { step, width, height }: Grid): string {
  return numbers
    .map((number, hour) => {
      if (number === 0) return '';
      // What happened at all can be seen, however little beside the rest.
      const tall = Math.max(2, Math.round((number / highest) * (height - 2)));
      return `M${hour * step} ${height}v-${tall}h${width}v${tall}z`;
    })
    .join('');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
