import { afterAll, describe, expect } from 'vitest';

import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { advanceReplays, stepReplay } from '../../lib/bus/deliveries/operations/paced-replay.ts';
import { advanceRenames, previewRename, rename } from '../../lib/bus/deliveries/operations/rename.ts';
import type { Renaming } from '../../lib/bus/deliveries/operations/rename.ts';
import { openRename } from '../../lib/bus/deliveries/operations/rename-open.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/console/doctor/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { run, sendsBy } from '../../lib/platform/db/statement.ts';
import type { Statement } from '../../lib/platform/db/statement.ts';
import { DAY, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { emitToBooks } from '../support/books.ts';
import { test } from '../support/bus-test.ts';
import {
  WAITING,
  START,
  contradictions,
  drain,
  dyingAfter,
  emitPayments,
  gate,
  numbers,
  openTransaction,
  rows,
} from '../support/bus.ts';
import { statesOf, RECORDS, haltsOf } from '../support/records.ts';
import type { Bus, OpenTransaction } from '../support/bus.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';

/** A second process, as far as the database can tell. */
let other: Connection;
test.beforeAll(async ({ database: bus }) => {
  other = await connect(bus.url);
});
afterAll(async () => {
  await other.close();
});

const LATER = new Date(START + MINUTE);
const CAPTURED = 'payment.captured';

const renamed = (db: Database, how: Partial<Renaming & { to: string; topic: string }> = {}) => {
  const { to = 'ledger', topic = null, ...rest } = how;
  const renaming = {
    by: 'kari',
    reason: 'accounting is in the ledger',
    until: Date.now() + MINUTE,
    now: LATER,
  };
  return rename(db, { from: 'books', to, topic }, { ...renaming, ...rest });
};

const both = (waiting: number, deadLettered: number) => ({
  topic: CAPTURED,
  waiting,
  deadLettered,
  duplicates: 0,
});

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

/** Fans out without delivering anything to either name. */
const fanOut = (db: Database) => drain(db, [attach('audit', {})]);

const unbroken = async (db: Database) => {
  expect(await contradictions(db)).toEqual([]);
  expect((await examine(db)).findings).toEqual([]);
};

const deadTotal = async (db: Database) =>
  await rows(
    db,
    `select (select sum(dead_lettered_total) from backlog where subscriber <> '')::int as totals,
       (select coalesce(sum(dead_lettered), 0) from throughput)::int as throughput`,
  );

async function someOfEach(bus: Bus): Promise<void> {
  await emitToBooks(bus.db, 1, 3);
  await drain(bus.db, [books()]);
  await emitToBooks(bus.db, 4, 6);
  await drain(bus.db, [books(refuse)]);
  await emitToBooks(bus.db, 7, 9);
  await drain(bus.db, [books(fail)]);
}

const REPLAY_ID = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77';

const PAUSE_BOOKS = `
  insert into pauses (subscriber, topic, paused_at, paused_by, reason) values ('books', '', now(), 'ola', 'moving')`;

/** A paced replay of all that the former name has, what was delivered too. */
const PLAN_OF_BOOKS = `
  with asked as (
    insert into replays (id, requested_at, requested_by, request, matched, replayed, recipients)
    values ($1::uuid, now(), 'ola', '{}', 6, 0, '[]')
  ),
  replay as (
    insert into paced_replays (replay_id, per_minute, planned, next_at) values ($1::uuid, 60, 6, now())
  )
  insert into planned_replays (replay_id, position, lane_id, ended_at)
  select $1::uuid, position, lane_id, coalesce(dead_lettered_at, delivered_at) from deliveries
    join lanes on lanes.id = lane_id
  where subscriber = 'books' and state in ('dead_lettered', 'delivered')`;

/** One of all dead letters, each in a step of its own. */
const PLAN_OF_DEAD_LETTERS = PLAN_OF_BOOKS.replace(
  'values ($1::uuid, 60, 6, now())',
  'values ($1::uuid, 1, 2, now())',
).replace(`subscriber = 'books' and state in ('dead_lettered', 'delivered')`, `state = 'dead_lettered'`);

/** Has something happen before a statement of the next transaction, which is counted from 1. */
function before(statement: number, db: Database, happens: () => Promise<void>): Database {
  const transaction: Database['transaction'] = async (body) =>
    await db.transaction(async (tx) => {
      const unwatched = { execute: tx.execute.bind(tx) };
      let sent = 0;
      const send = async ({ text, values }: Statement) => {
        if ((sent += 1) === statement) await happens();
        return { rows: await run(unwatched, { text, values }) };
      };
      sendsBy(tx, { send });
      return await body(tx);
    });
  return new Proxy(db, {
    get: (watched, name) => (name === 'transaction' ? transaction : (Reflect.get(watched, name) as unknown)),
  });
}

/** The backends that wait for a transaction. */
async function blockedBy(db: Database, { client }: OpenTransaction) {
  const { processID } = client as unknown as { processID: number };
  return await rows(db, 'select from pg_stat_activity where $1::int = any (pg_blocking_pids(pid))', [
    processID,
  ]);
}

/** The ledger's dead letters that nobody is changing. */
const FREE_DEAD_LETTERS = `
  select from deliveries join lanes on lanes.id = lane_id
  where subscriber = 'ledger' and state = 'dead_lettered' for update of deliveries skip locked`;

describe('a renamed subscriber', () => {
  test('is handed what waited under its former name, in order; what was delivered stays history', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await someOfEach(bus);
    await emitToBooks(bus.db, 10, 11);
    await emitPayments(bus.db, 12, 13);
    expect(await renamed(bus.db)).toEqual([{ ...both(5, 3), moved: 8, dismissed: 0, left: 0 }]);
    await unbroken(bus.db);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual([7, 8, 9, 10, 11, 12, 13]);
    expect(await statesOf(bus.db, 'books')).toEqual(['delivered', 'delivered', 'delivered']);
    expect(await statesOf(bus.db, 'ledger')).toEqual([
      ...Array<string>(3).fill('dead_lettered'),
      ...Array<string>(7).fill('delivered'),
    ]);
    await unbroken(bus.db);
  });

  test('is recorded with the operator and the reason, once and in each delivery', async ({ bus }) => {
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
        reason: 'accounting is in the ledger',
      },
    ]);
    const entries = await rows(
      bus.db,
      `select distinct attempt_log -> -1 ->> 'outcome' as outcome, attempt_log -> -1 ->> 'by' as by,
         attempt_log -> -1 ->> 'reason' as reason, backfilled
       from ${RECORDS} where subscriber = 'ledger'`,
    );
    expect(entries).toEqual([
      { outcome: 'renamed', by: 'kari', reason: 'accounting is in the ledger', backfilled: true },
    ]);
    expect(
      await rows(
        bus.db,
        `select topic, subscriber, renamed_from, requested_by, matched::int, written::int, ended_at is not null as ended
         from backfills`,
      ),
    ).toEqual([
      {
        topic: CAPTURED,
        subscriber: 'ledger',
        renamed_from: 'books',
        requested_by: 'kari',
        matched: 6,
        written: 6,
        ended: true,
      },
    ]);
  });

  test('has its dead letters counted as they were: nobody has died again', async ({ bus }) => {
    await someOfEach(bus);
    const before = await deadTotal(bus.db);
    await renamed(bus.db);
    expect(await deadTotal(bus.db)).toEqual(before);
    const { totals } = await readOverview(bus.db, [ledger()], LATER);
    expect(totals.deliveries).toMatchObject({ deadLettered: 3 });
    expect(
      await rows(
        bus.db,
        'select subscriber, message, dead_lettered::int as dead from error_groups order by dead',
      ),
    ).toEqual([
      { subscriber: 'books', message: 'refused', dead: 0 },
      { subscriber: 'ledger', message: 'refused', dead: 3 },
    ]);
  });

  test('has dead letters that can be replayed and dismissed, in the same group as its own', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await someOfEach(bus);
    await emitPayments(bus.db, 10, 10);
    await renamed(bus.db);
    await drain(bus.db, [makeLedger((number) => (number === 10 ? refuse() : undefined))], {
      now: START + 2 * MINUTE,
    });
    expect(
      await rows(
        bus.db,
        'select message, dead_lettered::int as dead from error_groups where dead_lettered > 0',
      ),
    ).toEqual([{ message: 'refused', dead: 4 }]);
    handed.length = 0;
    const now = new Date(START + 3 * MINUTE);
    const request = { topic: CAPTURED, since: '1h', subscriber: 'ledger', limit: 2 } as const;
    expect(await replay(bus.db, request, 'kari', now)).toMatchObject({ replayed: 2 });
    const how = { action: 'dismiss', by: 'kari', reason: 'old', now, until: Date.now() + MINUTE } as const;
    const which = { topic: CAPTURED, subscriber: 'ledger', kind: null };
    expect(await dismiss(bus.db, which, how)).toEqual({ dismissed: 2, left: 0 });
    await drain(bus.db, [makeLedger()], { now: START + 4 * MINUTE });
    expect(handed).toHaveLength(2);
    await unbroken(bus.db);
  });

  test('keeps the order of each key, and lets no key wait for another', async ({ bus }) => {
    for (const key of ['venue 1', 'venue 2', 'venue 3']) {
      const from = Number(key.slice(-1)) * 10;
      await emitToBooks(bus.db, from, from + 2, { orderingKey: key });
    }
    const failing = (number: number) => (number < 20 ? fail() : undefined);
    await drain(bus.db, [books(failing)]);
    for (const number of [13, 23, 33])
      await emitToBooks(bus.db, number, number, { orderingKey: `venue ${number}`.slice(0, 7) });
    await emitPayments(bus.db, 14, 14, { orderingKey: 'venue 1' });
    await fanOut(bus.db);
    await renamed(bus.db);
    await unbroken(bus.db);
    const handed: number[] = [];
    const now = START + 2 * MINUTE;
    await drain(bus.db, [ledger((number) => (number === 10 ? fail() : handed.push(number)))], { now });
    expect(handed).toEqual([23, 33]);
    await unbroken(bus.db);
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: now + DAY });
    expect(handed.slice(2)).toEqual([10, 11, 12, 13, 14]);
    await unbroken(bus.db);
  });

  test('gets no event twice that both its names have: the former delivery is dismissed, once somebody agrees', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 4, { isBeside: true });
    await drain(bus.db, [books((number) => (number < 3 ? refuse() : fail()))]);
    await emitToBooks(bus.db, 5, 6, { isBeside: true });
    await expect(renamed(bus.db)).rejects.toMatchObject({
      code: 'duplicates',
      message: expect.stringMatching(/^4 deliveries of events that ledger has already/),
    });
    expect(await rows(bus.db, 'select from backfills')).toEqual([]);
    expect(await renamed(bus.db, { dismissesDuplicates: true })).toEqual([
      { ...both(4, 2), duplicates: 4, moved: 2, dismissed: 4, left: 0 },
    ]);
    await unbroken(bus.db);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual(numbers(1, 6));
    const books1 = await rows(
      bus.db,
      `select count(dismissed_at)::int as dismissed from ${RECORDS} where subscriber = 'books'`,
    );
    expect(books1).toEqual([{ dismissed: 4 }]);
    await unbroken(bus.db);
  });

  test('is renamed in chunks, beside another process that does the same', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 1200);
    await drain(bus.db, [books(refuse)]);
    await emitToBooks(bus.db, 1201, 3500);
    await fanOut(bus.db);
    const answers = await Promise.all([renamed(bus.db), renamed(other.db)]);
    expect(answers.flat().reduce((sum, one) => sum + one!.moved, 0)).toBe(3500);
    expect(await rows(bus.db, 'select from operator_actions')).toHaveLength(1);
    await unbroken(bus.db);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual(numbers(1201, 3500));
    await unbroken(bus.db);
  });

  test('is previewed without changing anything', async ({ bus }) => {
    await someOfEach(bus);
    await emitToBooks(bus.db, 10, 11);
    expect(await previewRename(bus.db, { from: 'books', to: 'ledger', topic: null })).toEqual([
      { ...both(5, 3), moved: 0, dismissed: 0, left: 8 },
    ]);
    expect(await rows(bus.db, 'select from backfills')).toEqual([]);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
  });

  test('takes what an earlier release emits meanwhile when it is renamed again', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await someOfEach(bus);
    await renamed(bus.db);
    await emitToBooks(bus.db, 20, 22);
    await fanOut(bus.db);
    expect(await renamed(bus.db)).toEqual([{ ...both(3, 0), moved: 3, dismissed: 0, left: 0 }]);
    expect(await renamed(bus.db)).toEqual([]);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual([7, 8, 9, 20, 21, 22]);
    await unbroken(bus.db);
  });

  test('is paused where its former name was, by the same operator', async ({ bus }) => {
    await someOfEach(bus);
    await rows(bus.db, PAUSE_BOOKS);
    await renamed(bus.db);
    expect(await rows(bus.db, 'select subscriber, topic, paused_by, reason from pauses')).toEqual([
      { subscriber: 'ledger', topic: CAPTURED, paused_by: 'ola', reason: 'moving' },
    ]);
  });

  test('stays halted behind the dead letters that halted its former name', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 3);
    await emitToBooks(bus.db, 11, 13, { orderingKey: 'venue 1' });
    await emitToBooks(bus.db, 21, 22, { orderingKey: 'venue 2' });
    const halting = { ...books((number) => (number % 10 === 1 && number < 20 ? refuse() : fail())) };
    await drain(bus.db, [{ ...halting, afterDeadLetter: 'halt' }]);
    expect(await haltsOf(bus.db)).toHaveLength(2);
    await renamed(bus.db);
    await unbroken(bus.db);
    const handed: number[] = [];
    const heir = ledger((number) => handed.push(number), { afterDeadLetter: 'halt' });
    await drain(bus.db, [heir], { now: START + DAY });
    expect(handed).toEqual([21, 22]);
    const now = new Date(START + 2 * DAY);
    const how = { action: 'dismiss', by: 'kari', reason: 'booked', now, until: Date.now() + MINUTE } as const;
    await dismiss(bus.db, { topic: CAPTURED, subscriber: 'ledger', kind: null }, how);
    await drain(bus.db, [heir], { now: START + 3 * DAY });
    expect(handed.toSorted((one, other) => one - other)).toEqual([2, 3, 12, 13, 21, 22]);
    await unbroken(bus.db);
  });

  test('is handed what it had of a key before the dead letter that halts the key', async ({ bus }) => {
    const orderingKey = 'venue 1';
    await emitPayments(bus.db, 1, 1, { orderingKey });
    await emitToBooks(bus.db, 2, 3, { orderingKey });
    await drain(bus.db, [{ ...books(refuse), afterDeadLetter: 'halt' }]);
    await renamed(bus.db);
    await unbroken(bus.db);
    const handed: number[] = [];
    const heir = ledger((number) => handed.push(number), { afterDeadLetter: 'halt' });
    await drain(bus.db, [heir], { now: START + DAY });
    expect(handed).toEqual([1]);
    await unbroken(bus.db);
    const now = new Date(START + 2 * DAY);
    const how = { action: 'dismiss', by: 'kari', reason: 'booked', now, until: Date.now() + MINUTE } as const;
    await dismiss(bus.db, { topic: CAPTURED, subscriber: 'ledger', kind: null }, how);
    await drain(bus.db, [heir], { now: START + 3 * DAY });
    expect(handed).toEqual([1, 3]);
    await unbroken(bus.db);
  });

  test('is handed what it had of a halted key once, though a relay had that in hand already', async ({
    bus,
  }) => {
    const orderingKey = 'venue 1';
    await emitPayments(bus.db, 1, 1, { orderingKey });
    await emitToBooks(bus.db, 2, 3, { orderingKey });
    await drain(bus.db, [{ ...books(refuse), afterDeadLetter: 'halt' }]);
    // It has begun, and has moved nothing.
    await expect(renamed(dyingAfter(5, bus.db))).rejects.toThrow('died');
    const handed: number[] = [];
    const begun = gate();
    const go = gate();
    const handle = async (number: number) => {
      if (handed.push(number) > 1) return;
      begun.open();
      await go.opened;
    };
    const heir = ledger(handle, { afterDeadLetter: 'halt' });
    const holding = drain(bus.db, [heir], { now: START + 2 * MINUTE });
    await begun.opened;
    await advanceRenames(other.db, Date.now() + 2 * SECOND, LATER);
    await drain(other.db, [heir], { now: START + 2 * MINUTE });
    go.open();
    await holding;
    expect(handed).toEqual([1]);
    await advanceRenames(other.db, Date.now() + MINUTE, LATER);
    await drain(bus.db, [heir], { now: START + DAY });
    expect(handed).toEqual([1]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'dead_lettered', 'pending']);
    await unbroken(bus.db);
  });

  test('gets nothing newer until all is moved, and the cron continues what a call has left', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 1500);
    await fanOut(bus.db);
    expect(await renamed(bus.db, { until: 0 })).toEqual([
      { ...both(1500, 0), moved: 1000, dismissed: 0, left: 500 },
    ]);
    await emitPayments(bus.db, 1501, 1520);
    await emitToBooks(bus.db, 1521, 1530);
    await emitPayments(bus.db, 1531, 1540);
    await drain(bus.db, [makeLedger()], { now: START + MINUTE });
    expect(handed).toEqual([]);
    const before = await rows(bus.db, 'select subscriber, paused_by, reason from pauses');
    expect(before).toEqual([{ subscriber: 'books', paused_by: 'kari', reason: 'renamed to ledger' }]);
    await advanceRenames(other.db, Date.now() + MINUTE, LATER);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual(numbers(1, 1540));
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    await unbroken(bus.db);
  });

  test('is put back by the paced replays of its former name, but for what had been delivered', async ({
    bus,
  }) => {
    await someOfEach(bus);
    await rows(bus.db, PLAN_OF_BOOKS, [REPLAY_ID]);
    await renamed(bus.db);
    const planned = await rows(
      bus.db,
      `select subscriber, state, count(*)::int as count from planned_replays join deliveries using (lane_id, position)
         join lanes on lanes.id = lane_id group by 1, 2`,
    );
    expect(planned).toEqual([{ subscriber: 'ledger', state: 'dead_lettered', count: 3 }]);
    expect(await rows(bus.db, 'select passed_over from paced_replays')).toEqual([{ passed_over: 3 }]);
  });

  test('is put back by a paced replay that had come to its event, though its lane is an earlier one', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await fanOut(bus.db);
    await emitToBooks(bus.db, 2, 2);
    const notifications = subscriber('notifications', {
      'payment.captured': ({ payload }) => (payload.amountMinor === 2 ? refuse() : undefined),
    });
    await drain(bus.db, [books(refuse), notifications]);
    await rows(bus.db, PLAN_OF_DEAD_LETTERS, [REPLAY_ID]);
    const step = (day: number) => stepReplay(bus.db, { attached: [], now: new Date(START + day * DAY) });
    expect(await step(1)).toBe(1);
    expect(await statesOf(bus.db, 'notifications')).toEqual(['delivered', 'pending']);
    await renamed(bus.db);
    expect(await step(2)).toBe(1);
    expect(await rows(bus.db, 'select from planned_replays')).toEqual([]);
    expect(await statesOf(bus.db)).toEqual(['pending', 'pending']);
    await unbroken(bus.db);
  });

  test('is put back by no step that has not locked its lanes', async ({ bus }) => {
    await emitPayments(bus.db, 10, 10);
    await fanOut(bus.db);
    await someOfEach(bus);
    await rows(bus.db, PLAN_OF_BOOKS, [REPLAY_ID]);
    const moved = gate();
    const go = gate();
    const goOn = gate();
    let hasMoved = false;
    // The rename has moved the dead letters, and has not committed that yet; then it waits before it goes on.
    const slow = new Proxy(bus.db, {
      get(db, name) {
        if (name !== 'transaction') return Reflect.get(db, name) as unknown;
        return async (body: (tx: unknown) => Promise<{ moved?: number } | undefined>) => {
          if (hasMoved) await goOn.opened;
          return await db.transaction(async (tx) => {
            const done = await body(tx);
            if (done?.moved !== undefined && !hasMoved) {
              hasMoved = true;
              moved.open();
              await go.opened;
            }
            return done;
          });
        };
      },
    });
    const renaming = renamed(slow);
    await moved.opened;
    const holder = await openTransaction(bus.url);
    const waiting = () => rows(bus.db, WAITING);
    const held = holder.client.query(`select from lanes where subscriber = 'ledger' for update`);
    await expect.poll(waiting).toHaveLength(1);
    const step = stepReplay(other.db, { attached: [], now: new Date(START + DAY) });
    await expect.poll(waiting).toHaveLength(2);
    go.open();
    await held;
    await expect.poll(() => blockedBy(bus.db, holder)).toHaveLength(1);
    expect(await rows(bus.db, FREE_DEAD_LETTERS)).toHaveLength(3);
    await holder.commit();
    expect(await step).toBe(6);
    goOn.open();
    await renaming;
    await unbroken(bus.db);
  });

  test('is put back by no replay that has not locked its lanes', async ({ bus }) => {
    await emitToBooks(bus.db, 1, 3);
    await drain(bus.db, [books(refuse)]);
    const before = await openTransaction(bus.url);
    await before.client.query(`select from lanes where subscriber = 'accounting' for update`);
    const request = { topic: CAPTURED, since: '2d' } as const;
    const replaying = replay(other.db, request, 'kari', new Date(START + DAY));
    await expect.poll(() => blockedBy(bus.db, before)).toHaveLength(1);
    // Its first lane is made now.
    await renamed(bus.db);
    const holder = await openTransaction(bus.url);
    await holder.client.query(`select from lanes where subscriber = 'ledger' for update`);
    await before.commit();
    await expect.poll(() => blockedBy(bus.db, holder)).toHaveLength(1);
    expect(await rows(bus.db, FREE_DEAD_LETTERS)).toHaveLength(3);
    await holder.commit();
    expect(await replaying).toMatchObject({ matched: 3, replayed: 3 });
    await unbroken(bus.db);
  });

  test('is put back by no step whose lanes are others, though it became the next of a replay meanwhile', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await fanOut(bus.db);
    await emitToBooks(bus.db, 2, 2);
    const notifications = subscriber('notifications', {
      'payment.captured': ({ payload }) => (payload.amountMinor === 2 ? refuse() : undefined),
    });
    await drain(bus.db, [books(refuse), notifications]);
    await rows(bus.db, PLAN_OF_DEAD_LETTERS, [REPLAY_ID]);
    const planned = () =>
      rows<{ subscriber: string }>(
        bus.db,
        'select subscriber from planned_replays join lanes on lanes.id = lane_id order by position, lane_id',
      );
    let renaming: Promise<unknown> = Promise.resolve();
    // A step's last statement is the fifth. The one before has found that all its lanes are locked.
    const interrupted = before(5, bus.db, async () => {
      renaming = renamed(other.db);
      await expect.poll(planned).toEqual([{ subscriber: 'ledger' }, { subscriber: 'notifications' }]);
    });
    const step = (db: Database, day: number) =>
      stepReplay(db, { attached: [], now: new Date(START + day * DAY) });
    expect(await step(interrupted, 1)).toBe(1);
    await renaming;
    expect(await planned()).toEqual([{ subscriber: 'ledger' }]);
    expect(await step(bus.db, 2)).toBe(1);
    expect(await planned()).toEqual([]);
    await unbroken(bus.db);
  });

  // Two questions come before its first change.
  test.for(numbers(3, 9))(
    'has all of its former name, and leaves nothing there, where the process died after %s steps',
    async (lived, { bus }) => {
      await someOfEach(bus);
      await rows(bus.db, PAUSE_BOOKS);
      await rows(bus.db, PLAN_OF_BOOKS, [REPLAY_ID]);
      await expect(renamed(dyingAfter(lived, bus.db))).rejects.toThrow('died');
      await advanceRenames(other.db, Date.now() + MINUTE, LATER);
      expect(await previewRename(bus.db, { from: 'books', to: 'ledger', topic: null })).toEqual([]);
      await advanceReplays(bus.db, { attached: [], until: Date.now() + MINUTE, now: new Date(START + DAY) });
      expect(await statesOf(bus.db, 'books')).toEqual(['delivered', 'delivered', 'delivered']);
      expect(await rows(bus.db, 'select subscriber from pauses')).toEqual([{ subscriber: 'ledger' }]);
      await unbroken(bus.db);
    },
  );
});

describe('a rename', () => {
  /** Of books to ledger first, and of tomes to accounting, each with more than a call moves at once. */
  async function twoOpen(bus: Bus): Promise<() => Promise<object[]>> {
    await emitPayments(bus.db, 1, 1);
    await fanOut(bus.db);
    await emitPayments(bus.db, 2, 1500);
    const list = `subscribers = array_replace(array_replace(subscribers, 'ledger', 'books'), 'accounting', 'tomes')`;
    await rows(
      bus.db,
      `with event as (update events set ${list} where id in (select event_id from awaiting_fan_out))
       update awaiting_fan_out set ${list}`,
    );
    await fanOut(bus.db);
    const names = { books: 'ledger', tomes: 'accounting' };
    for (const [from, to] of Object.entries(names))
      await openRename(
        bus.db,
        { from, to, topic: CAPTURED },
        { by: 'kari', reason: 'renamed', matched: 1499 },
      );
    return () => rows(bus.db, 'select renamed_from from backfills where ended_at is null');
  }

  test('does not wait for another one whose lanes a relay holds', async ({ bus }) => {
    const open = await twoOpen(bus);
    await rows(
      bus.db,
      `update lanes set lease_token = gen_random_uuid(), leased_until = '2100-01-01', due_at = null
       where subscriber = 'ledger'`,
    );
    const advancing = advanceRenames(other.db, Date.now() + MINUTE);
    await expect.poll(open).toEqual([{ renamed_from: 'books' }]);
    await rows(
      bus.db,
      `update lanes set lease_token = null, leased_until = null, due_at = now() where subscriber = 'ledger'`,
    );
    await advancing;
    expect(await open()).toEqual([]);
  });

  test('does not wait for another one that fails', async ({ bus }) => {
    const open = await twoOpen(bus);
    await rows(
      bus.db,
      `create function refuse_books() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`,
    );
    await rows(
      bus.db,
      `create trigger planted before update on backfills for each row when (new.renamed_from = 'books')
       execute function refuse_books()`,
    );
    await expect(advanceRenames(other.db, Date.now() + MINUTE)).rejects.toThrow('planted');
    await rows(bus.db, 'drop function refuse_books cascade');
    expect(await open()).toEqual([{ renamed_from: 'books' }]);
  });

  test('gives up after a limit while somebody holds a lane, and leaves no statement waiting', async ({
    bus,
  }) => {
    const open = await twoOpen(bus);
    // It has begun by then.
    await advanceRenames(other.db, 0);
    const holder = await openTransaction(bus.url);
    await holder.client.query(`select from lanes where subscriber = 'books' for update`);
    const advancing = advanceRenames(other.db, Date.now() + MINUTE);
    await expect(advancing).rejects.toMatchObject({ code: '57014' });
    expect(await rows(bus.db, WAITING)).toEqual([]);
    await holder.commit();
    expect(await open()).toEqual([{ renamed_from: 'books' }]);
  });

  test('is refused while the catalog lists the former name, for the topic or for any', async ({ bus }) => {
    const how = { by: 'kari', reason: 'renamed', until: Date.now() + MINUTE };
    for (const topic of [CAPTURED, null]) {
      const refusal = rename(bus.db, { from: 'ledger', to: 'accounting', topic }, how);
      await expect(refusal).rejects.toMatchObject({ code: 'still_listed' });
    }
  });

  test('is refused where the catalog does not list the new name, and says for which topics', async ({
    bus,
  }) => {
    await someOfEach(bus);
    const refusal = renamed(bus.db, { to: 'reporting' });
    await expect(refusal).rejects.toMatchObject({
      code: 'no_such_subscription',
      message: expect.stringContaining(`does not list reporting for ${CAPTURED}`) as string,
    });
    expect(await rows(bus.db, 'select from backfills')).toEqual([]);
  });

  test('of a name that never had a delivery finds nothing', async ({ bus }) => {
    expect(
      await rename(
        bus.db,
        { from: 'telegrams', to: 'ledger', topic: null },
        { by: 'kari', reason: '', until: 0 },
      ),
    ).toBeNull();
  });

  test('waits for a relay of another release that delivers to the former name, and then goes on', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 5);
    const now = new Date(START);
    let refusal: unknown;
    let going: ReturnType<typeof renamed> | undefined;
    const old: number[] = [];
    await drain(bus.db, [
      books(async (number) => {
        old.push(number);
        refusal ??= await renamed(other.db, { now, until: 0 }).catch((error: unknown) => error);
        going ??= renamed(other.db, { now });
        await new Promise((resolve) => setTimeout(resolve, 5));
      }),
    ]);
    expect(refusal).toMatchObject({ code: 'under_way' });
    expect((await going)![0]).toMatchObject({ left: 0 });
    await drain(bus.db, [makeLedger()], { now: START + MINUTE });
    expect([...old, ...handed]).toEqual(numbers(1, 5));
    expect(await rows(bus.db, 'select from operator_actions')).toHaveLength(1);
    await unbroken(bus.db);
  });

  test('takes what comes to a lane that its former name gets meanwhile', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 1, { orderingKey: 'a' });
    await fanOut(bus.db);
    await emitPayments(bus.db, 2, 2, { orderingKey: 'a' });
    await fanOut(bus.db);
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%is_held%'`;
    const { renaming } = await other.db.transaction(async (tx) => {
      await tx.execute(`select from lanes where subscriber = 'books' for update`);
      const begun = { renaming: renamed(bus.db) };
      await expect.poll(async () => await rows(bus.db, waiting)).toHaveLength(1);
      // Of another key, and so in another lane than both names have.
      await emitToBooks(bus.db, 3, 4, { orderingKey: 'b' });
      await fanOut(bus.db);
      return begun;
    });
    expect(await renaming).toMatchObject([{ moved: 3, left: 0 }]);
    await unbroken(bus.db);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed.toSorted()).toEqual([1, 2, 3, 4]);
    await unbroken(bus.db);
  });

  test('waits for the end of a backfill of either name', async ({ bus }) => {
    await someOfEach(bus);
    for (const subscriber of ['books', 'ledger']) {
      await rows(
        bus.db,
        `insert into backfills (id, topic, subscriber, since, requested_at, requested_by, matched, front, until, next_at)
         values (gen_random_uuid(), $1::text, $2::text, now(), now(), 'ola', 10, 1, 5, now())`,
        [CAPTURED, subscriber],
      );
      await expect(renamed(bus.db)).rejects.toMatchObject({
        code: 'under_way',
        message: expect.stringContaining(`${subscriber} is being backfilled with ${CAPTURED}`) as string,
      });
      await rows(bus.db, 'delete from backfills');
    }
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
  });

  test('goes on after a relay of the former name has died with its lanes', async ({
    bus,
    handed,
    ledger: makeLedger,
  }) => {
    await emitToBooks(bus.db, 1, 3);
    await fanOut(bus.db);
    await rows(
      bus.db,
      `update lanes set lease_token = gen_random_uuid(), due_at = $1::text::timestamptz where subscriber = 'books'`,
      [new Date(START).toISOString()],
    );
    expect(await renamed(bus.db)).toMatchObject([{ moved: 3, left: 0 }]);
    await drain(bus.db, [makeLedger()], { now: START + 2 * MINUTE });
    expect(handed).toEqual([1, 2, 3]);
    await unbroken(bus.db);
  });
});
