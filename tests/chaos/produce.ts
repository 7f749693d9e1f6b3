import pg from 'pg';

import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import { MINUTE, sleep } from '../../lib/platform/time.ts';
import { payloadOf } from '../support/bus.ts';
import type { Build } from './build.ts';
import type { Cancel, Emit } from './history.ts';
import type { Release } from './releases.ts';
import type { PlannedEmit, PlannedTransaction } from './schedule.ts';

/** What producers did, and what became of it. */
export interface Produced {
  readonly emits: Emit[];
  readonly cancels: Cancel[];
}

export interface Producing {
  readonly url: string;
  readonly builds: Readonly<Record<Release, Build>>;
  /** The run's clock. */
  readonly now: () => number;
}

/** One producer: its transactions, one after the other. @param into takes what it did. */
export async function produce(
  transactions: readonly PlannedTransaction[],
  { url, builds, now }: Producing,
  into: Produced,
): Promise<void> {
  let client: pg.Client | null = null;
  for (const [index, { release, waitMs, cancels = [], emits, holdMs, end }] of transactions.entries()) {
    const { emit, cancelTimer } = isBySql(release, index) ? BY_SQL : callsOf(builds[release]);
    await sleep(waitMs);
    const emitted: Pick<Emit, 'id' | 'tag'>[] = [];
    const cancelled: Omit<Cancel, 'fate'>[] = [];
    let fate: Emit['fate'] = 'rolled back';
    try {
      client ??= await opened(url);
      await client.query('begin');
      for (const { topic, timerKey } of cancels)
        cancelled.push({ topic, timerKey, wasThere: await cancelTimer(client, topic, timerKey) });
      for (const planned of emits) {
        const { id } = await emit(client, planned.topic, payloadFor(planned), optionsOf(planned, now()));
        emitted.push({ id, tag: planned.tag });
        await sleep(planned.thenMs);
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
    const known = fate === 'committed' ? { fate, committedAt: now() } : { fate };
    into.emits.push(...emitted.map((event) => ({ ...event, release, ...known })));
    into.cancels.push(...cancelled.map((cancel) => ({ ...cancel, fate })));
  }
  await client?.end().catch(() => undefined);
}

/** Of the next release's topics this one's types know nothing. */
interface Calls {
  readonly emit: (
    tx: pg.Client,
    topic: string,
    payload: object,
    options: EmitOptions,
  ) => Promise<{ id: string }>;
  readonly cancelTimer: (tx: pg.Client, topic: string, timerKey: string) => Promise<boolean>;
}

const callsOf = ({ bus }: Build) => bus as unknown as Calls;

function optionsOf({ key, timer }: PlannedEmit, now: number): EmitOptions {
  const ordering = key === 0 ? {} : { orderingKey: `key ${key}` };
  if (!timer) return ordering;
  const { afterMs, timerKey } = timer;
  // A duration is one by the database's clock.
  const at = afterMs > 0 && afterMs % MINUTE === 0 ? `${afterMs / MINUTE}m` : new Date(now + afterMs);
  return { ...ordering, at, ...(timerKey !== null && { timerKey }) };
}

/**
 * Whether a transaction is one of a producer in another language: every second one of the present release, whose catalog
 * is the published one.
 */
function isBySql(release: Release, index: number): boolean {
  return release === 'present' && index % 2 === 1;
}

const BY_SQL: Calls = {
  async emit(tx, topic, payload, { orderingKey = null, at = null, timerKey = null }) {
    const { rows } = await tx.query<{ id: string }>(
      `select postbud_emit($1, $2, $3,
         at => case when $4 ~ '^\\d+m$' then clock_timestamp() + $4::interval else $4::timestamptz end,
         timer_key => $5)::text as id`,
      [topic, payload, orderingKey, at instanceof Date ? at.toISOString() : at, timerKey],
    );
    return { id: rows[0]!.id };
  },
  async cancelTimer(tx, topic, timerKey) {
    const { rows } = await tx.query<{ it: boolean }>('select postbud_cancel_timer($1, $2) as it', [
      topic,
      timerKey,
    ]);
    return rows[0]!.it;
  },
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
