import { number } from './figures.ts';

// How figures are called that are also looked up: by the chart and by the README's table.

/** In the order of their colours. */
export const CONTENDERS = ['ours', 'graphile-worker', 'pg-boss'] as const;
export type ContenderName = (typeof CONTENDERS)[number];

/** Events a second of steady traffic. */
export const LOADS = [50, 200, 400] as const;

/** What a database that is some way off adds to each. */
export const ROUND_TRIP_MS = 5;

/** Whether the database is some way off. */
interface Distance {
  readonly isFar: boolean;
}

export const loadFigure = (
  perSecond: number,
  share: 'p50' | 'p99',
  name: ContenderName,
  distance: Distance,
) => `${load(perSecond, share, distance)}: ${name}, ${name === 'ours' ? 'kicked' : 'notified'}`;

export const besideFigure = (perSecond: number, share: 'p50' | 'p99', distance: Distance) =>
  `${load(perSecond, share, distance)}: ours beside the best peer`;

const load = (perSecond: number, share: 'p50' | 'p99', { isFar }: Distance) =>
  `${perSecond}/s${isFar ? `, ${ROUND_TRIP_MS} ms round trips` : ''}, ${share}`;

/** Ordering keys that take turns. */
export const KEYS = 2000;

export const keyFigures = {
  none: 'drain, no key: ours',
  some: `drain, ${number(KEYS)} keys: ours`,
  each: 'drain, a key each: ours',
  somePeer: `drain, ${number(KEYS)} keys: pg-boss, key_strict_fifo`,
  eachPeer: 'drain, a key each: pg-boss, key_strict_fifo',
} as const;
