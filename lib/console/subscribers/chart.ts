import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import type { Scale } from './scales.ts';

/** The horizontal axis that all charts of a page share. */
export interface TimeAxis {
  /** How many intervals there are. */
  readonly number: number;
  readonly labels: readonly AxisLabel[];
  /** Where operators acted, between 0 and 1. */
  readonly marks: readonly number[];
}

interface AxisLabel extends Interval {
  /** Of the interval that it stands at the beginning of. */
  readonly index: number;
  /** Whether it is left out where there is little room. */
  readonly isMinor: boolean;
}

/** An interval in words, which begin with its time. */
export interface Interval {
  readonly words: string;
  /** The instant that the script writes in the browser's zone; null for a day, which is one of UTC. */
  readonly at: string | null;
}

/** Actions that are so close to each other that they share a label. */
export interface Mark {
  /** Between 0 and 1. */
  readonly at: number;
  /** Their numbers in the list, such as `3` or `4–6`. */
  readonly words: string;
}

interface Chart {
  readonly title: string;
  /** Beside the title: what the shapes stand for. */
  readonly keys: readonly Key[];
  /** For screen readers: the chart in a sentence. */
  readonly summary: string;
  readonly scale: Scale;
  readonly tick: (value: number) => string;
  /** For each interval its shapes, from the back to the front. */
  readonly shapes: readonly (readonly Shape[])[];
  /** For each interval its values in words, shown under the pointer. */
  readonly words: readonly Interval[];
  /** In place of the chart, when it has no shapes. */
  readonly empty: string;
}

interface Key {
  readonly tone: Tone;
  readonly words: string;
}

/** A class of the style sheet. */
type Tone = 'done' | 'again' | 'fail' | 'dead' | 'half' | 'most' | 'age';

/** A bar from one value to another. */
export interface Shape {
  readonly tone: Tone;
  readonly from: number;
  readonly to: number;
  /** Its place in the interval's width, as a share: [0, 1] for all of it. */
  readonly across?: readonly [left: number, right: number];
}

/** In pixels; widths are shares of the page's. */
const HEIGHT = 112;
const SMALLEST = 3;

/** Draws bars over time, in SVG that fits any width without a script: places across are shares, heights are pixels. */
export function chart(
  { title, keys, summary, scale, tick, shapes, words, empty }: Chart,
  axis: TimeAxis,
): Html {
  const isEmpty = shapes.every((one) => one.length === 0);
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      ${keys.map(({ tone, words: meaning }) => html`<span class="key"><i class="${tone}"></i>${meaning}</span>`)}
    </figcaption>
    ${isEmpty ? html`<p class="none muted">${empty}</p>` : plot()}
  </figure>`;

  function plot(): Html {
    return html`<svg width="100%" height="${HEIGHT + 24}" role="img" aria-label="${summary}">
      ${scale.ticks.map((value) => gridLine(heightOf(scale, value), tick(value)))}
      ${axis.labels.map((label) => timeLabel(label, axis.number))}
      ${shapes.map((ofInterval, index) => ofInterval.map((shape) => bar(shape, index, scale, axis.number)))}
      ${axis.marks.map((at) => html`<line class="mark" x1="${percent(at)}" x2="${percent(at)}" y1="0" y2="${HEIGHT}" />`)}
      ${words.map((one, index) => pointerArea(one, index, axis.number))}
    </svg>`;
  }
}

/** Draws the numbers of operators' actions above the charts, where they acted. */
export function markStrip(marks: readonly Mark[], summary: string): Html {
  return html`<figure class="chart marks">
    <figcaption><h3>Operators’ actions</h3></figcaption>
    <svg width="100%" height="20" role="img" aria-label="${summary}">
      ${marks.map(({ at, words }) => html`<text class="mark" x="${percent(at)}" y="15" text-anchor="middle">${words}</text>`)}
    </svg>
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

function timeLabel({ index, words, at, isMinor }: AxisLabel, number: number): Html {
  const x = percent(index / number);
  return html`<line class="tick" x1="${x}" x2="${x}" y1="${HEIGHT}" y2="${HEIGHT + 5}" /><text
      class="${isMinor ? 'minor' : ''}"
      x="${x}"
      y="${HEIGHT + 19}"
      text-anchor="middle"
      ${at !== null && html`data-at="${at}" data-to="axis"`}
      >${words}</text
    >`;
}

/** How much of an interval's width its bars leave free at each side. */
const GAP = 0.14;

function bar({ tone, from, to, across = [0, 1] }: Shape, index: number, scale: Scale, number: number): Child {
  const bottom = heightOf(scale, from);
  // A single delivery stays visible beside thousands.
  const top = Math.max(0, Math.min(heightOf(scale, to), bottom - SMALLEST));
  const left = GAP + across[0] * (1 - 2 * GAP);
  const width = (across[1] - across[0]) * (1 - 2 * GAP);
  return html`<rect
    class="${tone}"
    x="${percent((index + left) / number)}"
    width="${percent(width / number)}"
    y="${top}"
    height="${Math.max(SMALLEST, bottom - top)}"
  />`;
}

/** The whole height of an interval, so that small bars have their values under the pointer too. */
function pointerArea({ words, at }: Interval, index: number, number: number): Html {
  return html`<rect
    class="over"
    x="${percent(index / number)}"
    width="${percent(1 / number)}"
    y="0"
    height="${HEIGHT}"
  >
    <title ${at !== null && html`data-at="${at}" data-to="weekday"`}>${words}</title>
  </rect>`;
}

function heightOf(scale: Scale, value: number): number {
  return Math.round((1 - scale.at(value)) * HEIGHT);
}

function percent(share: number): string {
  return `${Math.round(share * 1e5) / 1e3}%`;
}
