import { SECOND } from '../../../lib/platform/time.ts';
import type { History } from '../history.ts';
import type { Trap } from '../proxy.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** The limit of a turn, and what a busy machine may add. */
const LIMIT_MS = 15 * SECOND + 5 * SECOND;

const halfOpen = (name: string, trap: Trap): Surrounding => ({
  name,
  point: 3,
  inCi: false,
  play: (scene) => withHalfOpen(scene, trap),
});

/** Point 3. */
export const halfOpens: readonly Surrounding[] = [
  halfOpen('half-open-before-a-turn', 'all that follows'),
  halfOpen('half-open-after-a-turn', 'all that follows a turn'),
];

/** Nothing passes on one connection of the first relay any more, which stays open. The second relay has no proxy. */
async function withHalfOpen({ arena, build }: Scene, trap: Trap): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 3, transactions: 90, keys: 2, longestWaitMs: 500, handlersMs: [0, 60] }),
  });
  try {
    const { port } = arena.proxy;
    const [cut, other] = await Promise.all([stage.relay((name) => stage.url(name, { port })), stage.relay()]);
    const produced = stage.produce();
    await stage.delivered(20);
    const silentAt = Date.now();
    stage.note(`a connection falls silent: ${trap}`);
    arena.proxy.set(trap);
    await produced;
    // A claim whose answer was lost is held until its lease is over: 30 seconds.
    await stage.rest(45 * SECOND);
    const history = await stage.history();
    const broken = [
      ...pauses(history, cut.name, silentAt, LIMIT_MS),
      ...pauses(history, other.name, silentAt, 3 * SECOND),
      ...(await stage.broken()),
    ];
    return { did: 'a connection of one of two relays fell silent at a turn', broken };
  } finally {
    arena.proxy.heal();
    await stage.close();
  }
}

/** Whether a relay wrote nothing for too long while there was traffic. */
function pauses(
  { lanes, deliveries, events }: History,
  relay: string,
  from: number,
  longestMs: number,
): string[] {
  const until = Math.max(...events.map(({ createdAt }) => Date.parse(createdAt)));
  const own = [...lanes, ...deliveries].filter(({ by, at }) => by === relay && at >= from);
  const times = [from, ...own.map(({ at }) => at).filter((at) => at < until), until].toSorted(
    (a, b) => a - b,
  );
  const longest = Math.max(...times.slice(1).map((at, index) => at - times[index]!));
  return longest <= longestMs ? [] : [`${relay} did nothing for ${Math.round(longest / SECOND)} s`];
}
