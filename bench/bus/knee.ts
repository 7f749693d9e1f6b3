import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { ms, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { send, warmUp } from './traffic.ts';
import type { Traffic } from './traffic.ts';
import type { Bench } from './turns.ts';
import { drainTopics, topicNames } from './workload.ts';

// How many events a second one database takes before deliveries fall behind, by how many subscribers an event has and how
// long the history is. Producers and relay share one process, and that shares the machine with the database.

const FIRST_RATE = 150;
const RATE_STEP = 1.4;
const STEP_SECONDS = 5;
/** A smaller share of late deliveries is not a growing backlog. */
const STRAGGLERS = 0.01;

/** Traffic whose rate is raised. */
interface Rising extends Omit<Traffic, 'perSecond' | 'seconds'> {
  readonly title: string;
  /** Takes away what is behind. */
  readonly catchUp: () => Promise<void>;
}

/** Raises the rate until, twice in a row, too many are late. @returns the highest rate before that. */
export async function fallsBehindAt(
  bench: Bench,
  contender: Contender,
  { title, catchUp, ...traffic }: Rising,
): Promise<number> {
  const seconds = Math.max(2, STEP_SECONDS * bench.scale);
  let kept = 0;
  for (let perSecond = FIRST_RATE; ; perSecond = Math.round(perSecond * RATE_STEP)) {
    for (let tries = 1; kept < perSecond; tries += 1) {
      const { behind, times } = await send([contender], { ...traffic, perSecond, seconds });
      const keepsUp = behind <= times.length * STRAGGLERS;
      bench.tell(
        `${contender.name}, ${title} at ${perSecond}/s: ${keepsUp ? 'keeps up' : `${behind} behind`}`,
      );
      if (keepsUp) kept = perSecond;
      else {
        await catchUp();
        if (tries === 2) return kept;
      }
    }
  }
}

const subscribersOf = (topic: TopicName) => catalog[topic].subscribers.length;
const SUBSCRIBERS = [...new Set(topicNames.map(subscribersOf))].toSorted((one, other) => one - other);
const HISTORIES = [0, 1_000_000, 5_000_000];

const HALF_SECONDS = 10;

export async function benchKnee(bench: Bench): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const subscribers of SUBSCRIBERS) {
    const topics = topicNames.filter((topic) => subscribersOf(topic) === subscribers);
    const title = `${subscribers} ${subscribers === 1 ? 'subscriber' : 'subscribers'}`;
    figures.push(...(await kneeOf(bench, title, topics)));
  }
  for (const delivered of HISTORIES)
    figures.push(
      ...(await kneeOf(
        bench,
        `3 subscribers, ${number(delivered)} deliveries of history`,
        drainTopics,
        delivered,
      )),
    );
  return figures;
}

/** @param delivered deliveries that were made before. */
async function kneeOf(
  bench: Bench,
  title: string,
  topics: readonly TopicName[],
  delivered = 0,
): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  const catchUp = async () => void (await contender.call('idle', { ticks: 1 }));
  try {
    if (delivered > 0) await contender.call('history', { delivered: delivered * bench.scale, waiting: 0 });
    await warmUp([contender], topics);
    const most = await fallsBehindAt(bench, contender, { topics, title, catchUp });
    const half = Math.round(most / 2);
    await catchUp();
    const seconds = Math.max(2, HALF_SECONDS * bench.scale);
    const { times } = await send([contender], { topics, perSecond: half, seconds });
    return [
      { what: `${title}: events a second, at most`, figure: `${number(most)}/s`, goal: '' },
      {
        what: `${title}: commit to handler at ${half}/s, p50 / p99`,
        figure: `${ms(quantile(times, 0.5))} / ${ms(quantile(times, 0.99))}`,
        goal: '',
      },
    ];
  } finally {
    await contender.stop();
  }
}
