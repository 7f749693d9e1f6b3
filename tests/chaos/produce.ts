import pg from 'pg';

import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import { sleep } from '../../lib/platform/time.ts';
import { payloadOf } from '../support/bus.ts';
import type { Build } from './build.ts';
import type { Emit } from './history.ts';
import type { Release } from './releases.ts';
import type { PlannedEmit, PlannedTransaction } from './schedule.ts';

/** Of the next release's topics this one's types know nothing. */
type EmitAny = (
  tx: pg.Client,
  topic: string,
  payload: object,
  options: EmitOptions,
) => Promise<{ id: string }>;

/** One producer: its transactions, one after the other. @returns what it emitted, and what became of it. */
export async function produce(
  transactions: readonly PlannedTransaction[],
  url: string,
  builds: Readonly<Record<Release, Build>>,
): Promise<Emit[]> {
  const emits: Emit[] = [];
  let client: pg.Client | null = null;
  for (const [index, { release, waitMs, emits: planned, holdMs, end }] of transactions.entries()) {
    const emit = isBySql(release, index) ? emitBySql : (builds[release].bus.emit as EmitAny);
    await sleep(waitMs);
    const emitted: { id: string; tag: string }[] = [];
    let fate: Emit['fate'] = 'rolled back';
    try {
      client ??= await opened(url);
      await client.query('begin');
      for (const plannedEmit of planned) {
        const { topic, tag, key, thenMs } = plannedEmit;
        const options = key === 0 ? {} : { orderingKey: `key ${key}` };
        const { id } = await emit(client, topic, payloadFor(plannedEmit), options);
        emitted.push({ id, tag });
        await sleep(thenMs);
      }
      await sleep(holdMs);
      if (end === 'lose the connection') throw new Error('as planned');
      if (end === 'commit') fate = 'unknown';
      await client.query(end);
      if (end === 'commit') fate = 'committed';
    } catch {
      // The server rolls back what is not known to have been committed.
      void client?.end().catch(() => undefined);
      client = null;
    }
    emits.push(...emitted.map((event) => ({ ...event, release, fate })));
  }
  await client?.end().catch(() => undefined);
  return emits;
}

/**
 * Whether a transaction is one of a producer in another language: every second one of the present release, whose catalog
 * is the published one.
 */
function isBySql(release: Release, index: number): boolean {
  return release === 'present' && index % 2 === 1;
}

const emitBySql: EmitAny = async (tx, topic, payload, { orderingKey }) => {
  const text = 'select postbud_emit($1, $2, $3)::text as id';
  const { rows } = await tx.query<{ id: string }>(text, [topic, payload, orderingKey ?? null]);
  return { id: rows[0]!.id };
};

/** The tag stands in a field that the bus makes nothing of. */
function payloadFor({ topic, tag, key }: PlannedEmit): object {
  if (topic === 'payment.settled') return { intentId: tag };
  return topic === 'booking.rescheduled'
    ? payloadOf(topic, { resourceId: tag, bookingId: `booking ${key}` })
    : payloadOf(topic, { intentId: tag });
}

/** Opens a connection whose loss does not end this process. */
export async function opened(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}
