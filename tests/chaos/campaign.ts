import { chmod, rm } from 'node:fs/promises';

import fc from 'fast-check';

import { SECOND } from '../../lib/platform/time.ts';
import { buildBus } from './build.ts';
import { violations } from './checker.ts';
import { startCluster } from './cluster.ts';
import type { History } from './history.ts';
import type { Mutation } from './mutations.ts';
import { play } from './play.ts';
import type { World } from './play.ts';
import type { Violation } from './promises/promises.ts';
import { startProxy } from './proxy.ts';
import { RelayPool } from './relays.ts';
import { NEXT_CATALOG, RELEASES } from './releases.ts';
import { limitings, timedRollouts, timings } from './later.ts';
import { joinings, poisonings, rollouts, schedules } from './schedule.ts';
import type { Schedule, Schedules } from './schedule.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A database server and the network before it, for one campaign after the other. */
export interface Arena {
  readonly cluster: World['cluster'];
  readonly proxy: World['proxy'];
  readonly folder: string;
  readonly close: () => Promise<void>;
}

export async function openArena(): Promise<Arena> {
  const folder = await temporaryFolder('runs');
  // The database server reads the clock there, and is another user's.
  await chmod(folder, 0o755);
  const cluster = await startCluster();
  const proxy = await startProxy(cluster.port);
  return {
    cluster,
    proxy,
    folder,
    async close() {
      proxy.close();
      await cluster.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface CampaignOptions {
  /** Null: the bus as it is. */
  readonly mutation: Mutation | null;
  readonly seed: number;
  /** The schedules to play: their places among all that the seed gives, counted from 0. */
  readonly paths: Iterable<number>;
  /** Called after each run. */
  readonly onRun?: (campaign: Campaign) => void;
}

/** How a campaign stands, or how it ended. */
export interface Campaign {
  readonly runs: number;
  readonly seconds: number;
  readonly events: number;
  readonly calls: number;
  readonly faults: number;
  /** Null when the promises held; with a mutation, only those that it breaks count. */
  readonly fall: Fall | null;
  /** With a mutation: the runs that broke other promises, and none of those that it should. */
  readonly others: readonly Fall[];
}

/** A run that broke a promise. */
export interface Fall {
  /** Of the run. */
  readonly path: number;
  readonly history: History;
  readonly found: readonly [Violation, ...Violation[]];
}

/**
 * Plays one schedule after the other, until a promise is broken or all were played.
 *
 * With a mutation, only the promises that it breaks count: it must be found by its own mistake.
 */
export async function campaign(arena: Arena, options: CampaignOptions): Promise<Campaign> {
  const { mutation, seed, paths, onRun = () => undefined } = options;
  const changes = mutation?.changes ?? [];
  const present = await buildBus(changes);
  const next = await buildBus([...changes, ...NEXT_CATALOG]);
  const builds = { present, next };
  const pools = {
    present: new RelayPool(present.relayProcess, 'present'),
    next: new RelayPool(next.relayProcess, 'next'),
  };
  const startedAt = performance.now();
  let state: Campaign = { runs: 0, seconds: 0, events: 0, calls: 0, faults: 0, fall: null, others: [] };
  try {
    for (const path of paths) {
      const schedule = scheduleOf(seed, path, mutation?.schedules ?? schedulesAt(path));
      pools.present.warm();
      if (isRollout(schedule)) pools.next.warm();
      const history = await play({ ...arena, builds, pools }, schedule);
      const [fall, other] = verdict(path, history, mutation);
      state = {
        runs: state.runs + 1,
        seconds: (performance.now() - startedAt) / SECOND,
        events: state.events + history.events.length,
        calls: state.calls + history.log.filter(({ k }) => k === 'start').length,
        faults: state.faults + schedule.faults.length,
        fall,
        others: other ? [...state.others, other] : state.others,
      };
      onRun(state);
      if (fall) break;
    }
  } finally {
    for (const name of RELEASES) {
      pools[name].close();
      await builds[name].remove();
    }
  }
  return state;
}

function isRollout({ producers }: Schedule): boolean {
  return producers.flat().some(({ release }) => release === 'next');
}

/**
 * Every fourth run is of two releases. In every fourth one of these a subscriber joins; the others may have timers. The runs of one release have timers, or neither, or limits
 * of subscribers with timers, and one of sixteen ends its relays.
 */
function schedulesAt(path: number): Schedules {
  if (path % 16 === 11) return joinings;
  if (path % 4 === 3) return path % 32 === 19 ? timedRollouts : rollouts;
  if (path % 16 === 14) return poisonings;
  return [timings, schedules, limitings][path % 4]!;
}

function scheduleOf(seed: number, path: number, kind: Schedules): Schedule {
  return fc.sample(kind, { seed, path: String(path), numRuns: 1 })[0]!;
}

function verdict(
  path: number,
  history: History,
  mutation: Mutation | null,
): [fall: Fall | null, other: Fall | null] {
  const [any, ...more] = violations(history);
  if (!any) return [null, null];
  const all: Fall = { path, history, found: [any, ...more] };
  if (!mutation) return [all, null];
  const [own, ...moreOwn] = all.found.filter(({ rule }) => mutation.breaks.includes(rule));
  return own ? [{ path, history, found: [own, ...moreOwn] }, null] : [null, all];
}
