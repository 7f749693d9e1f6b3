import { DAY, HOUR, MINUTE, SECOND } from '../../platform/time.ts';

/** A vertical axis. */
export interface Scale {
  /** From the lowest up; the highest value may be above the last. */
  readonly ticks: readonly number[];
  /** How high a value stands: 0 at the lowest tick, 1 at the highest. */
  readonly at: (value: number) => number;
}

/** Makes an axis for numbers, from 0 to a round number at or above the greatest. */
export function countScale(values: readonly number[]): Scale {
  const greatest = Math.max(1, ...values);
  const power = 10 ** Math.floor(Math.log10(greatest));
  const top = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= greatest)!;
  const ticks = top % 2 === 0 ? [0, top / 2, top] : [0, top];
  return { ticks, at: (value) => value / top };
}

const TIMES_MS = [
  1,
  10,
  100,
  SECOND,
  10 * SECOND,
  MINUTE,
  10 * MINUTE,
  HOUR,
  6 * HOUR,
  DAY,
  7 * DAY,
  30 * DAY,
  365 * DAY,
];

/** More labels would touch each other. */
const MOST_TICKS = 6;

/** Makes a logarithmic axis for milliseconds: an hour's outlier leaves the milliseconds readable. */
export function timeScale(values: readonly number[]): Scale {
  const least = Math.max(TIMES_MS[0]!, Math.min(...values));
  const greatest = Math.max(least, ...values);
  const first = TIMES_MS.findLastIndex((ms) => ms <= least);
  const after = TIMES_MS.findIndex((ms) => ms >= greatest);
  const last = Math.max(first + 1, after === -1 ? TIMES_MS.length - 1 : after);
  const all = TIMES_MS.slice(first, last + 1);
  const [from, to] = [Math.log(all[0]!), Math.log(all.at(-1)!)];
  const every = Math.ceil((all.length - 1) / (MOST_TICKS - 1));
  const ticks = all.filter((_, index) => index % every === 0);
  return {
    ticks,
    at: (value) => Math.min(1, Math.max(0, (Math.log(Math.max(value, 1)) - from) / (to - from))),
  };
}
