import { readFileSync } from 'node:fs';

import pg from 'pg';

import { catalog } from '../lib/bus/catalog/catalog.ts';
import { SECOND, sleep } from '../lib/platform/time.ts';
import { startRelay } from '../tests/support/local-server.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { openReceiver, answer } from '../tests/support/receiver.ts';
import type { BusOptions } from './bus/bus.ts';
import { goal, ms, number, quantile } from './figures.ts';
import type { Section } from './figures.ts';

const EVENTS = 500;
const LONGEST_PAUSE_MS = 200;
const IDLE_MS = 120 * SECOND;
const TOPIC = 'payment.captured';
const GOALS = { p50: 30, core: 0.01 };

/** Measures a relay process (`npm run relay`): how soon it sees what SQL commits without a kick, and what it costs while nothing happens. */
export async function benchProcess({ quick }: BusOptions): Promise<Section> {
  const [events, idleMs] = quick ? [EVENTS / 10, IDLE_MS / 10] : [EVENTS, IDLE_MS];
  const server = await startPostgres();
  const receiver = await openReceiver();
  const url = await createDatabase(server.url);
  const producer = new pg.Client(url);
  await producer.connect();
  const relay = await startRelay({
    DATABASE_URL: url,
    SUBSCRIBER_LEDGER_URL: receiver.url,
    SUBSCRIBER_LEDGER_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  });
  try {
    const committed = new Map<string, number>();
    const times: number[] = [];
    receiver.behave = (response) => {
      const { id } = JSON.parse(receiver.got.at(-1)!.body) as { id: string };
      // A request may overtake the answer to the commit.
      times.push(performance.now() - (committed.get(id) ?? performance.now()));
      answer(204)(response);
    };
    for (let count = 0; count < events; count += 1) {
      await sleep(Math.random() * LONGEST_PAUSE_MS);
      const { rows } = await producer.query<{ id: string }>('select postbud_emit($1, $2::jsonb) as id', [
        TOPIC,
        JSON.stringify(catalog[TOPIC].example),
      ]);
      committed.set(rows[0]!.id, performance.now());
    }
    while (times.length < events) await sleep(10);
    const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
    await sleep(5 * SECOND);
    const before = await cpuOfDatabase(producer);
    await sleep(idleMs);
    const share = ((await cpuOfDatabase(producer)) - before) / idleMs;
    return {
      title: 'The relay as a process',
      rows: [
        {
          what: 'commit of an SQL producer to the request at a component elsewhere, without a kick, p50',
          figure: ms(p50),
          goal: goal(`at most ${GOALS.p50} ms`, p50 <= GOALS.p50),
        },
        { what: 'the same, p99', figure: ms(p99), goal: '' },
        {
          what: `the database’s share of a core while an idle process looks, over ${number(idleMs / SECOND)} s`,
          figure: `${(share * 100).toFixed(2)} %`,
          goal: goal(`less than ${GOALS.core * 100} %`, share < GOALS.core),
        },
      ],
      notes: [
        `${number(events)} events, up to ${LONGEST_PAUSE_MS} ms apart. The share is the processor time of all processes of the database server, duties of the cron included.`,
      ],
    };
  } finally {
    await relay.stop();
    await producer.end();
    await receiver.close();
    await server.stop();
  }
}

/** The milliseconds of processor time that the server's processes have taken, but for the one that is asked. */
async function cpuOfDatabase(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>(
    'select pid from pg_stat_activity where pid <> pg_backend_pid()',
  );
  // Fields 14 and 15 of proc(5), in hundredths of a second. The second one, the program's name, may have spaces.
  const ticks = rows.map(({ pid }) =>
    readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' '),
  );
  return ticks.reduce((total, fields) => total + (Number(fields[11]) + Number(fields[12])) * 10, 0);
}
