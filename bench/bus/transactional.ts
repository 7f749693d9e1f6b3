import { goal } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { databaseLimit } from './pgbench.ts';
import { settleDown, watched } from './server.ts';
import { inTurns, number, shown } from './turns.ts';
import type { Bench } from './turns.ts';
import { SUBSCRIBERS } from './workload.ts';

const EVENTS = 2500;
const SECONDS = 3;
/** Transactional handlers that a relay runs at once (lib/relay/relay.ts). */
const CLIENTS = 6;
const GOAL = 0.5;

const ONE_WRITE = ['begin', `insert into business (note) values ('delivered')`, 'commit'];

/** Handlers that write one row each in the transaction that also settles their delivery: one commit a delivery. */
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
          await contender.call('fill', { events });
          await settleDown(contender.url);
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
      {
        what: 'drain with transactional handlers of one write each: ours',
        figure: shown(found['ours']!, '/s'),
        goal: '',
      },
      { what: 'one such delivery', figure: cost, goal: '' },
      {
        what: `transactions of that write alone by ${by}, ${CLIENTS} connections`,
        figure: shown(found['limit']!, '/s'),
        goal: '',
      },
      {
        what: `transactional drain beside ${by}`,
        figure: number(ratio),
        goal: goal(`at least ${GOAL}`, ratio >= GOAL),
      },
    ];
  } finally {
    await contender.stop();
  }
}
