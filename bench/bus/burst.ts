import { atLeast, measured } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { drainSingly } from './drain.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { SUBSCRIBERS } from './workload.ts';

const EVENTS = 6000;
const GOAL = 0.9;

/**
 * Measures a burst on connections warmed by small rounds, and the same on fresh connections: statements prepared for
 * single events must not be slow for a burst.
 */
export async function benchBurst(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  try {
    const events = Math.round(EVENTS * bench.scale);
    const deliveries = events * SUBSCRIBERS;
    const burst = (onWarm: boolean) => async () => {
      await contender.call('reset');
      await drainSingly(contender, {});
      if (!onWarm) await contender.call('reconnect');
      await contender.call('fill', { events });
      const { ms } = await contender.call<{ ms: number }>('drain', { deliveries });
      return (deliveries * 1000) / ms;
    };
    const found = await inTurns(bench, [
      { label: 'warm', run: burst(true) },
      { label: 'fresh', run: burst(false) },
    ]);
    return [
      measured('burst on warm connections (40 small rounds before it)', found['warm']!, '/s'),
      measured('burst on fresh connections', found['fresh']!, '/s'),
      atLeast(
        'burst: warm relative to fresh connections',
        found['warm']!.median / found['fresh']!.median,
        GOAL,
      ),
    ];
  } finally {
    await contender.stop();
  }
}
