import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { HOUR, instantOf } from '../../platform/time.ts';
import { count, weekdayAndTime } from '../kit/words.ts';
import type { BusCounts } from './read.ts';

/** The parts of a bar, from the bottom up: the class of each, and its words. */
const PARTS = [
  ['done', 'delivered'],
  ['dead', 'dead-lettered'],
] as const;

/** In pixels; widths are shares of the page's, so that the SVG fits any width without a script. */
const HEIGHT = 112;
const SMALLEST = 3;

/** How much of an hour's width its bar leaves free at each side. */
const GAP = 0.14;

/** Draws the deliveries of the last 24 hours, a bar for each hour. @returns null where there are none. */
export function hoursChart({ hours, generatedAt }: Pick<BusCounts, 'hours' | 'generatedAt'>): Html | null {
  const thisHour = Math.floor(Date.parse(generatedAt) / HOUR) * HOUR;
  const bars = hours.delivered.map((delivered, index, { length }) => ({
    startsAt: instantOf(thisHour - (length - 1 - index) * HOUR),
    numbers: [delivered, hours.deadLettered[index]!] as const,
  }));
  const most = Math.max(...bars.map(({ numbers: [delivered, dead] }) => delivered + dead));
  if (most === 0) return null;
  const top = roundAbove(most);
  const heightOf = (number: number) => Math.round((number / top) * HEIGHT);
  const place = (index: number) => `${Math.round((index / bars.length) * 1e5) / 1e3}%`;
  const partsOf = (numbers: readonly number[], index: number) => {
    let bottom = HEIGHT;
    return numbers.map((number, part) => {
      if (number === 0) return null;
      // A single delivery stays visible beside thousands.
      const tall = Math.min(bottom, Math.max(SMALLEST, heightOf(number)));
      bottom -= tall;
      return html`<rect
        class="${PARTS[part]![0]}"
        x="${place(index + GAP)}"
        width="${place(1 - 2 * GAP)}"
        y="${bottom}"
        height="${tall}"
      />`;
    });
  };
  const wordsOf = (numbers: readonly number[]) =>
    numbers.map((number, part) => `${count(number)} ${PARTS[part]![1]}`).join(', ');
  return html`<figure class="chart">
    <figcaption>
      <h3>Deliveries by the hour</h3>
      ${PARTS.map(([look, words]) => html`<span class="key"><i class="${look}"></i>${words}</span>`)}
    </figcaption>
    <svg
      width="100%"
      height="${HEIGHT + 24}"
      role="img"
      aria-label="Deliveries by the hour: over the last 24 hours"
    >
      ${[0, top].map((number) => gridLine(HEIGHT - heightOf(number), count(number)))}
      ${bars.map(({ startsAt }, index) => timeLabel(startsAt, place(index)))}
      ${bars.map(({ numbers }, index) => partsOf(numbers, index))}
      ${bars.map(
        ({ startsAt, numbers }, index) =>
          html`<rect class="over" x="${place(index)}" width="${place(1)}" y="0" height="${HEIGHT}">
            <title data-at="${startsAt}" data-to="weekday">
              ${weekdayAndTime(startsAt)}: ${wordsOf(numbers)}
            </title>
          </rect>`,
      )}
    </svg>
  </figure>`;
}

function roundAbove(greatest: number): number {
  const power = 10 ** Math.floor(Math.log10(greatest));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= greatest)!;
}

function gridLine(y: number, words: string): Html {
  return html`<line class="grid" x1="0" x2="100%" y1="${y}" y2="${y}" />
    <text x="-8" y="${y + 4}" text-anchor="end">${words}</text>`;
}

/** Labels every sixth hour, midnight with its day; every other one is left out on a phone. */
function timeLabel(startsAt: string, x: string): Child {
  const [weekday = '', clock = ''] = weekdayAndTime(startsAt).split(' ');
  const nth = Number(clock.slice(0, 2)) / 6;
  if (!Number.isInteger(nth)) return null;
  return html`<line class="tick" x1="${x}" x2="${x}" y1="${HEIGHT}" y2="${HEIGHT + 5}" />
    <text
      class="${nth % 2 === 0 ? '' : 'minor'}"
      x="${x}"
      y="${HEIGHT + 19}"
      text-anchor="middle"
      data-at="${startsAt}"
      data-to="axis"
      >${nth === 0 ? weekday : clock}</text
    >`;
}
