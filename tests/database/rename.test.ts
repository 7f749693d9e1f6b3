import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { previewRename, rename } from '../../lib/bus/deliveries/operations/rename.ts';
import type { Rename } from '../../lib/bus/deliveries/operations/rename.ts';
import { retire } from '../../lib/bus/deliveries/operations/retire.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { emitToBooks } from '../support/books.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, rows, START } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { fail, refuse } from '../support/ledger.ts';
import { countDeliveries, statesOf } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';

const CAPTURED = 'payment.captured';
const WORD = { by: 'kari', reason: 'accounting is in the ledger' };

const renamed = (db: Database, asked: Partial<Rename> = {}) =>
  rename(db, { from: 'books', to: 'ledger', topic: null, ...asked }, WORD);

/** Attaches the former name, which no catalog lists any more, as an earlier release does. */
function books(handle: (number: number) => unknown = () => undefined): AttachedSubscriber {
  const handlers = new Map([
    [
      CAPTURED,
      (event: { payload: unknown }) => handle((event.payload as { amountMinor: number }).amountMinor),
    ],
  ]);
  return { ...attach('ledger', {}), name: 'books', handlers: handlers as AttachedSubscriber['handlers'] };
}

async function someOfEach(bus: Bus): Promise<void> {
  await emitToBooks(bus.db, 1, 3);
  await drain(bus.db, [books()]);
  await emitToBooks(bus.db, 4, 6);
  await drain(bus.db, [books(refuse)]);
  await emitToBooks(bus.db, 7, 9);
  await drain(bus.db, [books(fail)]);
}

describe('a renamed subscriber', () => {
  test('has the deliveries of its former name, in order, and with what was delivered', async ({
    bus,
    handed,
    ledger,
  }) => {
    await someOfEach(bus);
    await emitToBooks(bus.db, 10, 11);
    const standing = [{ topic: CAPTURED, waiting: 5, deadLettered: 3 }];
    expect(await previewRename(bus.db, { from: 'books', to: 'ledger', topic: null })).toEqual(standing);
    expect(await renamed(bus.db)).toEqual(standing);
    await emitPayments(bus.db, 12, 13);
    expect(await contradictions(bus.db)).toEqual([]);
    await drain(bus.db, [ledger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual([7, 8, 9, 10, 11, 12, 13]);
    expect(await statesOf(bus.db, 'books')).toEqual([]);
    expect(await statesOf(bus.db, 'ledger')).toEqual([
      ...Array<string>(3).fill('delivered'),
      ...Array<string>(3).fill('dead_lettered'),
      ...Array<string>(7).fill('delivered'),
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('keeps the order of each key', async ({ bus }) => {
    for (const key of ['venue 1', 'venue 2']) {
      const from = Number(key.slice(-1)) * 10;
      await emitToBooks(bus.db, from, from + 2, { orderingKey: key });
    }
    await drain(bus.db, [books((number) => (number < 20 ? fail() : undefined))]);
    await emitToBooks(bus.db, 13, 13, { orderingKey: 'venue 1' });
    await renamed(bus.db);
    await emitPayments(bus.db, 14, 14, { orderingKey: 'venue 1' });
    const handed: number[] = [];
    const attached = { ...books((number) => handed.push(number)), name: 'ledger' } as AttachedSubscriber;
    await drain(bus.db, [attached], { now: START + DAY });
    expect(handed).toEqual([10, 11, 12, 13, 14]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('has its pauses, and its dead letters in the same group as its own', async ({ bus, ledger }) => {
    await someOfEach(bus);
    await pause(bus.db, { subscriber: 'books', topic: null }, 'ola', 'moving');
    await pause(bus.db, { subscriber: 'books', topic: CAPTURED }, 'ola', 'moving');
    await renamed(bus.db);
    expect(await rows(bus.db, 'select subscriber, topic from pauses order by topic')).toEqual([
      { subscriber: 'ledger', topic: '' },
      { subscriber: 'ledger', topic: CAPTURED },
    ]);
    await rows(bus.db, 'delete from pauses');
    await emitPayments(bus.db, 10, 10);
    await drain(bus.db, [ledger((number) => (number === 10 ? refuse() : undefined))], {
      now: START + 2 * MINUTE,
    });
    expect(
      await rows(
        bus.db,
        `select subscriber, message, (select count(*)::int from exceptions where error_group = key) as dead from error_groups`,
      ),
    ).toEqual([{ subscriber: 'ledger', message: 'refused', dead: 4 }]);
  });

  test('is recorded with the operator and the reason', async ({ bus }) => {
    await someOfEach(bus);
    await renamed(bus.db);
    expect(
      await rows(bus.db, 'select operator, action, topic, subscriber, reason from operator_actions'),
    ).toEqual([
      {
        operator: 'kari',
        action: 'rename',
        topic: CAPTURED,
        subscriber: 'books',
        reason: 'Now ledger: accounting is in the ledger',
      },
    ]);
  });

  test('is refused the name of another subscriber, and nothing is renamed', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 2, { isBeside: true });
    await drain(bus.db, [books()]);
    await expect(renamed(bus.db)).rejects.toMatchObject({ code: 'name_taken' });
    await expect(renamed(bus.db, { from: 'accounting' })).rejects.toMatchObject({ code: 'name_taken' });
    expect(await statesOf(bus.db, 'books')).toEqual(['delivered', 'delivered']);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });

  test('that has nothing is unknown', async ({ bus }) => {
    expect(await renamed(bus.db, { from: 'telegrams' })).toBeNull();
    await someOfEach(bus);
    expect(await renamed(bus.db, { topic: 'payment.failed' })).toBeNull();
  });

  test('may be held by a relay meanwhile, which settles what it has in hand', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 1);
    await drain(bus.db, [books(async () => void (await renamed(bus.db)))]);
    expect(await statesOf(bus.db, 'ledger')).toEqual(['delivered']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a retired subscriber', () => {
  const retired = (db: Database, subscriber = 'books', topic: string | null = null) =>
    retire(db, { subscriber, topic }, WORD);

  test('has nothing any more, and its events stay with the deliveries of others', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 3, { isBeside: true });
    await drain(bus.db, [books(refuse)]);
    await emitToBooks(bus.db, 4, 5, { isBeside: true });
    await drain(bus.db, []);
    await emitToBooks(bus.db, 6, 6);
    await pause(bus.db, { subscriber: 'books', topic: null }, 'ola', 'leaving');
    const others = await countDeliveries(bus.db, `subscriber <> 'books'`);
    expect(await retired(bus.db)).toEqual({ topics: [CAPTURED], dismissed: 6 });
    expect(await statesOf(bus.db, 'books')).toEqual([]);
    expect(await countDeliveries(bus.db)).toBe(others);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    await drain(bus.db, []);
    expect(await rows(bus.db, `select from lanes where subscriber = 'books'`)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
    expect(
      await rows(bus.db, 'select action, topic, subscriber, reason from operator_actions where action = $1', [
        'retire',
      ]),
    ).toEqual([{ action: 'retire', topic: CAPTURED, subscriber: 'books', reason: WORD.reason }]);
    expect(await retired(bus.db)).toEqual({ topics: [], dismissed: 0 });
  });

  test('must be one that the catalog does not list, and that no relay delivers to', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 3, { isBeside: true });
    await drain(bus.db, []);
    await expect(retired(bus.db, 'ledger')).rejects.toMatchObject({ code: 'still_listed' });
    await holdLanes(bus.db, { subscriber: 'books', until: new Date('2100-01-01') });
    await expect(retired(bus.db)).rejects.toMatchObject({ code: 'under_way' });
    expect(await statesOf(bus.db, 'books')).toHaveLength(3);
  });
});
