import { HOUR, SECOND, sleep } from '../../../lib/platform/time.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 5. */
export const clockAhead: Surrounding = {
  name: 'clock-two-hours-ahead-for-five-seconds',
  point: 5,
  inCi: true,
  play: ahead,
};

/** How soon after the clock is right again all must have moved. A relay looks again every five seconds at least. */
const PATIENCE_MS = 20 * SECOND;

async function ahead({ arena, build }: Scene): Promise<Outcome> {
  const before = traffic({ producers: 2, transactions: 10 }, 1);
  const during = traffic({ producers: 3, transactions: 30, handlersMs: [0, 40] }, 2);
  const after = traffic({ producers: 2, transactions: 10 }, 3);
  const stage = await Stage.open(arena, build, { traffic: [...before, ...during, ...after] });
  try {
    await Promise.all([stage.relay(), stage.relay()]);
    await stage.produce(undefined, before);
    const traded = stage.produce(undefined, during);
    stage.clock.move(2 * HOUR);
    await sleep(5 * SECOND);
    stage.clock.move(-2 * HOUR);
    await traded;
    // Once a relay has looked.
    let told = await stage.incidents();
    for (const until = performance.now() + PATIENCE_MS; told.length === 0 && performance.now() < until;) {
      await sleep(100);
      told = await stage.incidents();
    }
    await stage.produce(undefined, after);
    const left = await stage.rest(PATIENCE_MS);
    const broken = [
      ...(left === 0 ? [] : [`${left} deliveries and markers still wait 20 s after it was right again`]),
      ...(told.length > 0 ? [] : ['no incident tells of times in the future']),
      // The others compare instants of both clocks.
      ...(await stage.broken({
        rules: ['outcome', 'effects', 'consistency', 'history', 'deadlock', 'survival'],
      })),
    ];
    return { did: 'the clock of the database was two hours ahead for five seconds', broken };
  } finally {
    await stage.close();
  }
}
