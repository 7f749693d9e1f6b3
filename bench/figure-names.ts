import { number } from './figures.ts';

// Names of the figures that the chart and the README's table look up.

/** In the order of their colours. */
export const CONTENDERS = ['ours', 'graphile-worker', 'pg-boss'] as const;
export type ContenderName = (typeof CONTENDERS)[number];

/** Events a second of steady traffic. */
export const LOADS = [50, 200, 400] as const;

/** The delay that a distant database adds to each round trip. */
export const ROUND_TRIP_MS = 5;

/** Whether the database is distant. */
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
  `${load(perSecond, share, distance)}: ours relative to the best peer`;

const load = (perSecond: number, share: 'p50' | 'p99', { isFar }: Distance) =>
  `${perSecond}/s${isFar ? `, ${ROUND_TRIP_MS} ms round trips` : ''}, ${share}`;

/** The number of ordering keys, used in turn. */
export const KEYS = 2000;

export const keyFigures = {
  none: 'drain, no key: ours',
  some: `drain, ${number(KEYS)} keys: ours`,
  each: 'drain, one key per event: ours',
  somePeer: `drain, ${number(KEYS)} keys: pg-boss, key_strict_fifo`,
  eachPeer: 'drain, one key per event: pg-boss, key_strict_fifo',
} as const;
