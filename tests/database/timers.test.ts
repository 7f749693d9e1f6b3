import pg from 'pg';
import { describe, expect, onTestFinished } from 'vitest';

import { topics } from '../../lib/bus/catalog/catalog.ts';
import { cancelTimer, emit } from '../../lib/bus/outbox/emit.ts';
import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  WAITING,
  contradictions,
  drain,
  drainLive,
  openTransaction,
  payloadOf,
  payment,
  rows,
  cancelAlone,
  emitAlone,
} from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { createRole, grant } from '../support/roles.ts';

/** Sets a timer of the payment with this number, and commits it. @returns its id. */
async function set(db: Database, number: number, options: EmitOptions = {}): Promise<string> {
  const { id } = await db.transaction((tx) =>
    emit(tx, 'payment.captured', payment(number), { at: '24h', ...options }),
  );
  return id;
}

/** The payments whose events have happened, in order. */
async function happened(db: Database): Promise<number[]> {
  const found = await rows<{ number: number }>(
    db,
    `select (payload ->> 'amountMinor')::int as number from events where topic = 'payment.captured'
     order by created_at, seq`,
  );
  return found.map(({ number }) => number);
}

/** The payments whose timers are set, in the order of their times. */
async function pending(db: Database): Promise<number[]> {
  const found = await rows<{ number: number }>(
    db,
    `select (payload ->> 'amountMinor')::int as number from timers order by due_at, seq`,
  );
  return found.map(({ number }) => number);
}

const later = (ms: number) => ({ now: Date.now() + ms });
const TWO_DAYS = later(48 * HOUR);

describe('a timer', () => {
  test('becomes an event once its time has come, and not before', async ({ bus, handed, ledger }) => {
    const id = await set(bus.db, 1, {
      at: '1h',
      timerKey: 'hold',
      orderingKey: 'bkg_1',
      causationId: 'a request',
    });
    expect(await drain(bus.db, [ledger()], later(HOUR / 2))).toMatchObject({ placed: 0 });
    expect(await drain(bus.db, [ledger()], later(2 * HOUR))).toMatchObject({ placed: 1, delivered: 1 });
    expect(handed).toEqual([1]);
    expect(await pending(bus.db)).toEqual([]);
    const [event] = await rows(
      bus.db,
      `select id::text, ordering_key, causation_id, correlation_id, producer,
         created_at < clock_timestamp() as "happened at its release", due_at > clock_timestamp() as "was due later"
       from events`,
    );
    expect(event).toMatchObject({
      id,
      ordering_key: 'bkg_1',
      causation_id: 'a request',
      correlation_id: 'a request',
      producer: 'payments',
      'happened at its release': true,
      'was due later': true,
    });
    expect(await drain(bus.db, [ledger()], later(3 * HOUR))).toMatchObject({ placed: 0 });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('leaves nothing when its transaction is rolled back', async ({ bus }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(1), { at: '1h', dedupeKey: 'once' });
    await open.rollback();
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([]);
    expect(await rows(bus.db, 'select from timer_dedupe_keys')).toEqual([]);
  });

  test('is released in the order of times, whatever the order in which they were set', async ({
    bus,
    handed,
    ledger,
  }) => {
    await set(bus.db, 3, { at: '3h' });
    await set(bus.db, 1, { at: new Date(Date.now() + HOUR) });
    await set(bus.db, 2, { at: new Date(Date.now() + 2 * HOUR).toISOString() });
    await set(bus.db, 0, { at: '2020-01-01T00:00:00+01:00' });
    await drain(bus.db, [ledger()], TWO_DAYS);
    expect(handed).toEqual([0, 1, 2, 3]);
    const times = await rows<{ at: string }>(
      bus.db,
      'select created_at::text as at from events order by due_at',
    );
    expect(new Set(times.map(({ at }) => at)).size).toBe(4);
    expect(times.map(({ at }) => at).toSorted()).toEqual(times.map(({ at }) => at));
  });

  test('of each topic of the catalog is accepted by the catalog that releases it', async ({ bus }) => {
    for (const [topic, row] of topics()) await emitAlone(bus.db, topic, row.example as never, { at: '1h' });
    await drain(bus.db, [], TWO_DAYS);
    expect(await rows(bus.db, 'select topic, found from set_aside')).toEqual([]);
    expect(await rows(bus.db, 'select distinct topic from events')).toHaveLength(topics().length);
  });

  test('is moved by the same key, with its payload, and cancelled by it', async ({ bus }) => {
    const first = await set(bus.db, 1, { at: '1h', timerKey: 'a' });
    const second = await set(bus.db, 2, { at: '3h', timerKey: 'a' });
    expect(second).not.toBe(first);
    await drain(bus.db, [], later(2 * HOUR));
    expect(await happened(bus.db)).toEqual([]);
    expect(await cancelAlone(bus.db, 'payment.failed', 'a')).toBe(false);
    expect(await cancelAlone(bus.db, 'payment.captured', 'a')).toBe(true);
    expect(await cancelAlone(bus.db, 'payment.captured', 'a')).toBe(false);
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([]);
  });

  test.for([
    [{ at: 'tomorrow' }, 'at: expected an instant such as 2026-03-13T16:00:00Z, or a duration such as 24h'],
    [{ at: '2026-03-13T16:00:00' }, 'at: expected an instant such as'],
    [{ at: new Date(Number.NaN) }, 'at: expected an instant such as'],
    [{ at: '53w' }, 'at: expected an instant at most a year ahead'],
    [{ timerKey: 'a' }, 'timerKey: expected with at'],
    [{ at: '1h', timerKey: '' }, 'timerKey: expected 1 to 255 characters'],
    [{ dedupeKey: '' }, 'dedupeKey: expected 1 to 255 characters'],
    [{ at: '1h', timerKey: 'x'.repeat(256) }, 'timerKey: expected at most 255 characters'],
  ] satisfies [EmitOptions, string][])(
    'is refused before anything is sent for %j',
    async ([options, message], { bus }) => {
      const { client, commit } = await openTransaction(bus.url);
      await expect(emit(client, 'payment.captured', payment(1), options)).rejects.toThrow(message);
      expect((await client.query('select 1 as it')).rows).toEqual([{ it: 1 }]);
      await commit();
    },
  );

  test('is refused with an invalid payload when it is set', async ({ bus }) => {
    const wrong = { ...payment(1), amountMinor: 'one' } as never;
    await expect(emitAlone(bus.db, 'payment.captured', wrong, { at: '1h' })).rejects.toMatchObject({
      code: 'invalid_payload',
    });
  });

  test('is released once when the clock jumps ahead and comes back', async ({ bus, handed, ledger }) => {
    await set(bus.db, 1, { at: '1h' });
    await drain(bus.db, [ledger()], later(2 * HOUR));
    await drainLive(bus.db, [ledger()]);
    await drain(bus.db, [ledger()], later(3 * HOUR));
    expect(handed).toEqual([1]);
  });
});

describe('a timer’s dedupe key', () => {
  test('keeps a repeated request from setting it again, while it waits and after its release', async ({
    bus,
  }) => {
    const id = await set(bus.db, 1, { dedupeKey: 'r1' });
    expect(await set(bus.db, 2, { dedupeKey: 'r1' })).toBe(id);
    await drain(bus.db, [], TWO_DAYS);
    expect(await set(bus.db, 3, { dedupeKey: 'r1' })).toBe(id);
    const { id: now } = await emitAlone(bus.db, 'payment.captured', payment(4), { dedupeKey: 'r1' });
    expect(now).toBe(id);
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([1]);
  });

  test('keeps a repeated request from moving it back, and from setting it again after it was cancelled', async ({
    bus,
  }) => {
    await set(bus.db, 1, { dedupeKey: 'r1', timerKey: 'a', at: '1h' });
    await set(bus.db, 2, { dedupeKey: 'r2', timerKey: 'a', at: '9h' });
    await set(bus.db, 1, { dedupeKey: 'r1', timerKey: 'a', at: '1h' });
    expect(await pending(bus.db)).toEqual([2]);
    await cancelAlone(bus.db, 'payment.captured', 'a');
    await set(bus.db, 2, { dedupeKey: 'r2', timerKey: 'a', at: '9h' });
    expect(await pending(bus.db)).toEqual([]);
  });

  test('that an event has taken meanwhile leaves the timer without an event', async ({ bus }) => {
    await set(bus.db, 1, { dedupeKey: 'r1' });
    await emitAlone(bus.db, 'payment.captured', payment(2), { dedupeKey: 'r1' });
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([2]);
    expect(await pending(bus.db)).toEqual([]);
  });

  test('that an open transaction has written holds its topic’s later timers, and no other topic', async ({
    bus,
  }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(9), { dedupeKey: 'r1' });
    await set(bus.db, 1, { at: '1h' });
    await set(bus.db, 2, { at: '2h', dedupeKey: 'r1' });
    await set(bus.db, 3, { at: '3h' });
    await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'), { at: '4h' });
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([1]);
    expect(await rows(bus.db, `select from events where topic = 'payment.failed'`)).toHaveLength(1);
    await open.rollback();
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([1, 2, 3]);
  });
});

describe('a timer that the catalog does not accept any more', () => {
  test('is set aside, and stops nothing else', async ({ bus }) => {
    const id = await set(bus.db, 1, { at: '1h', timerKey: 'a' });
    await set(bus.db, 2, { at: '2h' });
    await rows(bus.db, `update timers set payload = payload || '{"currency": 7}' where id = $1`, [id]);
    const unlisted = await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'), { at: '1h' });
    await rows(bus.db, `update timers set topic = 'payment.forgotten' where id = $1`, [unlisted.id]);
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([2]);
    await drain(bus.db, [], TWO_DAYS);
    const aside = await rows(
      bus.db,
      `select kind, topic, event_id::text, found ->> 'error' as error, found ->> 'timerKey' as key from set_aside order by topic`,
    );
    expect(aside).toEqual([
      {
        kind: 'unfit_timer',
        topic: 'payment.captured',
        event_id: id,
        error: 'currency: expected a string, not a number',
        key: 'a',
      },
      {
        kind: 'unfit_timer',
        topic: 'payment.forgotten',
        event_id: unlisted.id,
        error: 'the catalog has no such topic',
        key: null,
      },
    ]);
  });

  test('is set aside although its payload was erased, where the catalog does not have its topic', async ({
    bus,
  }) => {
    const id = await set(bus.db, 1, { at: '1h' });
    await rows(
      bus.db,
      `update timers set topic = 'payment.forgotten', erased_at = clock_timestamp() where id = $1`,
      [id],
    );
    await drain(bus.db, [], TWO_DAYS);
    expect(await rows(bus.db, 'select event_id::text as id from set_aside')).toEqual([{ id }]);
    expect(await rows(bus.db, 'select from events')).toEqual([]);
    expect(await pending(bus.db)).toEqual([1]);
  });

  test.for<readonly [string, (db: Database) => Promise<unknown>, string]>([
    ['has moved', (db) => set(db, 3, { at: '1h', timerKey: 'a' }), 'moved by its producer'],
    ['has cancelled', (db) => cancelAlone(db, 'payment.captured', 'a'), 'cancelled by its producer'],
    [
      'has over HTTP cancelled',
      (db) => rows(db, `select postbud_cancel_timer_once_1('payment.captured', 'a', 'r1')`),
      'cancelled by its producer',
    ],
  ])('is no longer set aside where its producer %s it', async ([, act, reason], { bus }) => {
    const ids = [
      await set(bus.db, 1, { at: '1h', timerKey: 'a' }),
      await set(bus.db, 2, { at: '1h', timerKey: 'b' }),
    ];
    await rows(bus.db, `update timers set payload = payload || '{"currency": 7}'`);
    await drain(bus.db, [], TWO_DAYS);
    await act(bus.db);
    await drain(bus.db, [], TWO_DAYS);
    expect(
      await rows(
        bus.db,
        `select event_id::text as id, repaired_at is not null as repaired, repaired_by as by, reason from set_aside
         order by id`,
      ),
    ).toEqual([
      { id: ids[0], repaired: true, by: 'postbud', reason },
      { id: ids[1], repaired: false, by: null, reason: null },
    ]);
  });
});

describe('an open transaction', () => {
  test('that moves a timer holds the later ones of its topic, and no other topic', async ({ bus }) => {
    await set(bus.db, 1, { at: '1h' });
    await set(bus.db, 2, { at: '2h', timerKey: 'a' });
    await set(bus.db, 3, { at: '3h' });
    await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'), { at: '4h' });
    const mover = await openTransaction(bus.url);
    await mover.emit('payment.captured', payment(4), { at: '90d', timerKey: 'a' });
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([1]);
    expect(await rows(bus.db, `select from events where topic = 'payment.failed'`)).toHaveLength(1);
    await mover.rollback();
    await drain(bus.db, [], TWO_DAYS);
    expect(await happened(bus.db)).toEqual([1, 2, 3]);
  });

  test.for([
    ['a cancellation', `postbud_cancel_timer('payment.captured', 'a')`],
    [
      'a cancellation over HTTP',
      `postbud_cancel_timer_once_1('payment.captured', 'a', 'r1') ->> 'id' is not null`,
    ],
  ])('that cancels a timer and sets it again is waited for by %s', async ([, cancellation], { bus }) => {
    await set(bus.db, 1, { at: '1h', timerKey: 'a' });
    const open = await openTransaction(bus.url);
    await cancelTimer(open.client, 'payment.captured', 'a');
    await open.emit('payment.captured', payment(2), { at: '1h', timerKey: 'a' });
    const cancelled = rows(bus.db, `select ${cancellation} as it`);
    await expect.poll(() => rows(bus.db, WAITING)).toHaveLength(1);
    await open.commit();
    expect(await cancelled).toEqual([{ it: true }]);
    expect(await pending(bus.db)).toEqual([]);
  });
});

/** Two steps of a session, which others may stand between. */
interface Session {
  readonly act: (client: pg.Client) => Promise<unknown>;
  readonly end: 'commit' | 'rollback';
}

const RELEASE = 'select * from postbud_release_timers_1(null, 900)';

/**
 * Plays the steps of sessions in an order. A step that waits for another session goes on when that one has ended, as on any
 * server; its session's next step waits for it.
 *
 * @param order the session of each step.
 * @returns what each act returned.
 */
async function play(url: string, watcher: Database, sessions: readonly Session[], order: readonly number[]) {
  const clients = await Promise.all(sessions.map(() => clientOf(url)));
  const acts: Promise<unknown>[] = [];
  const ends: Promise<unknown>[] = [];
  const step = (index: number) => {
    const { act, end } = sessions[index]!;
    const client = clients[index]!;
    const begun = acts[index];
    if (begun) return (ends[index] = begun.then(() => client.query(end)));
    return (acts[index] = client.query('begin').then(() => act(client)));
  };
  for (const index of order) await Promise.race([step(index), untilBlocked(watcher, clients)]);
  const results = await Promise.all(acts);
  await Promise.all(ends);
  await Promise.all(clients.map((client) => client.end()));
  return results;
}

async function clientOf(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}

/** Resolves when each of the clients' backends has ended its statement, or waits for another one. */
async function untilBlocked(watcher: Database, clients: readonly pg.Client[]): Promise<void> {
  const backends = clients.map((client) => (client as unknown as { processID: number }).processID);
  for (;;) {
    const [found] = await rows<{ running: number }>(
      watcher,
      `select count(*)::int as running from pg_stat_activity
       where pid = any ($1::int[]) and state = 'active' and pg_blocking_pids(pid) = '{}'`,
      [backends],
    );
    if (found!.running === 0) return;
  }
}

/** All orders of so many sessions of two steps each. */
function orders(left: readonly number[]): number[][] {
  if (left.every((count) => count === 0)) return [[]];
  return left.flatMap((count, index) =>
    count === 0
      ? []
      : orders(left.map((other, place) => (place === index ? other - 1 : other))).map((rest) => [
          index,
          ...rest,
        ]),
  );
}

describe('of the cancellation, the move and the release of one timer, what commits first stands:', () => {
  const ENDS = ['commit', 'rollback'] as const;
  const variants = ENDS.flatMap((cancelEnd) => ENDS.map((moveEnd) => [cancelEnd, moveEnd] as const));

  test.for(variants)(
    'in all 90 orders, where the cancellation ends with %s and the move with %s',
    { timeout: 60_000 },
    async ([cancelEnd, moveEnd], { bus }) => {
      const sessions: Session[] = [
        { act: (client) => client.query(RELEASE), end: 'commit' },
        { act: (client) => cancelTimer(client, 'payment.captured', 'a'), end: cancelEnd },
        {
          act: (client) =>
            emit(client, 'payment.captured', payment(2), { at: new Date(Date.now() + HOUR), timerKey: 'a' }),
          end: moveEnd,
        },
      ];
      const seen = new Set<string>();
      for (const order of orders([2, 2, 2])) {
        await forgetEvents(bus.db, 'timers');
        await set(bus.db, 1, { at: '2020-01-01T00:00:00Z', timerKey: 'a' });
        const [, wasThere] = await play(bus.url, bus.db, sessions, order);
        await rows(bus.db, `select * from postbud_release_timers_1(now() + interval '1 day', 900)`);
        const events = await happened(bus.db);
        const isCancelled = cancelEnd === 'commit' && wasThere === true;
        const played = `${order.join(' ')}: cancelled ${isCancelled}, happened ${events.join(' ')}`;
        seen.add(`${isCancelled} ${events.join(' ')}`);
        expect(await pending(bus.db), played).toEqual([]);
        // Each timer either happened once or was cancelled; a moved one is the new one.
        expect(new Set(events).size, played).toBe(events.length);
        const timers = moveEnd === 'commit' ? [1, 2] : [1];
        if (!isCancelled) expect(events.at(-1), played).toBe(timers.at(-1));
        else expect(events.length, played).toBeLessThan(timers.length);
        if (moveEnd === 'rollback') expect(events, played).not.toContain(2);
      }
      // That is all that can become of them.
      const all = {
        'commit commit': ['false 1 2', 'true ', 'true 1', 'true 2'],
        'commit rollback': ['false 1', 'true '],
        'rollback commit': ['false 1 2', 'false 2'],
        'rollback rollback': ['false 1'],
      };
      expect([...seen].toSorted()).toEqual(all[`${cancelEnd} ${moveEnd}`]);
    },
  );

  test('one process at a time releases, so that events are recorded in the order of times', async ({
    bus,
  }) => {
    await set(bus.db, 1, { at: '2020-01-01T00:00:00Z' });
    const first = await openTransaction(bus.url);
    await first.client.query(RELEASE);
    await set(bus.db, 2, { at: '2020-01-02T00:00:00Z' });
    await drainLive(bus.db, []);
    expect(await happened(bus.db)).toEqual([]);
    await first.commit();
    await drainLive(bus.db, []);
    expect(await happened(bus.db)).toEqual([1, 2]);
  });
});

describe('a producer’s role', () => {
  test('sets, moves and cancels timers of its own topics only, and has no right on the table', async ({
    bus,
  }) => {
    const role = await createRole(bus.url, 'bookings');
    onTestFinished(role.drop);
    await grant(bus.url, '--role', role.name, '--producer', 'bookings');
    const client = await clientOf(role.url);
    onTestFinished(() => client.end());
    const call = async (text: string) =>
      (await client.query<{ it: unknown }>(`select ${text} as it`)).rows[0]!.it;
    const example = JSON.stringify(payloadOf('booking.approved'));
    const at = `at => clock_timestamp() + interval '1 hour'`;
    await call(`postbud_emit('booking.approved', '${example}', ${at}, timer_key => 'a')`);
    await call(`postbud_emit('booking.approved', '${example}', at => '2020-01-01', timer_key => 'a')`);
    expect(await rows(bus.db, 'select from timers')).toHaveLength(1);
    expect(await call(`postbud_cancel_timer('booking.approved', 'a')`)).toBe(true);
    expect(await call(`postbud_cancel_timer('booking.approved', 'a')`)).toBe(false);
    const refusals = [
      [`postbud_cancel_timer('payment.captured', 'a')`, 'may not emit payment.captured'],
      [`postbud_cancel_timer('booking.aproved', 'a')`, 'unknown topic'],
      [`postbud_emit('booking.approved', '${example}', timer_key => 'a')`, 'timer_key: expected with at'],
      [
        `postbud_emit('booking.approved', '${example}', at => 'infinity')`,
        'at: expected an instant at most a year ahead',
      ],
      [`(select count(*) from timers)`, 'permission denied'],
      [`(select released from postbud_release_timers_1(null, 1))`, 'permission denied'],
    ];
    for (const [statement, message] of refusals) await expect(call(statement!)).rejects.toThrow(message);
  });
});

test('a commit that sets a timer which is due kicks the relay, which releases it at once', async ({
  bus,
  handed,
  ledger,
}) => {
  const { db, close } = await connect(bus.url);
  onTestFinished(close);
  await drainLive(db, []);
  const kicks: Promise<void>[] = [];
  const kick = createKick({
    db,
    subscribers: [ledger()],
    waitUntil: (work) => kicks.push(work),
    onError: (error) => expect.fail(String(error)),
  });
  onTestFinished(onDue(db, kick));
  await set(db, 1, { at: '1h' });
  await Promise.all(kicks);
  expect(handed).toEqual([]);
  await set(db, 2, { at: '2020-01-01T00:00:00Z' });
  await Promise.all(kicks);
  expect(handed).toEqual([2]);
});
