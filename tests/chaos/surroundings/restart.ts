import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { BACK, CRASHES } from '../history.ts';
import type { History } from '../history.ts';
import { grouped } from '../reading.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** How long a lane may be silent after the database is back; the rest is for a busy machine. */
const SILENCE_MS = 10 * SECOND + 4 * SECOND;

const restart = (name: string, mode: 'immediate' | 'fast', awayMs: number, inCi: boolean): Surrounding => ({
  name,
  point: 2,
  inCi,
  play: (scene) => overRestart(scene, mode, awayMs),
});

/** Point 2. */
export const restarts: readonly Surrounding[] = [
  restart('restart-immediate', 'immediate', 0, false),
  restart('restart-fast', 'fast', 0, false),
  restart('away-for-2.6-seconds', 'fast', 2600, true),
];

/** Restarts the database while handlers of all kinds run, each for 50 to 500 ms, and every lane has a backlog. */
async function overRestart(
  { arena, build }: Scene,
  mode: 'immediate' | 'fast',
  awayMs: number,
): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 3, transactions: 28, keys: 2, handlersMs: [50, 500], holdMs: [0, 100] }),
  });
  try {
    await Promise.all([stage.relay(), stage.relay()]);
    await stage.produce();
    await sleep(700);
    stage.note(mode === 'immediate' ? CRASHES : 'the database ends');
    await arena.cluster.crash(mode, awayMs);
    const backAt = Date.now();
    stage.note(BACK);
    const left = await stage.rest(SILENCE_MS);
    const silent = silentLanes(await stage.history(), backAt);
    if (left > 0) await stage.rest(40 * SECOND);
    const broken = [...silent, ...(await stage.broken())];
    return {
      did: `restarted (${mode}, ${awayMs} ms) with ${left === 0 ? 'a' : 'a long'} backlog in every lane`,
      broken,
    };
  } finally {
    await stage.close();
  }
}

/** The lanes that had something to deliver when the database came back, and delivered nothing for too long. */
function silentLanes({ deliveries }: History, backAt: number): string[] {
  const lanes = grouped(deliveries, ({ laneId, laneKey }) => `${laneId} ${laneKey ?? ''}`);
  return [...lanes].flatMap(([lane, versions]) => {
    const latest = grouped(
      versions.filter(({ at }) => at <= backAt),
      ({ position }) => `${position}`,
    );
    const wasOpen = [...latest.values()].some((of) => of.at(-1)!.state !== 'delivered');
    const next = versions.find(({ at, state }) => at > backAt && state === 'delivered');
    const afterMs = (next?.at ?? Infinity) - backAt;
    if (!wasOpen || afterMs <= SILENCE_MS) return [];
    return [
      `lane ${lane.trim()} was silent for more than ${SILENCE_MS / SECOND} s after the database was back`,
    ];
  });
}
