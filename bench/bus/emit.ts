import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { ContenderName } from '../figure-names.ts';
import { atLeast, atMost, measured } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { PEERS, startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { databaseLimit } from './pgbench.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';

// Transactions a second that write a business row and emit one event with three subscribers. Peers store three jobs; ours
// stores the event and its marker, and a relay gives the event its place (see the drains).

const SECONDS = 4;

/** The goal by number of producers, relative to the best peer or to pgbench. */
const GOALS = [
  { producers: 1, pgbench: 0.9 },
  { producers: 16, peer: 3 },
];

const { example, producer, subscribers } = catalog['booking.created'];

/** The rows of one transaction of ours, without its safety: no lock, no check, no parameters. */
const SAME_ROWS = [
  'begin',
  `insert into business (note) values ('booked')`,
  `with event as (
     insert into events (id, topic, payload, version, producer, subscribers, ordering_key, correlation_id, created_at)
     values (uuidv7(), 'booking.created', '${JSON.stringify(example)}', 1, '${producer}', '{${subscribers.join(',')}}', '', gen_random_uuid()::text,
       clock_timestamp())
     returning topic, created_at, seq, id, ordering_key, version, subscribers
   )
   insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
   select topic, created_at, seq, id, ordering_key, version, subscribers, 300 from event`,
  'commit',
];

export async function benchEmit(bench: Bench): Promise<Figure[]> {
  const contenders = new Map<ContenderName, Contender>();
  try {
    for (const name of ['ours', ...PEERS] as const) {
      contenders.set(name, await startContender(bench.runtime, name, await bench.server.createDatabase()));
    }
    const figures: Figure[] = [];
    for (const goal of GOALS) figures.push(...(await emitting(bench, contenders, goal)));
    return figures;
  } finally {
    for (const contender of contenders.values()) await contender.stop();
  }
}

async function emitting(
  bench: Bench,
  contenders: ReadonlyMap<ContenderName, Contender>,
  { producers, pgbench, peer }: { producers: number; pgbench?: number; peer?: number },
): Promise<Figure[]> {
  const seconds = Math.max(1, SECONDS * bench.scale);
  let by = '';
  const found = await inTurns(bench, [
    ...Array.from(contenders, ([name, contender]) => ({
      label: name as string,
      async run() {
        await contender.call('reset');
        const { count, ms } = await contender.call<{ count: number; ms: number }>('emit', {
          producers,
          seconds,
        });
        return (count * 1000) / ms;
      },
    })),
    {
      label: 'limit',
      async run() {
        await contenders.get('ours')!.call('reset');
        const limit = await databaseLimit(contenders.get('ours')!.url, SAME_ROWS, {
          clients: producers,
          seconds,
        });
        by = limit.by;
        return limit.perSecond;
      },
    },
  ]);
  const title = `emit, ${producers} producer${producers > 1 ? 's' : ''}`;
  const ours = found['ours']!.median;
  const best = Math.max(...PEERS.map((name) => found[name]!.median));
  const beside = (what: string, ratio: number, least: number | undefined) =>
    least === undefined ? atMost(what, ratio, null) : atLeast(what, ratio, least);
  return [
    ...(['ours', ...PEERS] as const).map((name) => measured(`${title}: ${name}`, found[name]!, '/s')),
    measured(`${title}: the same rows by ${by}`, found['limit']!, '/s'),
    beside(`${title}: ours relative to the best peer`, ours / best, peer),
    beside(`${title}: ours relative to ${by}`, ours / found['limit']!.median, pgbench),
  ];
}
