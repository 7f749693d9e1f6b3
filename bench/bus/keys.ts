import { SLOTS } from '../../drizzle/schema.ts';
import { KEYS, keyFigures } from '../figure-names.ts';
import { atLeast, atMost, goal, measured, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { EVENTS, drainSingly } from './drain.ts';
import { query } from './server.ts';
import { send, warmUp } from './traffic.ts';
import type { Traffic } from './traffic.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { SUBSCRIBERS, singleTopic } from './workload.ts';

// Ordering keys: the drain of many keys, each in order, and the lanes that keys leave behind.

const GOALS = { share: 0.7, peer: 20 };

export async function benchKeys(bench: Bench): Promise<Figure[]> {
  return [...(await draining(bench)), ...(await afterManyKeys(bench))];
}

async function draining(bench: Bench): Promise<Figure[]> {
  const ours = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  const peer = await startContender(bench.runtime, 'pg-boss', await bench.server.createDatabase());
  const scaled = (count: number) => Math.max(200, Math.round(count * bench.scale));
  const drain = (contender: Contender, count: number, keys: number) => async () => {
    const events = scaled(count);
    // A peer has one lane per key.
    const order = { keys, mode: 'ordered', lanes: keys, subscribers: SUBSCRIBERS };
    const deliveries = events * SUBSCRIBERS;
    await contender.call('reset');
    await drainSingly(contender, order);
    await contender.call('fill', { ...order, events });
    const { ms, outOfOrder } = await contender.call<{ ms: number; outOfOrder: number }>('drain', {
      ...order,
      deliveries,
    });
    if (outOfOrder > 0) throw new Error(`${contender.name}: ${outOfOrder} out of order`);
    return (deliveries * 1000) / ms;
  };
  try {
    const found = await inTurns(bench, [
      { label: keyFigures.none, run: drain(ours, EVENTS, 0) },
      { label: keyFigures.some, run: drain(ours, EVENTS, scaled(KEYS)) },
      { label: keyFigures.each, run: drain(ours, EVENTS, scaled(EVENTS)) },
      { label: keyFigures.somePeer, run: drain(peer, EVENTS, scaled(KEYS)) },
      { label: keyFigures.eachPeer, run: drain(peer, EVENTS, scaled(EVENTS)) },
    ]);
    const beside = (one: keyof typeof keyFigures, other: keyof typeof keyFigures) =>
      found[keyFigures[one]]!.median / found[keyFigures[other]]!.median;
    return [
      ...Object.values(keyFigures).map((label) => measured(label, found[label]!, '/s')),
      atLeast(`${number(KEYS)} keys relative to no key`, beside('some', 'none'), GOALS.share),
      atLeast('one key per event relative to no key', beside('each', 'none'), GOALS.share),
      atLeast(`${number(KEYS)} keys relative to pg-boss`, beside('some', 'somePeer'), GOALS.peer),
      atLeast('one key per event relative to pg-boss', beside('each', 'eachPeer'), GOALS.peer),
    ];
  } finally {
    await ours.stop();
    await peer.stop();
  }
}

const MANY_KEYS = 1_000_000;
const CHUNK = 50_000;
/** A subscription's shared lanes, and the one for events without a key. */
const LANES_GOAL = SLOTS + 1;
const SINGLE: Traffic = { topics: [singleTopic], perSecond: 20, seconds: 3 };
const BESIDE_GOAL = 1.2;

/** Measures the lanes that a million keys leave behind, and one event after them. */
async function afterManyKeys(bench: Bench): Promise<Figure[]> {
  const databases = { empty: await bench.server.createDatabase(), full: await bench.server.createDatabase() };
  const empty = await startContender(bench.runtime, 'ours', databases.empty);
  const full = await startContender(bench.runtime, 'ours', databases.full);
  try {
    await warmUp([empty, full], [singleTopic]);
    const keys = Math.round(MANY_KEYS * bench.scale ** 2);
    for (let from = 0; from < keys; from += CHUNK) {
      const events = Math.min(CHUNK, keys - from);
      await full.call('fill', { events, from, keys, topics: [singleTopic] });
      await full.call('drain', { deliveries: events, topics: [singleTopic] });
      bench.tell(`${number(from + events)} of ${number(keys)} keys`);
    }
    const [lanes] = await query<{ count: number }>(
      databases.full,
      'select count(*)::int as count from lanes',
    );
    const one = (contender: Contender) => async () => {
      const { times, lost } = await send([contender], SINGLE);
      if (lost > 0) throw new Error(`${lost} deliveries were not handled`);
      return quantile(times, 0.5);
    };
    const found = await inTurns(bench, [
      { label: 'empty', run: one(empty) },
      { label: 'full', run: one(full) },
    ]);
    const many = `${number(keys)} keys of one subscription`;
    return [
      {
        what: `lanes left after ${many}`,
        figure: number(lanes!.count),
        goal: goal(`at most ${LANES_GOAL}`, lanes!.count <= LANES_GOAL),
      },
      measured('commit to handler, an empty database, p50', found['empty']!, ' ms'),
      measured(`commit to handler, after ${many}, p50`, found['full']!, ' ms'),
      atMost(
        'commit to handler: after the keys relative to the empty database',
        found['full']!.median / found['empty']!.median,
        BESIDE_GOAL,
      ),
    ];
  } finally {
    await empty.stop();
    await full.stop();
  }
}
