import { number } from './figures.ts';

// Names of the figures that the chart and the README's table look up.

/** In the order of their colours. */
export const CONTENDERS = ['ours', 'graphile-worker', 'pg-boss'] as const;
export type ContenderName = (typeof CONTENDERS)[number];

/** Steady traffic, and where its database is. */
export interface Load {
  /** Events. */
  readonly perSecond: number;
  /** Whether each round trip to the database takes `ROUND_TRIP_MS` longer. */
  readonly isFar: boolean;
  /** Whether each commit takes `COMMIT_MS` longer, as where several storage nodes confirm it. */
  readonly commitsSlowly: boolean;
  /** How many topics it is spread over; by default a single one. */
  readonly topics?: number;
}

export const ROUND_TRIP_MS = 5;
export const COMMIT_MS = 3;

/** Beside the database. */
export const LOADS: readonly Load[] = [50, 200, 400].map((perSecond) => ({
  perSecond,
  isFar: false,
  commitsSlowly: false,
}));

export const DISTANT_PER_SECOND = 100;

/** What a distant database adds, each alone and both. */
export const DISTANT_LOADS: readonly Load[] = [
  { perSecond: DISTANT_PER_SECOND, isFar: true, commitsSlowly: false },
  { perSecond: DISTANT_PER_SECOND, isFar: false, commitsSlowly: true },
  { perSecond: DISTANT_PER_SECOND, isFar: true, commitsSlowly: true },
];

export const BUSY_TOPICS = 60;

/** Both, where no topic is so busy that its events wait for each other. */
export const SPREAD_LOAD: Load = {
  perSecond: DISTANT_PER_SECOND,
  isFar: true,
  commitsSlowly: true,
  topics: BUSY_TOPICS,
};

export type Share = 'p50' | 'p99';

export const loadFigure = (load: Load, share: Share, name: ContenderName) =>
  `${inWords(load)}, ${share}: ${name}, ${name === 'ours' ? 'kicked' : 'notified'}`;

export const besideFigure = (load: Load, share: Share, other: string) =>
  `${inWords(load)}, ${share}: ours relative to ${other}`;

export function inWords({ perSecond, isFar, commitsSlowly, topics }: Load): string {
  const added = [
    ...(topics === undefined ? [] : [`${topics} topics`]),
    ...(isFar ? [`${ROUND_TRIP_MS} ms round trips`] : []),
    ...(commitsSlowly ? [`${COMMIT_MS} ms commits`] : []),
  ];
  return [`${perSecond}/s`, ...added].join(', ');
}

/** The number of ordering keys, used in turn. */
export const KEYS = 2000;

export const keyFigures = {
  none: 'drain, no key: ours',
  some: `drain, ${number(KEYS)} keys: ours`,
  each: 'drain, one key per event: ours',
  somePeer: `drain, ${number(KEYS)} keys: pg-boss, key_strict_fifo`,
  eachPeer: 'drain, one key per event: pg-boss, key_strict_fifo',
} as const;
