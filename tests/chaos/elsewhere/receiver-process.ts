import pg from 'pg';
import { serve } from 'srvx';

import { PermanentError, receiver } from '../../../lib/elsewhere/receive/receiver.ts';
import { sleep } from '../../../lib/platform/time.ts';
import { loaded } from './loaded.ts';
import { COMPONENTS, SECRET } from './orders.ts';
import type { ReceiverOrders } from './orders.ts';

const { url, port, mistake } = JSON.parse(process.argv[2]!) as ReceiverOrders;

/** The share of handlers that throw. More shows one of the mistakes; but lanes then wait, and kills hit idle relays. */
const FAILURES = mistake === 'remembers-too-early' ? 0.01 : 0.005;

/** The share of handlers that refuse for good: the events are replayed at the end. */
const REFUSALS = 0.003;

await loaded();
const pool = new pg.Pool({ connectionString: url, max: 20 });
pool.on('error', () => undefined);
if (mistake === 'remembers-too-early') rememberTooEarly(pool);

const endpoints = new Map(
  COMPONENTS.map(({ name }) => [
    `/${name}`,
    receiver({
      subscriber: name,
      secrets: SECRET,
      database: pool,
      handlers: {
        'payment.captured': async ({ id, orderingKey }, tx) => {
          const text = 'insert into effects (subscriber, ordering_key, event_id) values ($1, $2, $3)';
          await tx.query(text, [name, orderingKey, id]);
          if (Math.random() < 0.1) await sleep(Math.random() * 40);
          if (Math.random() < FAILURES) throw new Error('now and then');
          if (Math.random() < REFUSALS) {
            // Not in the transaction, which is rolled back.
            await pool.query('insert into refusals (subscriber, event_id) values ($1, $2)', [name, id]);
            throw new PermanentError('now and then for good');
          }
        },
      },
      onGap: async ({ missingId, wasSkipped }, tx) => {
        const text = 'insert into gaps (subscriber, missing_id, was_skipped) values ($1, $2, $3)';
        await tx.query(text, [name, missingId, wasSkipped]);
      },
      onError: () => undefined,
    }),
  ]),
);

const server = serve({
  port,
  hostname: '127.0.0.1',
  silent: true,
  fetch: mistake === 'answers-too-early' ? answerTooEarly : answer,
});
await server.ready();
process.send?.('has begun');

function answer(request: Request): Promise<Response> {
  return endpoints.get(new URL(request.url).pathname)!(request);
}

async function answerTooEarly(request: Request): Promise<Response> {
  const { url, method, headers } = request;
  const body = await request.arrayBuffer();
  void answer(new Request(url, { method, headers, body }));
  return new Response(null, { status: 204 });
}

/** Commits what is remembered before the handler is called, as a receiver with a transaction of its own for it does. */
function rememberTooEarly(pool: pg.Pool): void {
  const connect = pool.connect.bind(pool) as () => Promise<pg.PoolClient>;
  const known = new WeakSet<pg.PoolClient>();
  pool.connect = (async () => {
    const client = await connect();
    if (known.has(client)) return client;
    known.add(client);
    const query = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<unknown>;
    client.query = (async (text: string, values?: unknown[]) => {
      const answer = await query(text, values);
      if (text.includes('insert into postbud_received')) await query('commit; begin');
      return answer;
    }) as typeof client.query;
    return client;
  }) as typeof pool.connect;
}
