import { atLeast, measured, number } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { drainSingly } from './drain.ts';
import { databaseLimit } from './pgbench.ts';
import { watched } from './server.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { SUBSCRIBERS } from './workload.ts';

const EVENTS = 10_000;
const SECONDS = 3;
/** Transactional handlers that a relay runs at once (lib/bus/relay/relay.ts). */
const CLIENTS = 6;
const GOAL = 1;

/** One statement that commits itself: the fastest way to commit a write. */
const ONE_WRITE = [`insert into business (note) values ('delivered')`];

/** Measures handlers that write one row each in the transaction that also settles their delivery. */
export async function benchTransactional(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  try {
    const events = Math.round(EVENTS * bench.scale);
    const deliveries = events * SUBSCRIBERS;
    let by = '';
    let cost = '';
    const found = await inTurns(bench, [
      {
        label: 'ours',
        async run() {
          await contender.call('reset');
          await drainSingly(contender, { transactional: true });
          await contender.call('fill', { events });
          const { found, work } = await watched(contender.url, () =>
            contender.call<{ ms: number; cpuMs: number }>('drain', { deliveries, transactional: true }),
          );
          const databaseMs = work.statements.reduce((total, { totalMs }) => total + totalMs, 0);
          const micros = (ms: number) => number((ms * 1000) / deliveries);
          cost = `${micros(found.cpuMs)} µs Node, ${micros(databaseMs)} µs statements`;
          return (deliveries * 1000) / found.ms;
        },
      },
      {
        label: 'limit',
        async run() {
          const limit = await databaseLimit(contender.url, ONE_WRITE, {
            clients: CLIENTS,
            seconds: Math.max(1, SECONDS * bench.scale),
          });
          by = limit.by;
          return limit.perSecond;
        },
      },
    ]);
    const ratio = found['ours']!.median / found['limit']!.median;
    return [
      measured('drain with transactional handlers, one write each: ours', found['ours']!, '/s'),
      { what: 'one such delivery', figure: cost, goal: '' },
      measured(`the same write alone, committed by ${by}, ${CLIENTS} connections`, found['limit']!, '/s'),
      atLeast(`transactional drain relative to ${by}`, ratio, GOAL),
    ];
  } finally {
    await contender.stop();
  }
}
