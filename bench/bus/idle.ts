import { topics } from '../../lib/bus/catalog/catalog.ts';
import { atMost, goal, ms, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { watched } from './server.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';

const WAITING = 1_000_000;
const TICKS = 100;
/**
 * Turns for each round of other benchmarks: a turn is so short that other work of the machine outweighs the database.
 */
const TURNS = 10;
const GOALS = { ms: 5, share: 1.2 };

/**
 * Measures an idle turn, with every subscription of the catalog attached and many deliveries that are not due. These
 * turns are themselves the small rounds that warm the connections.
 */
export async function benchIdle(bench: Bench): Promise<Figure[]> {
  const databases = { empty: await bench.server.createDatabase(), full: await bench.server.createDatabase() };
  const empty = await startContender(bench.runtime, 'ours', databases.empty);
  const full = await startContender(bench.runtime, 'ours', databases.full);
  try {
    const waiting = Math.round(WAITING * bench.scale);
    bench.tell(`storing ${number(waiting)} deliveries behind blocked lanes …`);
    await full.call('history', { delivered: 0, waiting, everyTopic: true });
    let statements = 0;
    const found = await inTurns(
      { ...bench, rounds: bench.rounds * TURNS },
      [['empty', empty] as const, ['full', full] as const].map(([label, contender]) => ({
        label,
        async run() {
          const idle = () => contender.call<{ times: number[] }>('idle', { ticks: TICKS });
          const { found, work } = await watched(databases[label], idle);
          statements = work.statements.reduce((total, { calls }) => total + calls, 0) / TICKS;
          return quantile(found.times, 0.5);
        },
      })),
    );
    const { median } = found['full']!;
    const share = median / found['empty']!.median;
    return [
      {
        what: `idle turn on an empty database, p50 (${bench.rounds * TURNS} rounds of ${TICKS})`,
        figure: ms(found['empty']!.median),
        goal: '',
      },
      {
        what: `idle turn, ${topics().length} topics and ${number(waiting)} waiting behind blocked lanes, p50`,
        figure: ms(median),
        goal: goal(`at most ${GOALS.ms} ms`, median <= GOALS.ms),
      },
      atMost('idle turn relative to an empty database', share, GOALS.share),
      {
        what: 'statements of an idle turn',
        figure: number(statements),
        goal: goal('1', statements === 1),
      },
    ];
  } finally {
    await empty.stop();
    await full.stop();
  }
}
