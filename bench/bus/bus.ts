import { readFileSync } from 'node:fs';

import type { Figure, Section } from '../figures.ts';
import { benchBatches } from './batches.ts';
import { benchBurst } from './burst.ts';
import { prepareContenders } from './contender.ts';
import { benchDrain, benchHistory, benchRoundTrips, benchSnapshot } from './drain.ts';
import { benchEmit } from './emit.ts';
import { benchIdle } from './idle.ts';
import { benchIntake } from './intake.ts';
import { benchKeys } from './keys.ts';
import { benchKnee } from './knee.ts';
import { benchLimit } from './limit.ts';
import { startServer } from './server.ts';
import { benchBackfill, benchOutage } from './lives.ts';
import { benchOldSnapshot } from './old-snapshot.ts';
import { benchPacedReplay } from './paced-replay.ts';
import { benchSteady } from './steady.ts';
import { benchTransactional } from './transactional.ts';
import { benchTurnProfile } from './turn-profile.ts';
import type { Bench } from './turns.ts';

interface Scenario {
  readonly title: string;
  /** By default 3. */
  readonly rounds?: number;
  /** The cause of the limit and the attempts to raise it, shown where a goal is not reached. */
  readonly limits?: string;
  readonly measure: (bench: Bench) => Promise<Figure[]>;
}

/** The benchmarks of the event bus, in their order. */
const SCENARIOS = {
  steady: {
    title: 'From commit to handler in everyday traffic',
    measure: benchSteady,
    limits:
      'an event costs two turns: a look, which places and claims with some small statements in one call, and a settlement. A peer fetches one job with one statement; its producer has written a job for each subscriber. The events of one lane wait for the settlements before them: 400 a second, or 100 a second with 5 ms round trips and 3 ms commits, keep a single lane in hand all the time; the same load over 60 topics does not. Eight processes share two cores with the database, which at 300 a second are busy nine tenths of the time. Most of p99 is commits that the disk holds up, and processes that wait for a core (strace of the turns’ connections: gaps of 2 to 6 ms between any two system calls).',
  },
  'old-snapshot': { title: 'Everyday traffic beside an old snapshot', measure: benchOldSnapshot },
  'turn-profile': { title: 'The turns of single events, statement by statement', measure: benchTurnProfile },
  burst: { title: 'A burst of 18,000 deliveries', rounds: 9, measure: benchBurst },
  keys: { title: 'Ordering keys', measure: benchKeys },
  batches: { title: 'A subscriber that runs elsewhere, one by one and in batches', measure: benchBatches },
  drain: {
    title: 'A backlog of 102,000 deliveries, drained',
    measure: benchDrain,
    limits:
      'Postgres and Node share two cores. The rows “one delivery” show what each spends; the section on the database’s own limit shows what pgbench needs to write the same rows. Kept: three claim loops in a relay, claims that send an event once for all its subscribers, one settlement for all that a lane has delivered, prepared statements, turns that do not wait for the disk. Not done: places that `emit` gives, which is faster but can lose an event when the clock steps back.',
  },
  'round-trips': {
    title: 'A backlog drained with 5 ms added to every round trip',
    measure: benchRoundTrips,
    limits:
      'the same two cores. Little is lost against the drain without delay, because one claim loop works while another waits.',
  },
  history: { title: 'A backlog drained beside a long history', measure: benchHistory },
  snapshot: {
    title: 'A backlog drained while another session holds an old snapshot',
    measure: benchSnapshot,
  },
  transactional: {
    title: 'Handlers that write in the transaction of their delivery',
    measure: benchTransactional,
    limits:
      'the two cores, not the disk. pgbench sends one statement for each write and reads nothing. Here each delivery is also read and settled, and the handler’s round trip costs Node as much as any other. Kept: up to 32 deliveries share a commit and a settlement, and a transaction begins with its first statement; with one delivery in a transaction it was 1,456 a second.',
  },
  backfill: {
    title: 'A backfill of 100,000 events beside live traffic',
    measure: benchBackfill,
  },
  'paced-replay': {
    title: 'A paced replay of 100,000 deliveries beside live traffic',
    measure: benchPacedReplay,
  },
  outage: { title: 'A subscriber that is down for twelve hours', measure: benchOutage },
  emit: {
    title: 'Events emitted in a producer’s transaction',
    measure: benchEmit,
    limits:
      'with one producer the disk: it waits for its own commit, as every single producer does. pgbench shows how many commits a second the disk allows.',
  },
  idle: { title: 'An idle turn of the relay', measure: benchIdle },
  intake: { title: 'Webhook intake', measure: benchIntake },
  knee: { title: 'How many events a second one database takes', rounds: 1, measure: benchKnee },
  limit: { title: 'The database’s own limit', measure: benchLimit },
} as const satisfies Readonly<Record<string, Scenario>>;

export interface BusOptions {
  /** A tenth of the work in one round: to check that it runs. */
  readonly quick: boolean;
}

/**
 * The benchmarks of the event bus by name: beside the newest peers and the database itself, on Postgres with default
 * durability. The first one that runs installs the peers.
 */
export const busBenchmarks = Object.fromEntries(
  Object.entries<Scenario>(SCENARIOS).map(([name, scenario]) => [
    name,
    (options: BusOptions) => benchScenario(name, scenario, options),
  ]),
);

async function benchScenario(
  name: string,
  { title, rounds: usual = 3, measure, limits }: Scenario,
  { quick }: BusOptions,
): Promise<Section> {
  const startedAt = performance.now();
  const tell = (progress: string) =>
    console.log(`${minutes(performance.now() - startedAt)} ${name}: ${progress}`);
  const runtime = await prepareContenders(tell);
  const server = await startServer();
  try {
    const rounds = quick ? 1 : usual;
    const rows = await measure({ runtime, server, rounds, scale: quick ? 0.1 : 1, tell });
    const settings = Object.entries(server.settings).map(([setting, value]) => `${setting} = ${value}`);
    const isShort = rows.some(({ goal }) => goal.includes('NOT reached'));
    const notes = [
      ...(isShort && limits !== undefined ? [`What limits it: ${limits}`] : []),
      `${rounds} ${rounds === 1 ? 'round' : 'rounds, contenders in turn,'} on connections warmed by small rounds: medians [and ranges].`,
      `${versions(server.version, runtime.version)}.`,
      `Server settings that differ from the default: ${settings.join(', ')}.`,
    ];
    return { title, rows, notes };
  } finally {
    await server.stop();
  }
}

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

function versions(postgres: string, node: string): string {
  const file = new URL('../peers/package.json', import.meta.url);
  const { dependencies } = JSON.parse(readFileSync(file, 'utf8')) as { dependencies: Record<string, string> };
  const peers = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`);
  return `PostgreSQL ${postgres}; Node ${node} for all; ${peers.join(', ')}`;
}
