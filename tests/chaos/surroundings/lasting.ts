import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { pgbouncerPath, startPgbouncer } from '../../support/pgbouncer.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** How many relay processes come and go, and how long each stays at least. */
const ROLLS = 6;
const STAY_MS = 700;

/** Relay processes beside a relay of the cron's kind: each is ended in the middle of its handlers, and another takes its place. */
export const lasting: readonly Surrounding[] = [
  { name: 'relay-processes-that-come-and-go', point: 9, inCi: true, play: (scene) => comeAndGo(scene, null) },
  {
    name: 'relay-processes-behind-a-pooler',
    point: 9,
    inCi: false,
    lacks: () => (pgbouncerPath === undefined ? 'pgbouncer is not installed' : null),
    async play(scene) {
      const pooler = await startPgbouncer(scene.arena.cluster.url('postgres'));
      try {
        return await comeAndGo(scene, pooler.urlOf);
      } finally {
        await pooler.stop();
      }
    },
  },
];

async function comeAndGo({ arena, build }: Scene, urlOf: ((url: string) => string) | null): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({
      producers: 3,
      transactions: 50,
      keys: 2,
      longestWaitMs: 150,
      handlersMs: [20, 400],
      holdMs: [0, 100],
    }),
  });
  const start = () => stage.relay((name) => urlOf?.(stage.url(name)) ?? stage.url(name), true);
  try {
    const [, , ...processes] = await Promise.all([stage.relay(), start(), start(), start()]);
    const produced = stage.produce();
    for (let roll = 0; roll < ROLLS; roll += 1) {
      await sleep(STAY_MS);
      processes.shift()!.signal('SIGTERM');
      processes.push(await start());
    }
    await produced;
    await stage.rest(30 * SECOND);
    // Handlers of relays that were ended have returned: not one attempt is charged, nor any lane left to its lease.
    return {
      did: `ended ${ROLLS} of ${ROLLS + 3} relay processes while their handlers ran`,
      broken: await stage.broken(),
    };
  } finally {
    await stage.close();
  }
}
