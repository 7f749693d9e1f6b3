import { expect } from 'vitest';

import { findEvents } from '../../lib/identifiers/find-events.ts';
import { indexEvents } from '../../lib/identifiers/index-events.ts';
import { drain, emitPayments, numbers, openTransaction, payment, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { test } from '../support/bus-test.ts';

const AMPLE_MS = 30_000;

const index = async ({ db }: Bus) => await indexEvents({ db, until: Date.now() + AMPLE_MS });

const found = async ({ db }: Bus, identifier: string) =>
  (await findEvents(db, identifier, { below: Number.MAX_SAFE_INTEGER, limit: 10_000 })).map(
    ({ eventId }) => eventId,
  );

/** The events that were fanned out, newest first. */
const inOrder = async ({ db }: Bus) =>
  (
    await rows<{ id: string }>(
      db,
      `select distinct on (position) event_id::text as id from deliveries order by position desc`,
    )
  ).map(({ id }) => id);

test('an event whose transaction overlapped with many others, and committed last, is found like them', async ({
  bus,
}) => {
  const late = await openTransaction(bus.url);
  const lateId = await late.emit('payment.captured', payment(1), { correlationId: 'same' });
  // Another topic, which the open transaction does not hold back.
  const other = await openTransaction(bus.url);
  for (const _ of numbers(1, 1100)) await other.emit('user.signed_out' as never, {} as never).catch(() => '');
  await other.rollback();
  await emitPayments(bus.db, 2, 1500, { correlationId: 'same' });
  await drain(bus.db, []);
  await index(bus);
  await late.commit();
  await emitPayments(bus.db, 1501, 3100, { correlationId: 'same' });
  await drain(bus.db, []);
  await index(bus);
  const ids = await found(bus, 'same');
  expect(ids).toContain(lateId);
  expect(ids).toEqual((await inOrder(bus)).slice(-ids.length));
});

test('two indexers beside each other, and a fan-out meanwhile, index every event once', async ({ bus }) => {
  let isDone = false;
  const indexing = [1, 2].map(async () => {
    while (!isDone) await index(bus);
    return await index(bus);
  });
  for (const batch of numbers(0, 7)) {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(0), { correlationId: 'same' });
    await emitPayments(bus.db, batch * 700 + 1, (batch + 1) * 700, { correlationId: 'same' });
    await Promise.all([drain(bus.db, []), open.commit()]);
    await drain(bus.db, []);
  }
  isDone = true;
  await Promise.all(indexing);
  const ids = await found(bus, 'same');
  const all = await inOrder(bus);
  expect(all).toHaveLength(8 * 701);
  expect(ids.length).toBeGreaterThan(all.length - 1024);
  expect(ids).toEqual(all.slice(-ids.length));
});

test('events from before the index are added too, newest first, and the blocks are merged', async ({
  bus,
}) => {
  // Positions from a busy past, with a gap such as a rollback leaves.
  await rows(bus.db, `select setval('delivery_positions', 30000)`);
  await emitPayments(bus.db, 1, 2000, { correlationId: 'old' });
  await drain(bus.db, []);
  await rows(bus.db, `select setval('delivery_positions', 65000)`);
  await emitPayments(bus.db, 2001, 4000, { correlationId: 'old' });
  await drain(bus.db, []);
  await index(bus);
  const all = await inOrder(bus);
  const ids = await found(bus, 'old');
  expect(ids).toEqual(all.slice(-ids.length));
  expect(ids.length).toBeGreaterThan(all.length - 1024);
  const blocks = await rows<{ from: number }>(
    bus.db,
    'select distinct from_position::float8 as "from" from identifiers order by 1',
  );
  expect(blocks[0]).toEqual({ from: 0 });
});
