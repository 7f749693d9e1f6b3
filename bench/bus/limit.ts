import { measured } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { databaseLimit } from './pgbench.ts';
import { query } from './server.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';

const SECONDS = 4;
/** As many as one of our turns may place. */
const EVENTS = 2000;
const SUBSCRIBERS = 3;

/**
 * Measures the rows alone, with nothing checked, sent or read: the places of 2,000 events written in one transaction, and in
 * another that three subscribers have got them.
 */
export async function benchLimit(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  try {
    await query(contender.url, 'create sequence raw_stream');
    const place = `insert into log (stream, position, event_id, bytes, version, ordering_key)
      select stream, position, uuidv7(), 200, 1, ''
      from (select nextval('raw_stream') as stream) as one, generate_series(1, ${EVENTS}) as position`;
    const settle = `insert into journal (lane, number, head, at, first, took_ms, ago_ms, delivered)
      select currval('raw_stream') * ${SUBSCRIBERS} + n, 1, ${EVENTS}, clock_timestamp(), 1, array_fill(1, array[${EVENTS}]),
        array_fill(1, array[${EVENTS}]), ${EVENTS}
      from generate_series(1, ${SUBSCRIBERS}) as n`;
    let by = '';
    const found = await inTurns(bench, [
      {
        label: 'limit',
        async run() {
          await contender.call('reset');
          const limit = await databaseLimit(contender.url, [place, settle], {
            clients: 1,
            seconds: Math.max(1, SECONDS * bench.scale),
          });
          by = limit.by;
          return limit.perSecond * EVENTS * SUBSCRIBERS;
        },
      },
    ]);
    return [
      measured(
        `${by} writes places and settlements, deliveries a second, one connection`,
        found['limit']!,
        '/s',
      ),
    ];
  } finally {
    await contender.stop();
  }
}
