import pg from 'pg';
import { describe, expect, vi } from 'vitest';

import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { advanceReplays, stepReplay, stopReplay } from '../../lib/bus/deliveries/operations/paced-replay.ts';
import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { readReplay } from '../../lib/console/replays/progress.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, countDeliveries, deliveryIdsOf } from '../support/records.ts';
import { lockLanes } from '../support/scenes.ts';
import { PATIENTLY } from '../support/patience.ts';

/** Ahead of the database's clock, so that what died is within the window. */
const T0 = Date.now() + 10 * MINUTE;

const after = (ms: number) => new Date(T0 + ms);

const refuse = () => {
  throw new PermanentError('refused');
};

const paced = (bus: Bus, perMinute: number, request: Partial<ReplayRequest> = {}) =>
  replay(
    bus.db,
    { topic: 'payment.captured', since: '1h', subscriber: 'ledger', perMinute, ...request },
    'kari',
    after(0),
  );

const putBack = (bus: Bus) => countDeliveries(bus.db, `state = 'pending' and replays = 1`);

/** The backends that wait for a row. Not asked in a transaction, which would see the first answer again and again. */
async function waiting({ db }: Bus): Promise<number[]> {
  const found = await rows<{ pid: number }>(
    db,
    `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return found.map(({ pid }) => pid);
}

/** Delivers what is due by the moved clock. */
const deliver = (bus: Bus, subscribers: readonly AttachedSubscriber[]) =>
  drain(bus.db, subscribers, { now: T0 + HOUR });

const advance = (bus: Bus, ms: number) =>
  advanceReplays(bus.db, { attached: [], until: Date.now() + 30 * SECOND, now: after(ms) });

describe('a paced replay (rule 15)', () => {
  test.beforeEach(async ({ bus, ledger }) => {
    await emitPayments(bus.db, 1, 600);
    await drainLive(bus.db, [ledger(refuse)]);
  });

  test('puts back the first at once, and then its pace, in order, until all are delivered', async ({
    bus,
    handed,
    ledger,
  }) => {
    handed.length = 0;
    const done = await paced(bus, 300);
    expect(done).toMatchObject({ matched: 600, replayed: 5 });
    expect(await advance(bus, 999)).toBe(1);
    expect(await putBack(bus)).toBe(5);
    // After a gap it catches up on ten seconds.
    await advance(bus, 30 * SECOND);
    expect(await putBack(bus)).toBe(5 + 55);
    for (let second = 31; second < 140; second += 1) await advance(bus, second * SECOND);
    const progress = await readReplay(bus.db, done.replayId);
    expect(progress).toMatchObject({
      matched: 600,
      replayed: 600,
      perMinute: 300,
      left: 0,
      stopped: null,
    });
    expect(progress!.endedAt).not.toBeNull();
    await deliver(bus, [ledger()]);
    expect(handed).toEqual(numbers(1, 600));
    expect(await advance(bus, 200 * SECOND)).toBeNull();
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('puts each delivery back once while several processes take its steps and one of them dies', async ({
    bus,
    handed,
    ledger,
  }) => {
    handed.length = 0;
    await paced(bus, 6000);
    const dying = await connect(bus.url);
    const others = await Promise.all(numbers(1, 3).map(() => connect(bus.url)));
    // The first process waits in the middle of a step, and the others leave its replay alone.
    const holder = new pg.Client(bus.url);
    await holder.connect();
    await holder.query('begin');
    await lockLanes(holder);
    const dead = stepReplay(dying.db, { attached: [], now: after(5 * SECOND) }).then(
      () => null,
      (error: Error) => error,
    );
    await vi.waitFor(async () => expect(await waiting(bus)).toHaveLength(1), PATIENTLY);
    expect(await stepReplay(others[0]!.db, { attached: [], now: after(5 * SECOND) })).toBeNull();
    await holder.query('select pg_terminate_backend($1)', await waiting(bus));
    expect(await dead).toBeInstanceOf(Error);
    await holder.query('commit');
    await holder.end();
    const until = Date.now() + 30 * SECOND;
    await Promise.all(
      others.map(({ db }) => advanceReplays(db, { attached: [], until, now: after(5 * SECOND) })),
    );
    await advance(bus, 60 * SECOND);
    expect(await rows(bus.db, 'select put_back, planned from paced_replays')).toEqual([
      { put_back: 600, planned: 600 },
    ]);
    const counted = await rows(
      bus.db,
      `select replays, count(*)::int as count from ${RECORDS}
       where subscriber = 'ledger' group by replays`,
    );
    expect(counted).toEqual([{ replays: 1, count: 600 }]);
    await deliver(bus, [ledger()]);
    expect(handed).toEqual(numbers(1, 600));
    await Promise.all([dying, ...others].map(({ close }) => close()));
  });

  test('does not wait for another one that fails, which is tried again a minute later', async ({ bus }) => {
    const failing = await paced(bus, 60, { replayId: '019a0000-0000-7000-8000-000000000001' });
    const other = await paced(bus, 60);
    const progress = async () =>
      await Promise.all(
        [failing, other].map(async ({ replayId }) => {
          const { replayed } = (await readReplay(bus.db, replayId))!;
          return replayed;
        }),
      );
    await rows(
      bus.db,
      `create function refuse_step() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`,
    );
    await rows(
      bus.db,
      `create trigger planted before update of put_back on paced_replays
       for each row when (old.replay_id = '${failing.replayId}') execute function refuse_step()`,
    );
    await expect(advance(bus, 5 * SECOND)).rejects.toThrow('planted');
    await advance(bus, 10 * SECOND);
    expect(await progress()).toEqual([1, 11]);
    await rows(bus.db, 'drop function refuse_step cascade');
    await advance(bus, 65 * SECOND);
    const [failed] = await progress();
    expect(failed).toBeGreaterThan(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('passes over what was replayed or dismissed meanwhile', async ({ bus, ledger }) => {
    const { replayId } = await paced(bus, 600);
    const ids = await deliveryIdsOf(bus.db, 'ledger', 'dead_lettered');
    await replay(bus.db, { deliveryIds: ids.slice(0, 20) }, 'ola');
    // Half of them die again before their turn comes.
    await deliver(bus, [ledger((payment) => (payment % 2 ? refuse() : undefined))]);
    for (let second = 1; second < 20; second += 1) await advance(bus, second * SECOND);
    // Of two hundred the first ten have been delivered or died; none of the next twenty was put back a second time.
    expect(await putBack(bus)).toBe(190);
    await dismiss(
      bus.db,
      { topic: 'payment.captured', subscriber: 'ledger', kind: 'permanent' },
      { action: 'dismiss', by: 'ola', reason: 'enough', until: Infinity },
    );
    const before = await readReplay(bus.db, replayId);
    for (let second = 20; second < 90; second += 1) await advance(bus, second * SECOND);
    const progress = await readReplay(bus.db, replayId);
    expect(progress).toMatchObject({ matched: 600, replayed: before!.replayed, left: 0 });
  });

  test('leaves out the deliveries of a handler that refuses replays since it began', async ({
    bus,
    ledger,
  }) => {
    await paced(bus, 60);
    const refusing = [ledger(undefined, { onReplay: 'refuse' })];
    const until = Date.now() + 30 * SECOND;
    for (let second = 1; second < 650; second += 10)
      await advanceReplays(bus.db, { attached: refusing, until, now: after(second * SECOND) });
    expect(
      await rows(bus.db, 'select put_back, ended_at is not null as has_ended from paced_replays'),
    ).toEqual([{ put_back: 1, has_ended: true }]);
  });

  test('that an operator stops leaves the rest dead-lettered, and is recorded with who and why', async ({
    bus,
  }) => {
    const { replayId } = await paced(bus, 600);
    const stop = { replayId: replayId, by: 'ola', reason: 'the ledger is slow', now: after(SECOND) };
    expect(await stopReplay(bus.db, stop)).toBe('stopped');
    expect(await stopReplay(bus.db, stop)).toBe('ended');
    expect(
      await stopReplay(bus.db, { ...stop, replayId: '019a0000-0000-7000-8000-000000000009' }),
    ).toBeNull();
    await advance(bus, 50 * SECOND);
    expect(await putBack(bus)).toBe(10);
    expect(await readReplay(bus.db, replayId)).toMatchObject({
      replayed: 10,
      left: 590,
      stopped: { by: 'ola', reason: 'the ledger is slow', at: after(SECOND).toISOString() },
    });
    expect(
      await rows(
        bus.db,
        'select action, topic, subscriber, reason, replay_id::text as id from operator_actions',
      ),
    ).toEqual([
      {
        action: 'stop_replay',
        topic: 'payment.captured',
        subscriber: 'ledger',
        reason: 'the ledger is slow',
        id: replayId,
      },
    ]);
  });

  test('that is requested again with its id answers how far it is, and begins nothing anew', async ({
    bus,
  }) => {
    const replayId = '019a0000-0000-7000-8000-000000000001';
    await paced(bus, 600, { replayId });
    await advance(bus, 10 * SECOND);
    expect(await paced(bus, 600, { replayId })).toMatchObject({ matched: 600, replayed: 110 });
    expect(await rows(bus.db, 'select planned from paced_replays')).toEqual([{ planned: 600 }]);
  });

  test('of a topic without dead letters has ended at once', async ({ bus }) => {
    const done = await paced(bus, 600, { topic: 'payment.failed', subscriber: 'bookings' });
    expect(done).toMatchObject({ matched: 0, replayed: 0 });
    expect(await stepReplay(bus.db, { attached: [], now: after(MINUTE) })).toBeNull();
    expect(await readReplay(bus.db, done.replayId)).toMatchObject({ left: 0 });
  });

  test('is slower than one a minute for nobody: the first is put back at once', async ({ bus }) => {
    expect(await paced(bus, 1)).toMatchObject({ replayed: 1 });
    expect(await advance(bus, 59 * SECOND)).toBeGreaterThan(0);
    await advance(bus, 61 * SECOND);
    expect(await putBack(bus)).toBe(2);
  });

  test('covers several subscribers, in the order of their events', async ({ bus, ledger }) => {
    const bookings = (then?: () => void) => subscriber('bookings', { 'payment.captured': () => then?.() });
    await drainLive(bus.db, [bookings(refuse)]);
    await paced(bus, 600, { subscriber: undefined });
    await advance(bus, SECOND);
    const found = await rows<{ subscriber: string; count: number }>(
      bus.db,
      `select subscriber, count(*)::int as count from ${RECORDS}
       where replays = 1 group by subscriber order by subscriber`,
    );
    expect(found).toEqual([
      { subscriber: 'bookings', count: 10 },
      { subscriber: 'ledger', count: 10 },
    ]);
    await deliver(bus, [ledger(), bookings()]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
