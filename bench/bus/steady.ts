import {
  BUSY_TOPICS,
  COMMIT_MS,
  CONTENDERS,
  DISTANT_LOADS,
  LOADS,
  ROUND_TRIP_MS,
  SPREAD_LOAD,
  besideFigure,
  inWords,
  loadFigure,
} from '../figure-names.ts';
import type { ContenderName, Load, Share } from '../figure-names.ts';
import { atLeast, atMost, goal, measured, ms, number, quantile, spreadOf } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { PEERS, startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { fallsBehindAt } from './knee.ts';
import { startProxy } from './proxy.ts';
import { configure } from './server.ts';
import { send, warmUp } from './traffic.ts';
import type { Handled, Traffic } from './traffic.ts';
import { eachInTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { singleTopic, topicNames } from './workload.ts';

// The time from before a commit is sent until a handler is called, at rates that a database sustains all day.

const SECONDS = 4;
/** A round has at least so many: fewer have no p99. */
const EVENTS = 1000;

const SHARES = { p50: 0.5, p99: 0.99 } as const satisfies Record<Share, number>;

/** A goal: the most that a share of ours may be relative to one peer's, or to the best's. */
interface Beside {
  readonly share: Share;
  readonly peer: (typeof PEERS)[number] | 'the best peer';
  readonly most: number;
}

const NEAR_GOALS: readonly Beside[] = [
  { share: 'p50', peer: 'graphile-worker', most: 1.3 },
  { share: 'p99', peer: 'the best peer', most: 1 },
];
const DISTANT_GOALS: readonly Beside[] = [{ share: 'p50', peer: 'the best peer', most: 0.75 }];
const BUSY_GOALS: readonly Beside[] = [
  { share: 'p50', peer: 'the best peer', most: 1.3 },
  { share: 'p99', peer: 'the best peer', most: 1 },
];

export async function benchSteady(bench: Bench): Promise<Figure[]> {
  const figures = await atLoads(bench, LOADS, NEAR_GOALS);
  for (const load of [...DISTANT_LOADS, SPREAD_LOAD])
    figures.push(...(await atLoads(bench, [load], DISTANT_GOALS)));
  return [...figures, ...(await manyTopics(bench)), ...(await manyProcesses(bench))];
}

/** Measures one subscription, or many topics, ours beside the peers. @param loads that differ in their rates alone. */
async function atLoads(bench: Bench, loads: readonly Load[], goals: readonly Beside[]): Promise<Figure[]> {
  const { isFar, commitsSlowly, topics } = loads[0]!;
  const traffic = topics === undefined ? SINGLE : BUSY;
  const proxy = isFar ? await startProxy(await bench.server.createDatabase(), ROUND_TRIP_MS) : undefined;
  const contenders = await startAll(bench, async (url) => {
    if (commitsSlowly) await configure(url, { commit_delay: String(COMMIT_MS * 1000), commit_siblings: '0' });
    return proxy?.urlOf(url) ?? url;
  });
  try {
    await warmUp(contenders, traffic.topics);
    const figures: Figure[] = [];
    for (const load of loads) {
      const { perSecond } = load;
      const seconds = Math.max(2, Math.max(SECONDS, EVENTS / perSecond) * bench.scale);
      const found = await eachInTurns(
        bench,
        contenders.map((contender) => ({
          label: contender.name,
          run: () => allHandled([contender], { ...traffic, perSecond, seconds }),
        })),
        (times) => `at ${inWords(load)}: ${inShort(times)}`,
        { areWarm: true },
      );
      for (const share of ['p50', 'p99'] as const) {
        const spreads = new Map(
          Array.from(found, ([name, rounds]) => [
            name as ContenderName,
            spreadOf(rounds.map((times) => quantile(times, SHARES[share]))),
          ]),
        );
        const medians = new Map(Array.from(spreads, ([name, { median }]) => [name, median]));
        figures.push(
          ...CONTENDERS.map((name) => measured(loadFigure(load, share, name), spreads.get(name)!, ' ms')),
          ...relative(medians, share, goals, (other) => besideFigure(load, share, other)),
        );
      }
    }
    return figures;
  } finally {
    await stopAll(contenders);
    proxy?.stop();
  }
}

/** Holds ours to the goals of a share. */
function relative(
  medians: ReadonlyMap<ContenderName, number>,
  share: Share,
  goals: readonly Beside[],
  what: (other: string) => string,
): Figure[] {
  const best = Math.min(...PEERS.map((name) => medians.get(name)!));
  return goals
    .filter((one) => one.share === share)
    .map(({ peer, most }) => {
      const other = peer === 'the best peer' ? best : medians.get(peer)!;
      return atMost(what(peer), medians.get('ours')! / other, most);
    });
}

const SINGLE = { topics: [singleTopic] } as const;

/** Topics that emit, while the whole catalog is attached: 2.5 subscribers per event. */
const BUSY = { topics: topicNames.slice(0, BUSY_TOPICS), attached: topicNames };
const BUSY_PER_SECOND = 300;
const BUSY_SECONDS = 60;
/** The minute is cut into this many parts for its range. */
const PARTS = 6;

const BEHIND_GOAL = 2;

/** Measures many topics for a minute, then raises the rate until each contender falls behind. */
async function manyTopics(bench: Bench): Promise<Figure[]> {
  const contenders = await startAll(bench);
  try {
    await warmUp(contenders, BUSY.topics);
    const minute = { ...BUSY, perSecond: BUSY_PER_SECOND, seconds: Math.max(5, BUSY_SECONDS * bench.scale) };
    const found = new Map<ContenderName, Handled>();
    const rates = new Map<ContenderName, number>();
    for (const contender of contenders) {
      const handled = await send([contender], minute);
      bench.tell(`${contender.name}, 60 topics ${inShort(handled.times)}, ${handled.behind} behind`);
      found.set(contender.name, handled);
      if (handled.behind > 0) await contender.call('reset');
    }
    for (const contender of contenders) {
      const catchUp = async () => void (await contender.call('reset'));
      rates.set(
        contender.name,
        await fallsBehindAt(bench, contender, { ...BUSY, title: '60 topics', catchUp }),
      );
    }
    const title = `60 topics at ${BUSY_PER_SECOND}/s`;
    const figures = (['p50', 'p99'] as const).flatMap((share) => {
      const spreads = new Map(
        Array.from(found, ([name, { times }]) => [name, overParts(times, SHARES[share])]),
      );
      const medians = new Map(Array.from(spreads, ([name, { median }]) => [name, median]));
      return [
        ...CONTENDERS.map((name) => measured(`${title}, ${share}: ${name}`, spreads.get(name)!, ' ms')),
        ...relative(medians, share, BUSY_GOALS, (other) => `${title}, ${share}: ours relative to ${other}`),
      ];
    });
    const best = Math.max(...PEERS.map((name) => rates.get(name)!));
    return [
      ...figures,
      ...CONTENDERS.map((name) => ({
        what: `${title}, deliveries not handled a second after the end: ${name}`,
        figure: number(found.get(name)!.behind),
        goal: name === 'ours' ? goal('none', found.get(name)!.behind === 0) : '',
      })),
      ...CONTENDERS.map((name) => ({
        what: `60 topics, highest rate sustained: ${name}`,
        figure: `${number(rates.get(name)!)}/s`,
        goal: '',
        spread: { median: rates.get(name)!, least: rates.get(name)!, most: rates.get(name)! },
      })),
      atLeast(
        '60 topics, highest rate sustained: ours relative to the best peer',
        rates.get('ours')! / best,
        BEHIND_GOAL,
      ),
    ];
  } finally {
    await stopAll(contenders);
  }
}

const PROCESSES = 8;
const PROCESS_RATES = [80, 300];
const PROCESS_GOAL = 1.5;
/** What each of them emits in less is compiled while it is measured. */
const PROCESS_WARM_UP_SECONDS = 20;

/** Measures the same traffic from one process and from eight, which take turns: each emits, kicks and delivers. */
async function manyProcesses(bench: Bench): Promise<Figure[]> {
  const url = await bench.server.createDatabase();
  const contenders: Contender[] = [];
  try {
    for (let count = 0; count < PROCESSES; count += 1) {
      contenders.push(await startContender(bench.runtime, 'ours', url));
    }
    // Together, so that connections of the first are still open when the last is warm.
    await send(contenders, {
      ...BUSY,
      perSecond: Math.max(...PROCESS_RATES),
      seconds: PROCESS_WARM_UP_SECONDS,
    });
    const figures: Figure[] = [];
    for (const perSecond of PROCESS_RATES) {
      const traffic = { ...BUSY, perSecond, seconds: Math.max(2, SECONDS * bench.scale) };
      const turns = [
        { label: 'one process', run: () => allHandled(contenders.slice(0, 1), traffic) },
        { label: `${PROCESSES} processes`, run: () => allHandled(contenders, traffic) },
      ];
      const found = await eachInTurns(bench, turns, (times) => `at ${perSecond}/s ${inShort(times)}`, {
        areWarm: true,
      });
      const [one, several] = turns.map(({ label }) =>
        spreadOf(found.get(label)!.map((times) => quantile(times, 0.5))),
      );
      const title = `60 topics at ${perSecond}/s, p50: ours`;
      figures.push(
        measured(`${title} from one process`, one!, ' ms'),
        measured(`${title} from ${PROCESSES} processes`, several!, ' ms'),
        atMost(
          `${title} from ${PROCESSES} processes relative to one`,
          several!.median / one!.median,
          PROCESS_GOAL,
        ),
      );
    }
    return figures;
  } finally {
    await stopAll(contenders);
  }
}

/** @param prepare a database. Returns the URL that its contender is started with. */
async function startAll(
  bench: Bench,
  prepare: (url: string) => Promise<string> = async (url) => url,
): Promise<Contender[]> {
  const contenders: Contender[] = [];
  for (const name of CONTENDERS) {
    const url = await prepare(await bench.server.createDatabase());
    contenders.push(await startContender(bench.runtime, name, url));
  }
  return contenders;
}

async function stopAll(contenders: readonly Contender[]): Promise<void> {
  await Promise.all(contenders.map((contender) => contender.stop()));
}

/** Collects the times. @throws Error when a delivery was never handled: the longest time would be missing. */
async function allHandled(contenders: readonly Contender[], traffic: Traffic): Promise<readonly number[]> {
  const { times, lost } = await send(contenders, traffic);
  if (lost > 0) throw new Error(`${contenders[0]!.name} has not handled ${lost} deliveries`);
  return times;
}

function overParts(times: readonly number[], share: number) {
  const length = Math.ceil(times.length / PARTS);
  const parts = Array.from({ length: PARTS }, (_, part) => times.slice(part * length, (part + 1) * length));
  const { least, most } = spreadOf(
    parts.filter((part) => part.length > 0).map((part) => quantile(part, share)),
  );
  return { median: quantile(times, share), least, most };
}

const inShort = (times: readonly number[]) => `${ms(quantile(times, 0.5))} / ${ms(quantile(times, 0.99))}`;
