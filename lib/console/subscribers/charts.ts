import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { dayAndMonth, weekdayAndTime } from '../kit/instants.ts';
import { count, quantity } from '../kit/words.ts';
import { ageWords, intervalWords, spanWords, timeWords } from './figures.ts';
import type { HealthInterval, SubscriberHealth } from './read.ts';
import { countScale, timeScale } from './scales.ts';
import type { Scale } from './scales.ts';

interface Chart {
  readonly title: string;
  /** Beside the title: what the shapes stand for. */
  readonly keys: readonly (readonly [tone: Tone, words: string])[];
  /** For screen readers: the chart in a sentence. */
  readonly summary: string;
  readonly scale: Scale;
  readonly tick: (value: number) => string;
  /** The shapes of an interval, from the bottom up. */
  readonly shapes: (interval: HealthInterval) => readonly Shape[];
  /** The values of an interval, shown under the pointer. */
  readonly words: (interval: HealthInterval) => string;
  /** In place of the chart, when it has no shapes. */
  readonly empty: string;
}

/** A class of the style sheet. */
type Tone = 'done' | 'fail' | 'age';

/** A bar from one value to another. */
type Shape = readonly [tone: Tone, from: number, to: number];

/** Draws whether the subscriber keeps up: what it was delivered and what failed, and how long the oldest delivery waited. */
export function chartsOf(view: SubscriberHealth): Html {
  return html`<div class="charts">
    ${[deliveries(view), longestWait(view)].map((one) => drawn(one, view))}
  </div>`;
}

const deliveredIn = ({ delivered, replays }: Pick<HealthInterval, 'delivered' | 'replays'>) =>
  delivered + replays.delivered;

function deliveries({ intervals, whole }: SubscriberHealth): Chart {
  const words = (one: Pick<HealthInterval, 'delivered' | 'replays' | 'failedAttempts'>) =>
    `${count(deliveredIn(one))} delivered, ${quantity(one.failedAttempts, 'failed attempt')}`;
  return {
    title: 'Delivered and failed',
    keys: [
      ['done', 'delivered'],
      ['fail', 'failed attempts'],
    ],
    summary: words(whole),
    scale: countScale(intervals.map((one) => deliveredIn(one) + one.failedAttempts)),
    tick: count,
    shapes: (one) => {
      const delivered = deliveredIn(one);
      return [
        ...(delivered > 0 ? [['done', 0, delivered] as const] : []),
        ...(one.failedAttempts > 0 ? [['fail', delivered, delivered + one.failedAttempts] as const] : []),
      ];
    },
    words,
    empty: 'Nothing was delivered, and nothing failed.',
  };
}

function longestWait({ intervals, whole }: SubscriberHealth): Chart {
  const agesMs = intervals.flatMap(({ backlogAgeSeconds: seconds }) =>
    seconds === null ? [] : [seconds * SECOND],
  );
  const scale = timeScale([SECOND, ...agesMs]);
  return {
    title: 'Longest wait',
    keys: [['age', 'oldest unfinished delivery, of samples each minute']],
    summary: `at most ${ageWords(whole.backlogAgeSeconds)}`,
    scale,
    tick: timeWords,
    shapes: ({ backlogAgeSeconds: seconds }) =>
      seconds === null ? [] : [['age', scale.ticks[0]!, seconds * SECOND]],
    words: ({ backlogAgeSeconds }) => `oldest: ${ageWords(backlogAgeSeconds)}`,
    empty: 'Nothing waited at any sample.',
  };
}

/** In pixels; widths are shares of the page's, so that the SVG fits any width without a script. */
const HEIGHT = 112;
const SMALLEST = 3;

/** How much of an interval's width its bars leave free at each side. */
const GAP = 0.14;

function drawn(
  { title, keys, summary, scale, tick, shapes, words, empty }: Chart,
  { intervals, span }: SubscriberHealth,
): Html {
  const heightOf = (value: number) => Math.round((1 - scale.at(value)) * HEIGHT);
  const place = (index: number) => percent(index / intervals.length);
  const bars = intervals.map(shapes);
  const plot = html`<svg
    width="100%"
    height="${HEIGHT + 24}"
    role="img"
    aria-label="${title} in ${spanWords(span)}: ${summary}. The table below has the values."
  >
    ${scale.ticks.map((value) => gridLine(heightOf(value), tick(value)))}
    ${intervals.map((one, index) => timeLabel(one.startsAt, index, span, intervals.length))}
    ${bars.map((ofInterval, index) =>
      ofInterval.map(([tone, from, to]) => {
        const bottom = heightOf(from);
        // A single delivery stays visible beside thousands.
        const top = Math.max(0, Math.min(heightOf(to), bottom - SMALLEST));
        return html`<rect
          class="${tone}"
          x="${place(index + GAP)}"
          width="${place(1 - 2 * GAP)}"
          y="${top}"
          height="${Math.max(SMALLEST, bottom - top)}"
        />`;
      }),
    )}
    ${intervals.map(
      (one, index) =>
        html`<rect class="over" x="${place(index)}" width="${place(1)}" y="0" height="${HEIGHT}">
          <title ${span === 'hours' && html`data-at="${one.startsAt}" data-to="weekday"`}>
            ${intervalWords(one.startsAt, span)}: ${words(one)}
          </title>
        </rect>`,
    )}
  </svg>`;
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      ${keys.map(([tone, meaning]) => html`<span class="key"><i class="${tone}"></i>${meaning}</span>`)}
    </figcaption>
    ${bars.every((one) => one.length === 0) ? html`<p class="none muted">${empty}</p>` : plot}
  </figure>`;
}

function gridLine(y: number, words: string): Html {
  return html`<line class="grid" x1="0" x2="100%" y1="${y}" y2="${y}" /><text
      x="-8"
      y="${y + 4}"
      text-anchor="end"
      >${words}</text
    >`;
}

/** Labels every sixth hour, midnight with its day, or every fifth day; every other one is left out on a phone. */
function timeLabel(startsAt: string, index: number, span: SubscriberHealth['span'], number: number): Child {
  const [weekday = '', clock = ''] = weekdayAndTime(startsAt).split(' ');
  const isOfHours = span === 'hours';
  const nth = isOfHours ? Number(clock.slice(0, 2)) / 6 : (number - 1 - index) / 5;
  if (!Number.isInteger(nth)) return null;
  const words = isOfHours ? (nth === 0 ? weekday : clock) : dayAndMonth(startsAt);
  const x = percent(index / number);
  return html`<line class="tick" x1="${x}" x2="${x}" y1="${HEIGHT}" y2="${HEIGHT + 5}" /><text
      class="${nth % 2 === 0 ? '' : 'minor'}"
      x="${x}"
      y="${HEIGHT + 19}"
      text-anchor="middle"
      ${isOfHours && html`data-at="${startsAt}" data-to="axis"`}
      >${words}</text
    >`;
}

function percent(share: number): string {
  return `${Math.round(share * 1e5) / 1e3}%`;
}
