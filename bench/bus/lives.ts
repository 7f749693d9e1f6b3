import { atMost, goal, measured, number, quantile, spreadOf } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { send, warmUp } from './traffic.ts';
import type { Traffic } from './traffic.ts';
import type { Bench } from './turns.ts';
import { singleTopic } from './workload.ts';

// What happens to live traffic while a subscriber that joined late is backfilled, and to a subscriber that is down.

const EVENTS = 100_000;
const SECONDS = 8;
const PER_MINUTE = 60_000;

/** Live traffic in one process, the backfill and its subscriber in another, on one database. */
export async function benchBackfill(bench: Bench): Promise<Figure[]> {
  const url = await bench.server.createDatabase();
  const live = await startContender(bench.runtime, 'ours', url);
  const other = await startContender(bench.runtime, 'ours', url);
  const events = Math.round(EVENTS * bench.scale);
  const traffic: Traffic = {
    topics: [singleTopic],
    perSecond: 200,
    seconds: Math.max(2, SECONDS * bench.scale),
  };
  try {
    await warmUp([live], [singleTopic]);
    const alone: number[] = [];
    const beside: number[] = [];
    const paced: number[] = [];
    const writing: number[] = [];
    const delivering: number[] = [];
    for (let round = 1; round <= bench.rounds; round += 1) {
      await other.call('fillJoining', { events });
      alone.push(quantile((await send([live], traffic)).times, 0.99));
      const { times, found } = await besideBackfill(live, other, traffic, null);
      if (found.outOfOrder > 0 || found.written !== events)
        throw new Error(`${found.written} of ${events} events, ${found.outOfOrder} out of order`);
      beside.push(quantile(times, 0.99));
      writing.push((events * 1000) / found.writtenInMs);
      delivering.push((events * 1000) / found.deliveredInMs);
      const few = Math.round(events / 5);
      await other.call('fillJoining', { events: few });
      paced.push(quantile((await besideBackfill(live, other, traffic, PER_MINUTE)).times, 0.99));
      bench.tell(
        `round ${round}: p99 ${number(alone.at(-1)!)} ms alone, ${number(beside.at(-1)!)} ms beside, ${number(paced.at(-1)!)} ms beside a paced one, ${number(writing.at(-1)!)}/s written, ${number(delivering.at(-1)!)}/s delivered`,
      );
    }
    return [
      measured(`${number(events)} events backfilled, written`, spreadOf(writing), '/s'),
      measured(
        `${number(events)} events backfilled, written and delivered in order`,
        spreadOf(delivering),
        '/s',
      ),
      measured('live traffic at 200/s, p99: without a backfill', spreadOf(alone), ' ms'),
      measured('live traffic at 200/s, p99: beside the backfill', spreadOf(beside), ' ms'),
      measured(
        `live traffic at 200/s, p99: beside one at ${number(PER_MINUTE)} a minute`,
        spreadOf(paced),
        ' ms',
      ),
      atMost('live p99 beside the backfill, relative to none', besideNone(beside, alone), null),
      atMost('live p99 beside the paced backfill, relative to none', besideNone(paced, alone), null),
    ];
  } finally {
    await live.stop();
    await other.stop();
  }
}

const besideNone = (beside: readonly number[], alone: readonly number[]) =>
  spreadOf(beside).median / spreadOf(alone).median;

interface Backfilled {
  readonly written: number;
  readonly writtenInMs: number;
  readonly deliveredInMs: number;
  readonly outOfOrder: number;
}

/** Sends traffic for as long as the backfill lasts. @returns the times of what was sent meanwhile. */
async function besideBackfill(live: Contender, other: Contender, traffic: Traffic, perMinute: number | null) {
  let isOver = false;
  const backfilling = other.call<Backfilled>('backfillJoining', { perMinute }).finally(() => (isOver = true));
  const times: number[] = [];
  while (!isOver) {
    const slice = await send([live], { ...traffic, seconds: 1 });
    times.push(...slice.times);
  }
  return { times, found: await backfilling };
}

const KEYS = 1000;
const MINUTE_MS = 60_000;

interface Stood {
  readonly attempts: number;
  readonly whenDown: number;
  readonly deadLettered: number;
  readonly delivered: number;
  readonly ms: number;
  readonly outOfOrder: number;
}

/** A thousand lanes of a subscriber that is down for twelve hours, with and without waiting. */
export async function benchOutage(bench: Bench): Promise<Figure[]> {
  const keys = Math.round(KEYS * bench.scale);
  const events = 2 * keys;
  const stand = async (waits: boolean) => {
    const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
    try {
      await contender.call('fillOutage', { events, keys });
      return await contender.call<Stood>('standOutage', { keys, waits });
    } finally {
      await contender.stop();
    }
  };
  const waiting: Stood[] = [];
  const off = await stand(false);
  for (let round = 1; round <= bench.rounds; round += 1) waiting.push(await stand(true));
  const of = (read: (one: Stood) => number) => spreadOf(waiting.map(read));
  const row = (what: string, figure: number, isReached?: boolean, least = ''): Figure => ({
    what,
    figure: number(figure),
    goal: isReached === undefined ? '' : goal(least, isReached),
  });
  const lost = waiting.reduce((total, one) => total + one.deadLettered + one.outOfOrder, 0);
  return [
    measured(
      `${number(keys)} lanes down for 12 hours, attempts when it went down`,
      of(({ whenDown }) => whenDown),
      '',
    ),
    measured(
      'attempts after that: one a probe',
      of(({ attempts, whenDown }) => attempts - whenDown),
      '',
    ),
    row('dead letters, and events out of order', lost, lost === 0, 'none'),
    measured(
      `the ${number(events)} deliveries once it is back`,
      of(({ ms }) => ms),
      ' ms',
    ),
    atMost('the same, relative to a minute', of(({ ms }) => ms).median / MINUTE_MS, 1),
    row('without waiting (outage: off): attempts', off.attempts),
    row('without waiting: dead letters', off.deadLettered),
  ];
}
