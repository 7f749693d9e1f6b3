import { readFileSync } from 'node:fs';

import type { Figure, Section } from '../figures.ts';
import { prepareContenders } from './contender.ts';
import { benchDrain, benchHistory, benchRoundTrips, benchSnapshot } from './drain.ts';
import { benchEmit } from './emit.ts';
import { benchIdle } from './idle.ts';
import { benchIntake } from './intake.ts';
import { benchLatency } from './latency.ts';
import { benchLimit } from './limit.ts';
import { startServer } from './server.ts';
import { benchTransactional } from './transactional.ts';
import type { Bench } from './turns.ts';

interface Scenario {
  readonly title: string;
  readonly measure: (bench: Bench) => Promise<Figure[]>;
}

/** What is measured of the bus, in the order in which it is. */
const SCENARIOS = {
  drain: { title: 'A backlog of 102,000 deliveries, drained', measure: benchDrain },
  'round-trips': { title: 'The same with 5 ms added to every round trip', measure: benchRoundTrips },
  history: { title: 'The same beside a long history', measure: benchHistory },
  snapshot: { title: 'The same while another session holds an old snapshot', measure: benchSnapshot },
  transactional: {
    title: 'Handlers that write in the transaction of their delivery',
    measure: benchTransactional,
  },
  emit: { title: 'Events emitted in the transaction of a producer', measure: benchEmit },
  latency: { title: 'From commit to handler', measure: benchLatency },
  idle: { title: 'A tick that finds nothing to do', measure: benchIdle },
  intake: { title: 'Signed webhooks taken in', measure: benchIntake },
  limit: { title: "The database's own limit", measure: benchLimit },
} as const satisfies Readonly<Record<string, Scenario>>;

const ROUNDS = 3;

export interface BusOptions {
  /** A tenth of the work in one round: to see that it runs. */
  readonly quick: boolean;
}

/**
 * The benchmarks of the bus by name: beside the newest peers and beside the database itself, on a real Postgres with
 * default durability. The first one that runs installs the peers.
 */
export const busBenchmarks = Object.fromEntries(
  Object.entries<Scenario>(SCENARIOS).map(([name, scenario]) => [
    name,
    (options: BusOptions) => benchScenario(name, scenario, options),
  ]),
);

async function benchScenario(
  name: string,
  { title, measure }: Scenario,
  { quick }: BusOptions,
): Promise<Section> {
  const startedAt = performance.now();
  const tell = (progress: string) =>
    console.log(`${minutes(performance.now() - startedAt)} ${name}: ${progress}`);
  const runtime = await prepareContenders(tell);
  const server = await startServer();
  try {
    const rounds = quick ? 1 : ROUNDS;
    const rows = await measure({ runtime, server, rounds, scale: quick ? 0.1 : 1, tell });
    const settings = Object.entries(server.settings).map(([setting, value]) => `${setting} = ${value}`);
    const notes = [
      `${rounds} ${rounds === 1 ? 'round' : 'rounds in turns'} after one to warm up: medians [and ranges].`,
      `${versions(server.version, runtime.version)}.`,
      `Settings of the server that are not the default: ${settings.join(', ')}.`,
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
