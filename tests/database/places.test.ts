import pg from 'pg';
import { expect } from 'vitest';

import { test } from '../support/bus-test.ts';
import { WAITING, contradictions, emitPayments, openTransaction, rows } from '../support/bus.ts';

/** In place of the clock, whose reading it holds up. */
const SLOW_CLOCK = `
  create schema slow;
  create function slow.clock_timestamp() returns timestamptz language plpgsql as $$
  begin
    perform pg_advisory_xact_lock_shared(1);
    return pg_catalog.clock_timestamp();
  end
  $$`;

test('an event that was recorded first, and whose number is later, has the first place', async ({ bus }) => {
  const { db, url } = bus;
  await rows(db, SLOW_CLOCK);
  const placing = new pg.Client(url);
  await placing.connect();
  await placing.query('set search_path = slow, pg_catalog, public');
  const place = async () =>
    (
      await placing.query<{ events: number; is_awaited: boolean }>(
        `select events, is_awaited from postbud_place_3('payment.captured', '-infinity', 100, false)`,
      )
    ).rows;
  await emitPayments(db, 2, 2);
  const holding = await openTransaction(url);
  await holding.client.query('select pg_advisory_xact_lock(1)');
  const placed = place();
  await expect.poll(() => rows(db, WAITING)).toHaveLength(1);
  const [first] = await emitPayments(db, 1, 1);
  for (const [table, id] of [
    ['events', 'id'],
    ['awaiting', 'event_id'],
  ])
    await rows(db, `update ${table} set created_at = created_at - interval '1 second' where ${id} = $1`, [
      first,
    ]);
  await holding.rollback();
  expect(await placed).toEqual([{ events: 0, is_awaited: true }]);
  expect(await place()).toEqual([{ events: 2, is_awaited: false }]);
  expect(await contradictions(db)).toEqual([]);
  await placing.end();
});
