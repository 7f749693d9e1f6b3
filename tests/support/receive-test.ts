import pg from 'pg';
import { RECEIVED_TABLE, receiver } from 'postbud/receive';
import type { Gap, ReceivedEvent } from 'postbud/receive';
import { inject } from 'vitest';

import { test as base } from './output-test.ts';
import { createDatabase } from './postgres.ts';
import { SECRET, requestOf } from './receive.ts';
import type { Difference } from './receive.ts';

type Then = (event: ReceivedEvent<'payment.captured'>, tx: pg.PoolClient) => unknown;

interface Options {
  readonly secrets?: string | readonly string[];
  readonly onGap?: (gap: Gap) => unknown;
  readonly onError?: (error: unknown) => void;
  readonly maxBytes?: number;
}

/**
 * Vitest's `test` for a receiver by itself, on a real Postgres:
 *
 * - `pool`: the component's database, emptied before each test;
 * - `ledger(then?, options?)`: makes a receiver whose handler writes its effect and then does what `then` does; it is asked
 *   with an event, a batch or a text, which is signed as the bus does;
 * - `effects()`, `remembered()`: the ids of events whose effects are committed, in order, and those that are remembered.
 */
export const test = base
  .extend('pool', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pool = new pg.Pool({ connectionString: await createDatabase(inject('postgresUrl')) });
    onCleanup(() => pool.end());
    await pool.query(RECEIVED_TABLE);
    await pool.query('create table effects (event_id uuid not null, place bigserial)');
    return pool;
  })
  .extend('empty', { auto: true }, async ({ pool }) => {
    await pool.query('truncate postbud_received, effects');
  })
  /** The ids of the events whose effects are committed, in order. */
  .extend('effects', ({ pool }) => async () => {
    const { rows } = await pool.query<{ id: string }>('select event_id as id from effects order by place');
    return rows.map(({ id }) => id);
  })
  .extend('remembered', ({ pool }) => async () => {
    const { rows } = await pool.query<{ id: string }>(
      'select event_id as id from postbud_received order by id',
    );
    return rows.map(({ id }) => id);
  })
  /** Makes a ledger; `then` is what its handler does after it has written its effect. */
  .extend('ledger', ({ pool }) => (then: Then = () => undefined, options: Options = {}) => {
    const answer = receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database: pool,
      handlers: {
        'payment.captured': async (event, tx) => {
          await tx.query('insert into effects values ($1)', [event.id]);
          await then(event, tx);
        },
      },
      onError: () => undefined,
      ...options,
    });
    return async (content: unknown, difference?: Difference) =>
      await read(await answer(requestOf(content, difference)));
  });

export interface Read {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown> | null;
}

export async function read(response: Response): Promise<Read> {
  const text = await response.text();
  const body = text === '' ? null : (JSON.parse(text) as Record<string, unknown>);
  return { status: response.status, headers: response.headers, body };
}
