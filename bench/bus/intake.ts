import { goal, measured, ms, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { databaseLimit } from './pgbench.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { webhookBody } from './workload.ts';

const WARM_UP = { count: 40, perSecond: 40 };
const PER_SECOND = 200;
const SECONDS = 6;
/** Concurrent requests at full speed; a pool has ten connections. */
const AT_ONCE = 16;
const CONNECTIONS = 10;
const GOALS = { p99Ms: 25, share: 0.4 };

const SAME_ROWS = [
  `with receipt as (
     insert into webhook_receipts (provider, event_id, event_type, body_sha256, received_at)
     values ('cardpayments', gen_random_uuid()::text, 'payment.captured', repeat('a', 64), clock_timestamp())
   ),
   event as (
     insert into events (id, topic, payload, version, producer, subscribers, ordering_key, correlation_id, created_at)
     values (uuidv7(), 'webhook.cardpayments.received', '${JSON.stringify({ body: JSON.parse(webhookBody(0)) as unknown })}',
       1, 'webhooks', '{payments}', '', gen_random_uuid()::text, clock_timestamp())
     returning topic, created_at, seq, id, ordering_key, version, subscribers
   )
   insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
   select topic, created_at, seq, id, ordering_key, version, subscribers, 300 from event`,
];

/** Measures signed webhooks, each a new one, through the function of api/webhooks: verified, deduplicated, stored. */
export async function benchIntake(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  try {
    const seconds = Math.max(1, SECONDS * bench.scale);
    await contender.call('intake', WARM_UP);
    const all: number[] = [];
    let by = '';
    const flood = (kicks: boolean) => async () => {
      await contender.call('reset');
      const order = { seconds, atOnce: AT_ONCE, kicks };
      const { count, ms } = await contender.call<{ count: number; ms: number }>('flood', order);
      return (count * 1000) / ms;
    };
    const found = await inTurns(bench, [
      {
        label: 'p99',
        async run() {
          await contender.call('reset');
          const order = { count: PER_SECOND * seconds, perSecond: PER_SECOND };
          const { times } = await contender.call<{ times: number[] }>('intake', order);
          all.push(...times);
          return quantile(times, 0.99);
        },
      },
      { label: 'flood', run: flood(true) },
      { label: 'flood alone', run: flood(false) },
      {
        label: 'limit',
        async run() {
          await contender.call('reset');
          const limit = await databaseLimit(contender.url, SAME_ROWS, { clients: CONNECTIONS, seconds });
          by = limit.by;
          return limit.perSecond;
        },
      },
    ]);
    const p99 = found['p99']!.median;
    const ratio = (label: string) => found[label]!.median / found['limit']!.median;
    return [
      {
        what: `webhook intake at ${PER_SECOND}/s while it delivers, p50 / p99`,
        figure: `${ms(quantile(all, 0.5))} / ${ms(p99)}`,
        goal: goal(`p99 at most ${GOALS.p99Ms} ms`, p99 <= GOALS.p99Ms),
      },
      measured('webhook intake at full speed', found['flood alone']!, '/s'),
      {
        what: 'webhook intake at full speed, while the same process delivers',
        figure: `${number(found['flood']!.median)}/s, ${number(ratio('flood'))} of the bare insert`,
        goal: '',
      },
      measured(`bare insert of the same rows by ${by}`, found['limit']!, '/s'),
      {
        what: 'webhook intake relative to the bare insert',
        figure: number(ratio('flood alone')),
        goal: goal(`at least ${GOALS.share}`, ratio('flood alone') >= GOALS.share),
      },
    ];
  } finally {
    await contender.stop();
  }
}
