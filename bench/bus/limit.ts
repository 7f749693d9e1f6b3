import { measured } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { databaseLimit } from './pgbench.ts';
import { query } from './server.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';

const SECONDS = 4;
/** As many as one of our fan-outs and settlements has. */
const DELIVERIES = 6000;

/**
 * Measures the rows alone, with nothing checked, sent or read: 6,000 deliveries written in one transaction, then marked
 * as delivered in another.
 */
export async function benchLimit(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  try {
    await query(contender.url, 'create sequence raw_lane');
    const insert = `insert into deliveries (lane_id, position, event_id, payload_bytes)
      select lane, position, uuidv7(), 200
      from (select nextval('raw_lane') as lane) as one, generate_series(1, ${DELIVERIES}) as position`;
    const update = `update deliveries set state = 'delivered', attempts = 1, attempted_at = now(), duration_ms = 1, delivered_at = now()
      where lane_id = (select max(lane_id) from deliveries) and state = 'pending'`;
    let by = '';
    const found = await inTurns(bench, [
      {
        label: 'limit',
        async run() {
          await contender.call('reset');
          const limit = await databaseLimit(contender.url, [insert, update], {
            clients: 1,
            seconds: Math.max(1, SECONDS * bench.scale),
          });
          by = limit.by;
          return limit.perSecond * DELIVERIES;
        },
      },
    ]);
    return [
      measured(`${by} writes and then updates rows of deliveries, one connection`, found['limit']!, '/s'),
    ];
  } finally {
    await contender.stop();
  }
}
