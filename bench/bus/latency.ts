import { goal, ms, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { PEERS, startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';

const PER_SECOND = 50;
const SECONDS = 8;

/** From before the commit is sent until the handler is called, with ours kicked and the peers notified. */
export async function benchLatency(bench: Bench): Promise<Figure[]> {
  const contenders: Contender[] = [];
  try {
    for (const name of ['ours', ...PEERS] as const) {
      contenders.push(await startContender(bench.runtime, name, await bench.server.createDatabase()));
    }
    const count = Math.round(PER_SECOND * Math.max(2, SECONDS * bench.scale));
    const all = new Map<string, number[]>(contenders.map(({ name }) => [name, []]));
    const found = await inTurns(
      bench,
      contenders.map((contender) => ({
        label: contender.name,
        async run() {
          await contender.call('reset');
          const { times } = await contender.call<{ times: number[] }>('latency', {
            count,
            perSecond: PER_SECOND,
          });
          all.get(contender.name)!.push(...times);
          return quantile(times, 0.5);
        },
      })),
    );
    const ours = found['ours']!.median;
    const best = Math.min(...PEERS.map((name) => found[name]!.median));
    return contenders.map(({ name }) => ({
      what: `commit to handler at ${PER_SECOND}/s, p50 / p99: ${name}${name === 'ours' ? ', kicked' : ', notified'}`,
      figure: `${ms(found[name]!.median)} / ${ms(quantile(all.get(name)!, 0.99))}`,
      goal: name === 'ours' ? goal("p50 at or under the best peer's", ours <= best) : '',
    }));
  } finally {
    for (const contender of contenders) await contender.stop();
  }
}
