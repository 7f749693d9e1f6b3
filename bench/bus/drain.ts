import { ROUND_TRIP_MS } from '../figure-names.ts';
import type { ContenderName } from '../figure-names.ts';
import { atLeast, atMost, goal, measured, number } from '../figures.ts';
import type { Figure, Spread } from '../figures.ts';
import { startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { startProxy } from './proxy.ts';
import { besideSnapshot, watched } from './server.ts';
import type { ServerWork } from './server.ts';
import { inTurns } from './turns.ts';
import type { Bench, Turn } from './turns.ts';
import { SUBSCRIBERS, drainTopics } from './workload.ts';

// The speed of delivering a backlog, from committed events (or jobs) to settled deliveries. Ours gives the
// events their places in that time; the peers' jobs are written for each subscriber already.

export const EVENTS = 34_000;
const UNORDERED_GOAL = 1.5;

/** A way to drain. */
interface DrainMode {
  readonly label: string;
  readonly contender: ContenderName;
  /** The name in the contender's script. */
  readonly mode: string;
  readonly events: number;
  readonly ordered: boolean;
}

const OURS: DrainMode = {
  label: 'ours, in order',
  contender: 'ours',
  mode: 'ordered',
  events: EVENTS,
  ordered: true,
};

// Peers are slow in order, and pg-boss the slower the more there is to do: a smaller backlog favours them.
const MODES: readonly DrainMode[] = [
  OURS,
  {
    label: 'graphile-worker, queue_name per lane',
    contender: 'graphile-worker',
    mode: 'ordered',
    events: 3400,
    ordered: true,
  },
  {
    label: 'pg-boss, key_strict_fifo',
    contender: 'pg-boss',
    mode: 'ordered',
    events: 3400,
    ordered: true,
  },
  {
    label: 'graphile-worker, no order',
    contender: 'graphile-worker',
    mode: 'unordered',
    events: EVENTS,
    ordered: false,
  },
  { label: 'pg-boss, no order', contender: 'pg-boss', mode: 'unordered', events: EVENTS, ordered: false },
  {
    label: 'pg-boss, a queue per lane (in order until one fails)',
    contender: 'pg-boss',
    mode: 'lanes',
    events: EVENTS,
    ordered: false,
  },
];

interface DrainFound {
  readonly ms: number;
  readonly cpuMs: number;
  readonly outOfOrder: number;
}

const shape = { lanes: drainTopics.length, subscribers: SUBSCRIBERS };

const WARM_UP_EVENTS = 40;

/** Warms connections by draining single events, like those of a process that has run for a while. */
export async function drainSingly(contender: Contender, order: object): Promise<void> {
  for (let number = 0; number < WARM_UP_EVENTS; number += 1) {
    await contender.call('fill', { ...order, events: 1 });
    await contender.call('drain', { ...order, deliveries: SUBSCRIBERS });
  }
}

/** Stores a backlog and measures its drain. */
async function drainOnce(
  contender: Contender,
  { mode, events, ordered, label }: DrainMode,
  directUrl: string,
  { isFirst = true }: { readonly isFirst?: boolean } = {},
): Promise<{ readonly perSecond: number; readonly found: DrainFound; readonly work: ServerWork }> {
  if (isFirst) await contender.call('reset');
  await drainSingly(contender, { mode, ...shape });
  await contender.call('fill', { events, mode, ...shape });
  const deliveries = events * SUBSCRIBERS;
  const order = { deliveries, mode, ...shape };
  const { found, work } = await watched(directUrl, () => contender.call<DrainFound>('drain', order));
  // Losing its order can only make a peer faster.
  if (ordered && contender.name === 'ours' && found.outOfOrder > 0)
    throw new Error(`${label}: ${found.outOfOrder} out of order`);
  return { perSecond: (deliveries * 1000) / found.ms, found, work };
}

/** Measures drains beside the peers, and the cost of one. */
export async function benchDrain(bench: Bench): Promise<Figure[]> {
  const costs = new Map<string, string>();
  const statements = new Map<string, number>();
  const found = await drainInTurns(
    bench,
    MODES,
    (url) => url,
    ({ label }, deliveries, { found, work }) => {
      const calls = work.statements.reduce((total, { calls }) => total + calls, 0);
      const databaseMs = work.statements.reduce((total, { totalMs }) => total + totalMs, 0);
      const each = (amount: number, unit: string) => `${number(amount / deliveries)} ${unit}`;
      statements.set(label, (calls * 1000) / deliveries);
      costs.set(
        label,
        `${each(found.cpuMs * 1000, 'µs Node')}, ${each(databaseMs * 1000, 'µs statements')}, ${each(work.walBytes, 'B WAL')}`,
      );
    },
  );
  const ours = statements.get(OURS.label)!;
  return [
    ...drainFigures('drain', found, { ordered: 15, remark: ' (stretch 20 ×)' }),
    ...MODES.map(({ label }) => ({ what: `one delivery: ${label}`, figure: costs.get(label)!, goal: '' })),
    ...MODES.map(({ label }) => ({
      what: `statements per 1,000 deliveries: ${label}`,
      figure: number(statements.get(label)!),
      goal: label === OURS.label ? goal('at most 2', ours <= 2) : '',
    })),
  ];
}

/** Measures the same with a distant database. */
export async function benchRoundTrips(bench: Bench): Promise<Figure[]> {
  const proxy = await startProxy(await bench.server.createDatabase(), ROUND_TRIP_MS);
  try {
    const few = (mode: DrainMode) =>
      mode.ordered && mode.contender !== 'ours'
        ? { ...mode, events: mode.contender === 'pg-boss' ? 1200 : 500 }
        : mode;
    const found = await drainInTurns(bench, MODES.map(few), proxy.urlOf);
    return drainFigures('drain, 5 ms round trips', found, { ordered: 30, remark: '' });
  } finally {
    proxy.stop();
  }
}

type Tell = (mode: DrainMode, deliveries: number, round: { found: DrainFound; work: ServerWork }) => void;

async function drainInTurns(
  bench: Bench,
  modes: readonly DrainMode[],
  through: (url: string) => string,
  tell: Tell = () => undefined,
): Promise<Readonly<Record<string, Spread>>> {
  const contenders = new Map<ContenderName, { contender: Contender; direct: string }>();
  try {
    for (const { contender: name } of modes) {
      if (contenders.has(name)) continue;
      const direct = await bench.server.createDatabase();
      contenders.set(name, { contender: await startContender(bench.runtime, name, through(direct)), direct });
    }
    const turns = modes.map((mode): Turn => {
      const scaled = { ...mode, events: Math.max(100, Math.round(mode.events * bench.scale)) };
      return {
        label: mode.label,
        async run() {
          const { contender, direct } = contenders.get(mode.contender)!;
          const round = await drainOnce(contender, scaled, direct);
          tell(mode, scaled.events * SUBSCRIBERS, round);
          return round.perSecond;
        },
      };
    });
    return await inTurns(bench, turns);
  } finally {
    for (const { contender } of contenders.values()) await contender.stop();
  }
}

function drainFigures(
  what: string,
  found: Readonly<Record<string, Spread>>,
  goal: { readonly ordered: number; readonly remark: string },
): Figure[] {
  const best = (ordered: boolean) =>
    Math.max(
      ...MODES.filter((mode) => mode.contender !== 'ours' && mode.ordered === ordered).map(
        ({ label }) => found[label]!.median,
      ),
    );
  const beside = (ordered: boolean) => found[OURS.label]!.median / best(ordered);
  return [
    ...MODES.map(({ label }) => measured(`${what}: ${label}`, found[label]!, '/s')),
    atLeast(`${what}: ours relative to the best peer in order`, beside(true), goal.ordered, goal.remark),
    atLeast(`${what}: ours relative to the best peer without order`, beside(false), UNORDERED_GOAL),
  ];
}

const HISTORY = { delivered: 1_000_000, waiting: 500_000 };

/** Measures ours on a database with a long history beside ours on an empty one. */
export async function benchHistory(bench: Bench): Promise<Figure[]> {
  const databases = { empty: await bench.server.createDatabase(), full: await bench.server.createDatabase() };
  const empty = await startContender(bench.runtime, 'ours', databases.empty);
  const full = await startContender(bench.runtime, 'ours', databases.full);
  try {
    const delivered = Math.round(HISTORY.delivered * bench.scale);
    const waiting = Math.round(HISTORY.waiting * bench.scale);
    bench.tell(`storing ${number(delivered)} delivered and ${number(waiting)} waiting deliveries …`);
    await full.call('history', { delivered, waiting });
    const mode = { ...OURS, events: Math.round(EVENTS * bench.scale) };
    const found = await inTurns(bench, [
      { label: 'empty', run: async () => (await drainOnce(empty, mode, databases.empty)).perSecond },
      {
        label: 'full',
        run: async () => (await drainOnce(full, mode, databases.full, { isFirst: false })).perSecond,
      },
    ]);
    return [
      measured('drain: ours on an empty database', found['empty']!, '/s'),
      measured(
        `drain: ours beside ${number(delivered)} delivered and ${number(waiting)} waiting deliveries`,
        found['full']!,
        '/s',
      ),
      atMost(
        'drain: the empty database relative to the other',
        found['empty']!.median / found['full']!.median,
        null,
      ),
    ];
  } finally {
    await empty.stop();
    await full.stop();
  }
}

const HELD_GOAL = 0.7;
const CYCLES = 2;

/** Measures drains while another session holds an old snapshot, so that vacuum can remove nothing. */
export async function benchSnapshot(bench: Bench): Promise<Figure[]> {
  const modes = MODES.filter(({ mode, contender }) => mode === 'unordered' || contender === 'ours');
  const contenders: { mode: DrainMode; contender: Contender }[] = [];
  try {
    const turns: Turn[] = [];
    for (const mode of modes) {
      const contender = await startContender(
        bench.runtime,
        mode.contender,
        await bench.server.createDatabase(),
      );
      contenders.push({ mode, contender });
      const scaled = { ...mode, events: Math.round(mode.events * bench.scale) };
      const cycles = async () => {
        let ms = 0;
        for (let cycle = 0; cycle < CYCLES; cycle += 1) {
          ms += (await drainOnce(contender, scaled, contender.url, { isFirst: false })).found.ms;
        }
        return (CYCLES * scaled.events * SUBSCRIBERS * 1000) / ms;
      };
      turns.push(
        {
          label: mode.label,
          async run() {
            await contender.call('reset');
            return await cycles();
          },
        },
        {
          label: `${mode.label}, snapshot held`,
          async run() {
            await contender.call('reset');
            return await besideSnapshot(contender.url, cycles);
          },
        },
      );
    }
    const found = await inTurns(bench, turns);
    return modes.map(({ label, contender }) => {
      const held = found[`${label}, snapshot held`]!;
      const ratio = held.median / found[label]!.median;
      const isReached = goal(`at least ${HELD_GOAL}`, ratio >= HELD_GOAL);
      return {
        what: `drain while an old snapshot is held: ${label}`,
        figure: `${number(held.median)}/s of ${number(found[label]!.median)}/s: ${ratio.toFixed(2)}`,
        goal: contender === 'ours' ? isReached : '',
        spread: held,
      };
    });
  } finally {
    for (const { contender } of contenders) await contender.stop();
  }
}
