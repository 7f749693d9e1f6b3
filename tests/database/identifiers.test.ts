import { describe, expect } from 'vitest';

import { findEvents } from '../../lib/components/identifiers/find-events.ts';
import { hashOf } from '../../lib/components/identifiers/identifier.ts';
import { indexEvents } from '../../lib/components/identifiers/index-events.ts';
import { trimIndex } from '../../lib/components/identifiers/trim-index.ts';
import { DAY } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  emitPayments,
  numbers,
  openTransaction,
  payloadOf,
  payment,
  rows,
  emitAlone,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

const AMPLE_MS = 30_000;

const index = async ({ db }: Bus) => await indexEvents({ db, until: Date.now() + AMPLE_MS });

const found = async ({ db }: Bus, identifier: string) =>
  (await findEvents(db, [identifier], { below: Number.MAX_SAFE_INTEGER, limit: 10_000 })).map(
    ({ eventId }) => eventId,
  );

/** The events that a search finds by the index, newest first. */
const inOrder = async ({ db }: Bus, correlationId: string) =>
  (
    await rows<{ id: string }>(
      db,
      'select id::text from events where correlation_id = $1 order by seq desc',
      [correlationId],
    )
  ).map(({ id }) => id);

/** Has the next event the number behind this one. */
const countFrom = async ({ db }: Bus, seq: number) =>
  await rows(db, `select setval(pg_get_serial_sequence('events', 'seq'), $1)`, [seq]);

test('an event whose transaction overlapped with many others, and committed last, is found like them', async ({
  bus,
}) => {
  const late = await openTransaction(bus.url);
  const lateId = await late.emit('payment.captured', payment(1), { correlationId: 'same' });
  await emitPayments(bus.db, 2, 1500, { correlationId: 'same' });
  await index(bus);
  // Those that are committed have higher numbers.
  expect(await found(bus, 'same')).toEqual([]);
  const later = await openTransaction(bus.url);
  await later.emit('user.signed_in', payloadOf('user.signed_in'));
  await late.commit();
  await emitPayments(bus.db, 1501, 3100, { correlationId: 'same' });
  await index(bus);
  const some = await found(bus, 'same');
  expect(some).toContain(lateId);
  await later.commit();
  await index(bus);
  const ids = await found(bus, 'same');
  expect(ids.slice(-some.length)).toEqual(some);
  const all = await inOrder(bus, 'same');
  expect(ids).toEqual(all.slice(-ids.length));
  expect(ids.length).toBeGreaterThan(all.length - 1024);
});

test('a transaction that was prepared keeps the index waiting until it has ended', async ({ bus }) => {
  const prepared = await openTransaction(bus.url);
  const preparedId = await prepared.emit('payment.captured', payment(1), { correlationId: 'same' });
  await prepared.client.query(`prepare transaction 'late'`);
  await prepared.client.end();
  await emitPayments(bus.db, 2, 1500, { correlationId: 'same' });
  await index(bus);
  expect(await found(bus, 'same')).toEqual([]);
  await rows(bus.db, `commit prepared 'late'`);
  await index(bus);
  expect(await found(bus, 'same')).toContain(preparedId);
});

test('two indexers beside each other, and producers meanwhile, index every event once', async ({ bus }) => {
  let isDone = false;
  const indexing = [1, 2].map(async () => {
    while (!isDone) await index(bus);
    return await index(bus);
  });
  for (const batch of numbers(0, 7)) {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(0), { correlationId: 'same' });
    await emitPayments(bus.db, batch * 700 + 1, (batch + 1) * 700, { correlationId: 'same' });
    await open.commit();
  }
  isDone = true;
  await Promise.all(indexing);
  const ids = await found(bus, 'same');
  const all = await inOrder(bus, 'same');
  expect(all).toHaveLength(8 * 701);
  expect(ids.length).toBeGreaterThan(all.length - 1024);
  expect(ids).toEqual(all.slice(-ids.length));
});

test('events from before the index are added too, newest first, and the blocks are merged', async ({
  bus,
}) => {
  // Numbers from a busy past, with gaps such as a prune leaves.
  await countFrom(bus, 30_000);
  await emitPayments(bus.db, 1, 2000, { correlationId: 'old' });
  await countFrom(bus, 65_000);
  await emitPayments(bus.db, 2001, 4000, { correlationId: 'old' });
  await index(bus);
  const all = await inOrder(bus, 'old');
  const ids = await found(bus, 'old');
  expect(ids).toEqual(all.slice(-ids.length));
  expect(ids.length).toBeGreaterThan(all.length - 1024);
  const blocks = await rows<{ from: number }>(
    bus.db,
    'select distinct from_seq::float8 as "from" from identifiers order by 1',
  );
  expect(blocks[0]).toEqual({ from: 0 });
});

test('an index by an older rule is deleted and begun anew, and meanwhile nobody is found by its hashes', async ({
  bus,
}) => {
  await emitAlone(bus.db, 'webhook.cardpayments.received', {
    eventId: 'evt_1',
    eventType: null,
    body: { passport: 'CCC012345', data: { object: { id: 'pi_1' } } },
  });
  await emitPayments(bus.db, 1, 1100, { correlationId: 'same' });
  await index(bus);
  expect(await found(bus, 'pi_1')).toHaveLength(1);
  const before = await rows(bus.db, 'select * from identifiers order by bucket, from_seq');
  // As the release before this one left it.
  await rows(bus.db, 'update indexed_events set rule = 1');
  const personal = hashOf('CCC012345');
  await rows(
    bus.db,
    'update identifiers set hashes = hashes || $1::int, ends = ends || ends[cardinality(ends)]',
    [personal],
  );
  await index(bus);
  expect(await rows(bus.db, 'select * from identifiers order by bucket, from_seq')).toEqual(before);
  expect(await rows(bus.db, 'select rule from indexed_events')).toEqual([{ rule: 2 }]);
});

describe('pruning', () => {
  /** Makes a merged block of old events, of which the dead letters stay. */
  async function pruned(bus: Bus, kept: number): Promise<string[]> {
    await countFrom(bus, 1);
    await emitPayments(bus.db, 1, 100, { correlationId: 'old' });
    await countFrom(bus, 32_768);
    await emitPayments(bus.db, 101, 200, { correlationId: 'new' });
    await index(bus);
    const ids = await inOrder(bus, 'old');
    const gone = ids.slice(kept);
    await rows(bus.db, 'delete from events where id = any ($1)', [gone]);
    return ids.slice(0, kept);
  }

  const inAMonth = () => new Date(Date.now() + 31 * DAY);
  const blocks = async ({ db }: Bus) =>
    (await rows<{ count: number }>(db, 'select count(*)::int as count from event_blocks'))[0]!.count;

  test('a block past retention goes with its last event', async ({ bus }) => {
    await pruned(bus, 0);
    expect(await blocks(bus)).toBe(1);
    await trimIndex(bus.db, 30 * DAY);
    expect(await blocks(bus)).toBe(1);
    await trimIndex(bus.db, 30 * DAY, inAMonth());
    expect(await blocks(bus)).toBe(0);
    expect(await rows(bus.db, 'select from identifiers')).toEqual([]);
  });

  test('events that stay in a block past retention are still found, and the others take no room', async ({
    bus,
  }) => {
    const kept = await pruned(bus, 3);
    const size = async () =>
      (
        await rows<{ bytes: number }>(
          bus.db,
          'select sum(cardinality(ordinals))::int as bytes from identifiers',
        )
      )[0]!.bytes;
    const before = await size();
    await trimIndex(bus.db, 30 * DAY, inAMonth());
    expect(await found(bus, 'old')).toEqual(kept);
    expect(await size()).toBeLessThan(before / 10);
    // Nothing more to do, until a week later.
    await trimIndex(bus.db, 30 * DAY, inAMonth());
    expect(await found(bus, 'old')).toEqual(kept);
  });

  test.for([
    ['for a week', -8],
    ['but by a clock that was a year ahead', 365],
  ] as const)(
    'a block that nobody has looked at %s is looked at before newer ones',
    async ([, days], { bus }) => {
      await pruned(bus, 0);
      await countFrom(bus, 65_536);
      await emitPayments(bus.db, 201, 202, { correlationId: 'newer' });
      await index(bus);
      const looked = new Date(inAMonth().getTime() + days * DAY).toISOString();
      await rows(bus.db, 'update event_blocks set trimmed_at = $1 where from_seq = 0', [looked]);
      await trimIndex(bus.db, 30 * DAY, inAMonth());
      expect(await rows(bus.db, 'select from_seq::int, trimmed_at from event_blocks')).toEqual([
        { from_seq: 32768, trimmed_at: null },
      ]);
    },
  );
});
