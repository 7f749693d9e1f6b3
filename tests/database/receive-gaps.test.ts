import pg from 'pg';
import { PermanentError, RECEIVED_TABLE, receiver } from 'postbud/receive';
import { describe, expect, inject, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { rename } from '../../lib/bus/deliveries/operations/rename.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { DAY, HOUR, MINUTE } from '../../lib/platform/time.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test as busTest } from '../support/bus-test.ts';
import { START, contradictions, drain, drainLive, emitPayments } from '../support/bus.ts';
import { deliveryIdsOf } from '../support/records.ts';
import { relist } from '../support/scenes.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { listen, SECRET } from '../support/receive.ts';

const BY = { by: 'kari', reason: 'booked by hand' };

/** How the payments of a number are taken. */
type Behaviour = (number: number) => void;

/** A ledger elsewhere: what it handled, and the gaps that it was told of, as `number ← missing event`. */
class Ledger {
  readonly handled: number[] = [];
  gaps: { readonly before: number; readonly missing: string; readonly wasSkipped: boolean }[] = [];
  behave: Behaviour = () => undefined;
  onGap: () => void = () => undefined;
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  attached(isBatch = false) {
    return [
      remoteSubscriber({
        name: 'ledger',
        url: this.url,
        secret: SECRET,
        isBatch,
        topics: ['payment.captured'],
      }),
    ];
  }
}

const test = busTest
  .extend('pool', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pool = new pg.Pool({ connectionString: await createEmptyDatabase(inject('postgresUrl')) });
    onCleanup(() => pool.end());
    await pool.query(RECEIVED_TABLE);
    return pool;
  })
  .extend('elsewhere', async ({ pool }, { onCleanup }) => {
    await pool.query('truncate postbud_received');
    const endpoint = receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database: pool,
      handlers: {
        'payment.captured': ({ payload }) => {
          ledger.behave(payload.amountMinor);
          ledger.handled.push(payload.amountMinor);
        },
      },
      onGap: (gap) => {
        if (gap.topic !== 'payment.captured') return;
        const { missingId: missing, wasSkipped, event } = gap;
        ledger.gaps.push({ before: event.payload.amountMinor, missing, wasSkipped });
        ledger.onGap();
      },
      onError: () => undefined,
    });
    const server = await listen(endpoint);
    onCleanup(server.close);
    const ledger = new Ledger(server.url);
    return ledger;
  });

/** Refuses these payments for good. */
const refusing =
  (...numbers: readonly number[]): Behaviour =>
  (number) => {
    if (numbers.includes(number)) throw new PermanentError('refused');
  };

const skipped = (before: number, missing: string | undefined) => ({ before, missing, wasSkipped: true });

describe.for(['one by one', 'in batches'])('an event that a component elsewhere did not get, %s', (how) => {
  const isBatch = how === 'in batches';

  test('an order without losses is handed over without a gap', async ({ bus, elsewhere }) => {
    await emitPayments(bus.db, 1, 250);
    await drain(bus.db, elsewhere.attached(isBatch));
    await emitPayments(bus.db, 251, 260);
    await drain(bus.db, elsewhere.attached(isBatch));
    expect(elsewhere.handled).toEqual(Array.from({ length: 260 }, (_, index) => index + 1));
    expect(elsewhere.gaps).toEqual([]);
  });

  test('a dead letter is named with the event behind it, and a later replay of it gives no second alarm', async ({
    bus,
    elsewhere,
  }) => {
    elsewhere.behave = refusing(2);
    const ids = await emitPayments(bus.db, 1, 4);
    await drain(bus.db, elsewhere.attached(isBatch));
    // In a batch, its neighbours are retried with it.
    await drain(bus.db, elsewhere.attached(isBatch), { now: START + MINUTE });
    expect(elsewhere.handled).toEqual([1, 3, 4]);
    expect(elsewhere.gaps).toEqual([skipped(3, ids[1])]);

    elsewhere.behave = () => undefined;
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(START + 2 * MINUTE));
    await drain(bus.db, elsewhere.attached(isBatch), { now: START + 2 * MINUTE });
    await emitPayments(bus.db, 5, 5);
    await drain(bus.db, elsewhere.attached(isBatch), { now: START + 2 * MINUTE });
    expect(elsewhere.handled).toEqual([1, 3, 4, 2, 5]);
    expect(elsewhere.gaps).toEqual([skipped(3, ids[1])]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of two dead letters in a row the second one is named, and a replay of both gives no second alarm', async ({
    bus,
    elsewhere,
  }) => {
    elsewhere.behave = refusing(1, 2, 3);
    const ids = await emitPayments(bus.db, 1, 4);
    for (const minute of [0, 1, 2, 3])
      await drain(bus.db, elsewhere.attached(isBatch), { now: START + minute * MINUTE });
    expect(elsewhere.handled).toEqual([4]);
    // The others did not come either, each with the one before it: the alarm is about what is handled without another.
    expect(elsewhere.gaps.at(-1)).toEqual(skipped(4, ids[2]));
    const alarms = elsewhere.gaps.length;
    elsewhere.behave = () => undefined;
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(START + HOUR));
    await drain(bus.db, elsewhere.attached(isBatch), { now: START + HOUR });
    expect(elsewhere.handled).toEqual([4, 1, 2, 3]);
    expect(elsewhere.gaps).toHaveLength(alarms);
  });

  test('a delivery that an operator skips is named with the event behind it', async ({ bus, elsewhere }) => {
    elsewhere.behave = (number) => {
      if (number === 2) throw new Error('not yet');
    };
    const ids = await emitPayments(bus.db, 1, 3);
    await drain(bus.db, elsewhere.attached(isBatch));
    const deliveryId = (await deliveryIdsOf(bus.db))[1]!;
    await skip(bus.db, { deliveryId, ...BY, now: new Date(START) });
    await drain(bus.db, elsewhere.attached(isBatch));
    expect(elsewhere.handled).toEqual([1, 3]);
    expect(elsewhere.gaps).toEqual([skipped(3, ids[1])]);
  });

  test('a dismissed dead letter is named with the event behind it, and a replay that comes after all gives no alarm', async ({
    bus,
    elsewhere,
  }) => {
    elsewhere.behave = refusing(1);
    const ids = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, elsewhere.attached(isBatch));
    const asked = { topic: 'payment.captured', subscriber: 'ledger', kind: null };
    await dismiss(bus.db, asked, {
      action: 'dismiss',
      ...BY,
      now: new Date(START),
      until: Date.now() + MINUTE,
    });
    await emitPayments(bus.db, 2, 3);
    await drain(bus.db, elsewhere.attached(isBatch));
    expect(elsewhere.handled).toEqual([2, 3]);
    expect(elsewhere.gaps).toEqual([skipped(2, ids[0])]);
  });

  test('a gap that onGap throws for refuses the event, until the missing one was replayed', async ({
    bus,
    elsewhere,
  }) => {
    elsewhere.behave = refusing(1);
    elsewhere.onGap = () => {
      throw new Error('not without the one before');
    };
    await emitPayments(bus.db, 1, 2);
    for (const minute of [0, 1])
      await drain(bus.db, elsewhere.attached(isBatch), { now: START + minute * MINUTE });
    expect(elsewhere.handled).toEqual([]);
    elsewhere.behave = () => undefined;
    const now = START + 3 * MINUTE;
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(now));
    for (const minute of [0, 30])
      await drain(bus.db, elsewhere.attached(isBatch), { now: now + minute * MINUTE });
    expect(elsewhere.handled).toEqual([1, 2]);
  });

  test('a gap is one of a key, and other keys in the same lane are not told of it', async ({
    bus,
    elsewhere,
  }) => {
    const keys = Array.from({ length: 20 }, (_, index) => `booking ${index}`);
    elsewhere.behave = refusing(2003);
    const ids = new Map<number, string>();
    for (const round of [1, 2, 3]) {
      for (const [index, orderingKey] of keys.entries()) {
        const number = round * 1000 + index;
        const [id] = await emitPayments(bus.db, number, number, { orderingKey });
        ids.set(number, id!);
      }
    }
    for (const minute of [0, 1, 10])
      await drain(bus.db, elsewhere.attached(isBatch), { now: START + minute * MINUTE });
    expect(elsewhere.handled).toHaveLength(59);
    expect(elsewhere.gaps).toEqual([skipped(3003, ids.get(2003))]);
  });
});

describe('the memory of a receiver', () => {
  test('a receiver that was attached later takes what was delivered before for no gap', async ({
    bus,
    elsewhere,
    ledger,
    handed,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger()]);
    await emitPayments(bus.db, 4, 5);
    await drain(bus.db, elsewhere.attached());
    // An operator replays an event from before: it is older than all that the receiver knows.
    const request = { topic: 'payment.captured', since: '1h', include: 'all', limit: 1 } as const;
    await replay(bus.db, request, 'kari', new Date(START + MINUTE));
    await emitPayments(bus.db, 6, 6);
    await drain(bus.db, elsewhere.attached(), { now: START + MINUTE });
    expect([handed, elsewhere.handled]).toEqual([
      [1, 2, 3],
      [4, 5, 1, 6],
    ]);
    expect(elsewhere.gaps).toEqual([]);
  });

  test('a receiver that deleted old ids sees no gap, and one that lost new ones does', async ({
    bus,
    elsewhere,
    pool,
  }) => {
    const ids = await emitPayments(bus.db, 1, 3);
    await drain(bus.db, elsewhere.attached());
    await pool.query("update postbud_received set received_at = received_at - interval '90 days'");
    await pool.query(DELETE_OLD);
    await emitPayments(bus.db, 4, 5);
    await drain(bus.db, elsewhere.attached());
    expect([elsewhere.handled, elsewhere.gaps]).toEqual([[1, 2, 3, 4, 5], []]);

    // As after a restored backup: it remembers what is older than the lost one.
    await pool.query("update postbud_received set received_at = received_at - interval '1 day'");
    const [lost] = await emitPayments(bus.db, 6, 6);
    await drain(bus.db, elsewhere.attached());
    await pool.query('delete from postbud_received where event_id = $1', [lost]);
    await emitPayments(bus.db, 7, 7);
    await drain(bus.db, elsewhere.attached());
    expect(elsewhere.gaps).toEqual([{ before: 7, missing: lost, wasSkipped: false }]);
    expect(ids).not.toContain(lost);
  });

  test('an event whose predecessors are pruned comes without the id of one', async ({
    bus,
    elsewhere,
    pool,
  }) => {
    await emitPayments(bus.db, 1, 2);
    const others = catalog['payment.captured'].subscribers.filter((name) => name !== 'ledger');
    const take = { 'payment.captured': () => undefined };
    await drain(bus.db, [...elsewhere.attached(), ...others.map((name) => attach(name, take))]);
    const pruned = await prune({
      db: bus.db,
      until: Date.now() + MINUTE,
      now: new Date(Date.now() + 31 * DAY),
    });
    expect(pruned.events).toBe(2);
    await pool.query('truncate postbud_received');
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, elsewhere.attached());
    expect([elsewhere.handled, elsewhere.gaps]).toEqual([[1, 2, 3], []]);
  });

  test('a gap is logged as a warning by default, and the event is handled', async ({ bus, pool }) => {
    const said = vi.spyOn(console, 'warn').mockReturnValue(undefined);
    const handled: number[] = [];
    const endpoint = receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database: pool,
      handlers: {
        'payment.captured': ({ payload }) => {
          refusing(1)(payload.amountMinor);
          handled.push(payload.amountMinor);
        },
      },
    });
    const server = await listen(endpoint);
    const ids = await emitPayments(bus.db, 1, 2);
    const ledger = new Ledger(server.url);
    await drain(bus.db, ledger.attached());
    await server.close();
    expect(handled).toEqual([2]);
    expect(said.mock.calls).toEqual([
      [
        `postbud: payment.captured ${ids[1]} came without the event before it, ${ids[0]}: the bus gave it up, see its console.`,
      ],
    ]);
  });
});

describe('the order before an event', () => {
  test('a backfill is handed over in order without a gap, and what it skips is named', async ({
    bus,
    elsewhere,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    const ids = await emitPayments(bus.db, 4, 5);
    elsewhere.behave = refusing(2);
    await drainLive(bus.db, [attach('accounting', {})]);
    await backfill(bus.db, {
      topic: 'payment.captured',
      subscriber: 'ledger',
      since: new Date(Date.now() - DAY),
      by: 'kari',
    });
    await drainLive(bus.db, elsewhere.attached());
    expect(elsewhere.handled).toEqual([1, 3, 4, 5]);
    expect(elsewhere.gaps).toEqual([{ before: 3, missing: expect.any(String) as string, wasSkipped: true }]);
    expect(ids).not.toContain(elsewhere.gaps[0]!.missing);
  });

  test('a rename keeps the order: dead letters that moved are named, and what the former name got is no gap', async ({
    bus,
    elsewhere,
  }) => {
    const ids = await emitPayments(bus.db, 1, 4);
    await relist(bus.db, `array_replace(subscribers, 'ledger', 'books')`);
    const handled: number[] = [];
    const take = (event: unknown) => {
      const { amountMinor } = (event as { payload: { amountMinor: number } }).payload;
      refusing(2)(amountMinor);
      if (amountMinor === 3) throw new Error('not yet');
      handled.push(amountMinor);
    };
    const books = { ...attach('ledger', {}), name: 'books', handlers: new Map([['payment.captured', take]]) };
    await drain(bus.db, [books]);
    expect(handled).toEqual([1]);
    await rename(bus.db, { from: 'books', to: 'ledger', topic: null }, BY);
    await drain(bus.db, elsewhere.attached(), { now: START + MINUTE });
    expect(elsewhere.handled).toEqual([3, 4]);
    expect(elsewhere.gaps).toEqual([skipped(3, ids[1])]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

/** As docs/elsewhere.md has it. */
const DELETE_OLD = "delete from postbud_received where received_at < now() - interval '60 days'";
