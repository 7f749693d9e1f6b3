import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { atMost, measured, number, quantile, spreadOf } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { joining } from './ours-lives.ts';
import { send, warmUp } from './traffic.ts';
import type { Bench } from './turns.ts';
import { singleTopic } from './workload.ts';

// What a paced replay costs live traffic: to another subscription, in a process of its own on the same database.

const DELIVERIES = 100_000;
const PER_MINUTE = 6000;
/** Of each round; the whole takes a quarter of an hour. */
const REPLAY_SECONDS = 20;
const PER_SECOND = 100;
const SECONDS = 10;
const P99_GOAL = 1.2;

export async function benchPacedReplay(bench: Bench): Promise<Figure[]> {
  const url = await bench.server.createDatabase();
  const live = await startContender(bench.runtime, 'ours', url);
  const other = await startContender(bench.runtime, 'ours', url);
  const deliveries = Math.round(DELIVERIES * bench.scale);
  const slice = async (seconds: number) =>
    (await send([live], { topics: [singleTopic], perSecond: PER_SECOND, seconds })).times;
  try {
    await other.call('fill', { events: deliveries, topics: [joining.topic] });
    await other.call('drain', {
      deliveries: deliveries * catalog[joining.topic].subscribers.length,
      topics: [joining.topic],
    });
    await warmUp([live], [singleTopic]);
    const alone: number[] = [];
    const beside: number[] = [];
    const rates: number[] = [];
    for (let round = 1; round <= bench.rounds; round += 1) {
      alone.push(quantile(await slice(Math.max(2, SECONDS * bench.scale)), 0.99));
      let isOver = false;
      const replaying = other
        .call<{ delivered: number; ms: number }>('replayPaced', {
          deliveries,
          perMinute: PER_MINUTE,
          seconds: Math.max(4, REPLAY_SECONDS * bench.scale),
        })
        .finally(() => (isOver = true));
      const times: number[] = [];
      while (!isOver) times.push(...(await slice(2)));
      const { delivered, ms } = await replaying;
      beside.push(quantile(times, 0.99));
      rates.push((delivered * 60_000) / ms);
      bench.tell(
        `round ${round}: p99 ${number(alone.at(-1)!)} ms alone, ${number(beside.at(-1)!)} ms beside, ${number(rates.at(-1)!)} replayed a minute`,
      );
    }
    const what = `live traffic at ${PER_SECOND}/s, p99`;
    return [
      measured(
        `${number(deliveries)} deliveries being replayed at ${number(PER_MINUTE)} a minute`,
        spreadOf(rates),
        ' a minute',
      ),
      measured(`${what}: without a replay`, spreadOf(alone), ' ms'),
      measured(`${what}: beside the paced replay`, spreadOf(beside), ' ms'),
      atMost(
        'live p99 beside the paced replay, relative to none',
        spreadOf(beside).median / spreadOf(alone).median,
        P99_GOAL,
      ),
    ];
  } finally {
    await live.stop();
    await other.stop();
  }
}
