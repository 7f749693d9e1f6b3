import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { z } from 'zod';

import { keepRelaying } from '../../lib/bus/relay/keep-relaying.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { duties, perform } from '../../lib/edge/cron/duties.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { limitStatements, run } from '../../lib/platform/db/statement.ts';
import { DAY, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  emitPayments,
  gate,
  idsInOrder,
  numbers,
  openTransaction,
  payloadOf,
  payment,
  rows,
  emitAlone,
} from '../support/bus.ts';
import type { Bus, OpenTransaction } from '../support/bus.ts';
import { leasedLanes } from '../support/records.ts';

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

/** Of a run, to which it has ample time and makes no second look: shorter than its waits, so that it ends when nothing is due. */
const AMPLE = 2.9 * SECOND;

const answer = z.object({
  delivered: z.int(),
  placed: z.int(),
  struck: z.array(z.string()),
  undone: z.array(z.string()),
});
const cron = async (bus: Bus, attached: readonly AttachedSubscriber[], budgetMs: number, db = bus.db) =>
  answer.parse(await (await runCron({ db, subscribers: attached, duties, budgetMs })).json());

describe('a run of the cron', () => {
  test('emits the daily events that were missed, delivers, and answers with what it did', async ({
    bus,
    handed,
    ledger,
  }) => {
    const now = Date.now();
    const missedSince = dayOf(now - 3 * DAY);
    const scheduledFor = `${missedSince}T06:00:00.000Z`;
    const payload = { day: missedSince, scheduledFor };
    await emitAlone(bus.db, 'cron.daily.06_00', payload, { dedupeKey: missedSince });
    await emitPayments(bus.db, 1, 3);
    const { delivered, struck } = await cron(bus, [ledger()], AMPLE);
    expect(delivered).toBe(3);
    expect(handed).toEqual([1, 2, 3]);
    expect(struck.slice(0, 2)).toEqual([dayOf(now - 2 * DAY), dayOf(now - DAY)].slice(0, struck.length));
    expect(struck.length).toBeGreaterThanOrEqual(1);
    expect(await idsInOrder(bus.db, 'cron.daily.06_00')).toHaveLength(1 + struck.length);
    // Struck already, unless 06:00 has just passed.
    const again = await cron(bus, [ledger()], AMPLE);
    expect(again.struck.filter((day) => struck.includes(day))).toEqual([]);
    expect(await idsInOrder(bus.db, 'cron.daily.06_00')).toHaveLength(
      1 + struck.length + again.struck.length,
    );
  });

  test('begins no delivery after its budget is used, finishes those that it began, and leaves the rest to the next run', async ({
    bus,
    handed,
    ledger,
  }) => {
    let inFlight = 0;
    const slow = ledger(async () => {
      inFlight += 1;
      await sleep(40);
      inFlight -= 1;
    });
    await emitPayments(bus.db, 1, 50);
    const { delivered } = await cron(bus, [slow], 200);
    expect(inFlight).toBe(0);
    const handedThen = handed.length;
    expect(handedThen).toBe(delivered);
    expect(handedThen).toBeLessThan(50);
    expect(await leasedLanes(bus.db)).toEqual([]);
    expect((await cron(bus, [ledger()], AMPLE)).delivered).toBe(50 - handedThen);
    expect(handed).toEqual(numbers(1, 50));
  });
});

describe('the other duties of the cron', () => {
  /** A day's strike that is missed, and one in a transaction that does not end: the clock waits for that one. */
  async function heldClock(bus: Bus): Promise<OpenTransaction> {
    const strike = (day: string) => ({ day, scheduledFor: `${day}T06:00:00.000Z` });
    const [missedSince, held] = [dayOf(Date.now() - 3 * DAY), dayOf(Date.now() - 2 * DAY)];
    await emitAlone(bus.db, 'cron.daily.06_00', strike(missedSince), { dedupeKey: missedSince });
    const open = await openTransaction(bus.url);
    await open.emit('cron.daily.06_00', strike(held), { dedupeKey: held });
    return open;
  }

  test('may wait for a lock that is never released: due deliveries are handed over meanwhile', async ({
    bus,
    handed,
    ledger,
  }) => {
    const open = await heldClock(bus);
    const delivered = gate();
    await emitPayments(bus.db, 1, 1);
    const running = cron(bus, [ledger(() => delivered.open())], AMPLE);
    await delivered.opened;
    await open.rollback();
    expect((await running).undone).toEqual([]);
    expect(handed).toEqual([1]);
  });

  test('leave connections for the relay, even when every duty waits and transactional handlers hold the others', async ({
    bus,
    ledger,
  }) => {
    const locker = await openTransaction(bus.url);
    await locker.client.query('select pg_advisory_xact_lock(17)');
    const lock = (shared: Parameters<Parameters<typeof bus.db.transaction>[0]>[0]) =>
      run(shared, { text: 'select pg_advisory_xact_lock_shared(17)', values: [] });
    const waiting = duties.map(({ name }) => ({
      name,
      run: async (db: typeof bus.db) => {
        await db.transaction(lock);
        return {};
      },
    }));
    // As many as handlers get, and two runs in one instance.
    const { opened, open } = gate();
    const handlers = numbers(1, 6).map(() => bus.db.transaction(() => opened));
    const performing = [perform(waiting, bus.db), perform(waiting, bus.db)];
    try {
      await emitPayments(bus.db, 1, 1);
      expect(
        await keepRelaying({ db: bus.db, subscribers: [ledger()], until: Date.now() + AMPLE }),
      ).toMatchObject({ delivered: 1 });
    } finally {
      await locker.commit();
      open();
    }
    for (const { undone } of await Promise.all(performing)) expect(undone).toEqual([]);
    await Promise.all(handlers);
  });

  test('stop waiting after a limit, so that they release their connections', async ({ bus }) => {
    const query = vi.spyOn(pg.Client.prototype, 'query');
    const { undone } = await perform(duties, bus.db);
    const { calls, contexts } = query.mock;
    query.mockRestore();
    const texts = calls.map(([asked]) =>
      typeof asked === 'string' ? asked : (asked as { text: string }).text,
    );
    const transactions = [...new Set(contexts)].flatMap((client) =>
      texts
        .filter((_, index) => contexts[index] === client)
        .join('; ')
        .split(/(?<=commit)(?:; |$)/)
        .filter((transaction) => transaction !== ''),
    );
    expect(undone).toEqual([]);
    expect(transactions.length).toBeGreaterThanOrEqual(duties.length);
    // The first statement sets the limit; it may try a lock as well, without waiting for it.
    const limited =
      /^\s*select (?:[^;]*pg_try_advisory_xact_lock[^;]*)?set_config\('statement_timeout'.*commit$/s;
    for (const transaction of transactions) expect(transaction).toMatch(limited);
  });

  test('have a statement limit that ends with its transaction', async ({ bus }) => {
    const waiting = bus.db.transaction(async (tx) => {
      await limitStatements(tx, 20);
      await run(tx, { text: 'select pg_sleep(60)', values: [] });
    });
    await expect(waiting).rejects.toMatchObject({ code: '57014' });
    expect(await rows(bus.db, 'show statement_timeout')).toEqual([{ statement_timeout: '0' }]);
  });
});

describe('a relay that keeps running until its time is up', () => {
  test('hands over a retry when it is due, before its next scheduled look', async ({
    bus,
    handed,
    ledger,
  }) => {
    const patient = ledger(() => {
      if (handed.length === 1) throw new RetryAfter(50);
    });
    await emitPayments(bus.db, 1, 1);
    // Shorter than a tick, so there is no other one.
    const report = await keepRelaying({ db: bus.db, subscribers: [patient], until: Date.now() + AMPLE });
    expect(report).toMatchObject({ waited: 1, delivered: 1, failed: 0, nextRetryAt: null });
    expect(handed).toEqual([1, 1]);
  });

  test('ends at once when it is told to stop while it waits', async ({ bus, ledger }) => {
    const stopped = new AbortController();
    await emitPayments(bus.db, 1, 1);
    const relaying = keepRelaying({
      db: bus.db,
      subscribers: [ledger(() => setImmediate(() => stopped.abort()))],
      until: Date.now() + MINUTE,
      signal: stopped.signal,
    });
    expect(await relaying).toMatchObject({ delivered: 1 });
    expect(await leasedLanes(bus.db)).toEqual([]);
  });
});

describe('a kick', () => {
  function kicker(bus: Bus, attached: AttachedSubscriber[]) {
    const work: Promise<void>[] = [];
    const errors: unknown[] = [];
    const kick = createKick({
      db: bus.db,
      subscribers: attached,
      waitUntil: (promise) => work.push(promise),
      onError: (error) => errors.push(error),
    });
    return { kick, errors, done: () => Promise.all(work) };
  }

  test('delivers an event after the commit that emitted it, without waiting for the next scheduled look', async ({
    bus,
    handed,
    ledger,
  }) => {
    const { kick, done, errors } = kicker(bus, [ledger()]);
    const end = onDue(bus.db, kick);
    await emitPayments(bus.db, 1, 2);
    await done();
    end();
    expect(handed).toEqual([1, 2]);
    expect(errors).toEqual([]);
  });

  test('delivers also what a transactional handler emits', async ({ bus, handed, ledger }) => {
    const bookings = subscriber(
      'bookings',
      {
        'payment.failed': async (_, { tx }) => void (await emit(tx, 'payment.captured', payment(1))),
      },
      { transactional: true },
    );
    const { kick, done, errors } = kicker(bus, [bookings, ledger()]);
    const end = onDue(bus.db, kick);
    await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'));
    await done();
    end();
    expect(handed).toEqual([1]);
    expect(errors).toEqual([]);
  });

  test('that comes while a relay looks for work leads to one more look, however many kicks come', async ({
    bus,
    handed,
    ledger,
  }) => {
    const begun = gate();
    const goOn = gate();
    const held = ledger(async (number) => {
      if (number !== 1) return;
      begun.open();
      await goOn.opened;
    });
    const { kick, done } = kicker(bus, [held]);
    const sent = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => sent.mockRestore());
    await emitPayments(bus.db, 1, 1);
    kick();
    await begun.opened;
    await emitAlone(bus.db, 'payment.captured', payment(2));
    for (let times = 0; times < 100; times += 1) kick();
    goOn.open();
    await done();
    expect(handed).toEqual([1, 2]);
    const turns = sent.mock.calls.filter((asked) => JSON.stringify(asked[0]).includes('postbud_turn'));
    // For the first event, for the kicks, and to settle each event.
    expect(turns).toHaveLength(4);
  });

  test('reports a database error, and the next kick works', async ({ bus, handed, ledger }) => {
    const { kick, errors, done } = kicker(bus, [ledger()]);
    await emitPayments(bus.db, 1, 1);
    await rows(bus.db, 'alter table lanes rename to lanes_away');
    kick();
    await done();
    expect(errors).toMatchObject([{ code: '42P01' }]);
    await rows(bus.db, 'alter table lanes_away rename to lanes');
    kick();
    await done();
    expect(errors).toHaveLength(1);
    expect(handed).toEqual([1]);
  });
});
