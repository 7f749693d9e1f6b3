import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { pruneAll } from '../../lib/components/prune.ts';
import { examine } from '../../lib/console/doctor/read.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  drainLive,
  dyingAfter,
  emitPayments,
  payloadOf,
  rows,
  cancelAlone,
  emitAlone,
} from '../support/bus.ts';
import { deliveriesOf, countDeliveries, RECORDS } from '../support/records.ts';
import { changeDeliveries, deleteDeliveries, deleteMarker } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';

const names = ['bookings', 'ledger', 'notifications', 'accounting'] as const;
const everyone = (ledger: () => void) =>
  names.map((name) => subscriber(name, { 'payment.captured': name === 'ledger' ? ledger : () => undefined }));

const inDays = (days: number) => new Date(Date.now() + days * DAY);
const pruneIn = (bus: Bus, days: number, until = Date.now() + MINUTE) =>
  pruneAll({ db: bus.db, until, now: inDays(days) });
const left = async (bus: Bus) =>
  (await rows<{ id: string }>(bus.db, 'select id::text from events order by seq')).map(({ id }) => id);

describe('pruning', () => {
  test('deletes delivered events with their deliveries once they are 30 days old, and none before', async ({
    bus,
  }) => {
    const ids = await emitPayments(bus.db, 1, 3);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    expect(await pruneIn(bus, 29.9)).toEqual({ events: 0, deliveries: 0 });
    expect(await left(bus)).toEqual(ids);
    expect(await pruneIn(bus, 30.1)).toEqual({ events: 3, deliveries: 12 });
    expect(await left(bus)).toEqual([]);
    expect(await countDeliveries(bus.db)).toBe(0);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('counts the deleted events by topic and day of creation, and says since when it counts', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await rows(
      bus.db,
      `update events set created_at = '2026-02-21T23:59:59.999Z' where (payload ->> 'amountMinor')::int = 1`,
    );
    await rows(
      bus.db,
      `update events set created_at = '2026-02-22T00:00:00Z' where (payload ->> 'amountMinor')::int > 1`,
    );
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    const counts = () =>
      rows(bus.db, `select topic, day::text, events::int from pruned_events order by topic, day`);
    await pruneIn(bus, 0);
    const today = new Date().toISOString().slice(0, 10);
    expect(await counts()).toEqual([{ topic: '', day: today, events: 0 }]);
    await pruneIn(bus, 3650);
    await pruneIn(bus, 3650);
    expect(await counts()).toEqual([
      { topic: '', day: today, events: 0 },
      { topic: 'payment.captured', day: '2026-02-21', events: 1 },
      { topic: 'payment.captured', day: '2026-02-22', events: 2 },
    ]);
  });

  test('forgets the addresses that were notified after the same 30 days, and not that they were', async ({
    bus,
  }) => {
    await rows(
      bus.db,
      `insert into notifications (event_id, topic, email, subject)
       values (gen_random_uuid(), 'user.signed_up', 'kari@example.no', 'Welcome')`,
    );
    const notified = () => rows<{ email: string | null }>(bus.db, 'select email from notifications');
    await pruneIn(bus, 29.9);
    expect(await notified()).toEqual([{ email: 'kari@example.no' }]);
    await pruneIn(bus, 30.1);
    expect(await notified()).toEqual([{ email: null }]);
  });

  test('forgets addresses also where events cannot be deleted', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    await rows(
      bus.db,
      `insert into notifications (event_id, topic, email, subject)
       values (gen_random_uuid(), 'user.signed_up', 'kari@example.no', 'Welcome')`,
    );
    await rows(
      bus.db,
      `create function keep() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`,
    );
    await rows(bus.db, 'create trigger planted before delete on events execute function keep()');
    await expect(pruneIn(bus, 365)).rejects.toThrow('planted');
    await rows(bus.db, 'drop function keep cascade');
    expect(await rows(bus.db, 'select email from notifications')).toEqual([{ email: null }]);
  });

  test('deletes incidents 30 days after they were closed, and no open one', async ({ bus }) => {
    const incident = (kind: string, closedDaysAgo: number | null) =>
      rows(
        bus.db,
        `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, closed_at,
           blocked_lanes, waiting, owed)
         select gen_random_uuid(), 'payment.captured', 'ledger', $1, '', case when $2::int is null then 'owed' else 'closed' end,
           'opened', now() - interval '300 days', now(), now() - $2::int * interval '1 day', 0, 0, 0`,
        [kind, closedDaysAgo],
      );
    await incident('open', null);
    await incident('lately', 29);
    await incident('long ago', 31);
    await pruneIn(bus, 0);
    expect(await rows(bus.db, 'select kind from incidents order by kind')).toEqual([
      { kind: 'lately' },
      { kind: 'open' },
    ]);
    await pruneIn(bus, 2);
    expect(await rows(bus.db, 'select kind from incidents')).toEqual([{ kind: 'open' }]);
  });

  test('deletes errors that no dead letter and no incident has any more', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const refuse = () => {
      throw new PermanentError('refused');
    };
    await drainLive(bus.db, everyone(refuse));
    await watchIncidents(bus.db);
    const errors = () => rows(bus.db, 'select kind, dead_lettered::int as count from error_groups');
    await pruneIn(bus, 365);
    expect(await errors()).toEqual([{ kind: 'permanent', count: 1 }]);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari');
    await drainLive(
      bus.db,
      everyone(() => undefined),
    );
    await watchIncidents(bus.db);
    await pruneIn(bus, 0);
    expect(await errors()).toEqual([{ kind: 'permanent', count: 0 }]);
    await rows(
      bus.db,
      `update incidents set closed_at = now() - interval '29 days' where closed_at is not null`,
    );
    await pruneIn(bus, 0);
    expect(await errors()).toHaveLength(1);
    await pruneIn(bus, 2);
    expect(await errors()).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('forgets the dedupe key of a timer after 30 days, unless the timer is still set', async ({ bus }) => {
    const set = async (dedupeKey: string, at: string) =>
      await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'), {
        at,
        timerKey: dedupeKey,
        dedupeKey,
      });
    const keys = () =>
      rows<{ key: string }>(bus.db, 'select dedupe_key as key from timer_dedupe_keys order by 1');
    await set('released', '1h');
    await set('cancelled', '90d');
    await set('waits', '90d');
    await cancelAlone(bus.db, 'payment.failed', 'cancelled');
    await drain(bus.db, [], { now: inDays(1).getTime() });
    await pruneIn(bus, 29.9);
    expect(await keys()).toEqual([{ key: 'cancelled' }, { key: 'released' }, { key: 'waits' }]);
    await pruneIn(bus, 30.1);
    expect(await keys()).toEqual([{ key: 'waits' }]);
  });

  test('deletes halts that an older release has left, and none of a dead letter', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    const refuse = () => {
      throw new PermanentError('no');
    };
    const halting = subscriber('ledger', { 'payment.captured': refuse }, { afterDeadLetter: 'halt' });
    await drain(bus.db, [halting]);
    const halts = async () => await rows(bus.db, 'select position::int from halts');
    const standing = await halts();
    expect(standing).toHaveLength(1);
    await rows(
      bus.db,
      `insert into halts (lane_id, position, topic, subscriber, halted_at)
       select lane_id, position, 'payment.captured', 'ledger', clock_timestamp() from deliveries
       where state = 'pending' and lane_id = (select lane_id from halts)`,
    );
    await pruneIn(bus, 0);
    expect(await halts()).toHaveLength(2);
    await pruneIn(bus, 2);
    expect(await halts()).toEqual(standing);
  });

  test('deletes webhooks 30 days after they were found unclaimed, and none that waits', async ({ bus }) => {
    const setAside = (intent: string, unclaimedDaysAgo: number | null) =>
      rows(
        bus.db,
        `insert into webhooks_set_aside (event_id, provider, intent_id, provider_event_id, correlation_id, created_at, seq,
           outcome, set_aside_at, unclaimed_at)
         values (gen_random_uuid(), 'cardpayments', $1, 'evt', 'evt', now(), 1, '{}', now() - interval '300 days',
           now() - $2::int * interval '1 day')`,
        [intent, unclaimedDaysAgo],
      );
    await setAside('waits', null);
    await setAside('lately', 29);
    await setAside('long ago', 31);
    await pruneIn(bus, 0);
    expect(await rows(bus.db, 'select intent_id as intent from webhooks_set_aside order by intent')).toEqual([
      { intent: 'lately' },
      { intent: 'waits' },
    ]);
  });

  test('keeps dead letters with their siblings, waiting deliveries and receipts', async ({ bus }) => {
    const [, dead, waiting] = await emitPayments(bus.db, 1, 3);
    let call = 0;
    const ledger = () => {
      call += 1;
      if (call === 2) throw new PermanentError('refused');
      if (call === 3) throw new Error('down');
    };
    await drain(bus.db, everyone(ledger));
    await rows(
      bus.db,
      `insert into webhook_receipts (provider, event_id, body_sha256, received_at) values ('p', 'e', '', now())`,
    );
    expect(await pruneIn(bus, 365)).toEqual({ events: 1, deliveries: 4 });
    expect(await left(bus)).toEqual([dead, waiting]);
    expect(await deliveriesOf(bus.db)).toHaveLength(8);
    expect(await rows(bus.db, 'select event_id from webhook_receipts')).toEqual([{ event_id: 'e' }]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('moves no lane: a waiting delivery goes on waiting, and later events come after it', async ({
    bus,
  }) => {
    const [, waiting] = await emitPayments(bus.db, 1, 2);
    let isDown = false;
    const handed: string[] = [];
    const ledger = subscriber('ledger', {
      'payment.captured': ({ id }) => {
        if (isDown || id === waiting) {
          isDown = true;
          throw new Error('down');
        }
        handed.push(id);
      },
    });
    const others = everyone(() => undefined).filter(({ name }) => name !== 'ledger');
    await drain(bus.db, [ledger, ...others]);
    const before = await rows(bus.db, 'select head::int, tail::int, due_at::text from lanes order by id');
    await pruneIn(bus, 365);
    expect(await rows(bus.db, 'select head::int, tail::int, due_at::text from lanes order by id')).toEqual(
      before,
    );
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger, ...others]);
    expect(handed).toHaveLength(1);
  });

  test('races replays of everything: each event is replayed for all its subscribers or pruned', async ({
    bus,
  }) => {
    for (let round = 0; round < 5; round += 1) {
      await emitPayments(bus.db, 1, 60);
      // By the real clock: with one that stands still, an attempt seems to begin before the one ahead of it ended.
      await drainLive(
        bus.db,
        everyone(() => undefined),
      );
      const again = () =>
        replay(bus.db, { topic: 'payment.captured', since: '3650d', include: 'all', limit: 30 }, 'kari');
      await Promise.all([pruneIn(bus, 365), again(), again(), pruneIn(bus, 365)]);
      expect(await contradictions(bus.db)).toEqual([]);
      expect((await examine(bus.db)).findings).toEqual([]);
      await bus.reset();
    }
  });

  test('begins no batch when its time is up, and works through many batches when it has time', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2100);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    expect(await pruneIn(bus, 365, Date.now() - 1)).toEqual({ events: 0, deliveries: 0 });
    expect(await pruneIn(bus, 365)).toEqual({ events: 2100, deliveries: 8400 });
  });

  test('comes to what lies behind many events that stay, though no call has time for them all', async ({
    bus,
  }) => {
    const stays = await emitPayments(bus.db, 1, 1001);
    await emitAlone(bus.db, 'payment.failed', payloadOf('payment.failed'));
    await drain(
      bus.db,
      (['bookings', 'notifications', 'audit'] as const).map((name) =>
        subscriber(name, { 'payment.failed': () => undefined }),
      ),
    );
    const pruneABatch = () =>
      pruneAll({ db: dyingAfter(1, bus.db), until: Date.now() + MINUTE, now: inDays(365) }).catch(String);
    expect([await pruneABatch(), await pruneABatch()]).toEqual(['Error: died', 'Error: died']);
    expect(await left(bus)).toEqual(stays);
    // And begins anew behind the newest.
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    expect(await pruneIn(bus, 365)).toMatchObject({ events: 1001 });
  });

  test('deletes what is not an event although events have taken all its time', async ({ bus }) => {
    await rows(
      bus.db,
      `insert into notifications (event_id, topic, email, subject)
       values (gen_random_uuid(), 'user.signed_up', 'kari@example.no', 'Welcome')`,
    );
    await pruneIn(bus, 31, Date.now() - 1);
    expect(await rows(bus.db, 'select email from notifications')).toEqual([{ email: null }]);
  });
});

describe('the doctor', () => {
  test.beforeEach(async ({ bus }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    await emitPayments(bus.db, 5, 6);
  });

  const NEWEST_EVENT = `(select event_id from ${RECORDS} order by position desc limit 1)`;

  const found = async (bus: Bus) => (await examine(bus.db)).findings.map(({ promise }) => promise);

  test('finds nothing wrong with a sound bus', async ({ bus }) => {
    const { checked, findings, events } = await examine(bus.db);
    expect(findings).toEqual([]);
    expect(events).toBe(6);
    expect(checked.length).toBeGreaterThan(5);
  });

  test.for([
    ['an event that lost its place in the queue', deleteMarker, /waits for fan-out/],
    [
      'a delivery that is missing',
      (db: Database) => deleteDeliveries(db, `id = (select id from ${RECORDS} limit 1)`),
      /a delivery for each subscriber it was emitted for/,
    ],
    [
      'a delivery without its event',
      (db: Database) => rows(db, `delete from events where id = ${NEWEST_EVENT}`),
      /has its event/,
    ],
    [
      'a counter that is not so',
      (db: Database) => rows(db, `update events set open = open + 1 where id = ${NEWEST_EVENT}`),
      /state and counters/,
    ],
    [
      'two events that changed places',
      (db: Database) =>
        changeDeliveries(
          db,
          `event_id = ${NEWEST_EVENT}`,
          `position = (select min(position) from ${RECORDS})`,
        ),
      /order of creation/,
    ],
    [
      'a delivery that was begun too early',
      (db: Database) =>
        changeDeliveries(
          db,
          `attempted_at = attempted_at - interval '1 hour'`,
          `position = (select max(position) from ${RECORDS})`,
        ),
      /before the deliveries ahead in its lane ended/,
    ],
    [
      'a lane that sleeps on a delivery',
      async (db: Database) => {
        await rows(db, `update events set open = open + 1 where id = ${NEWEST_EVENT}`);
        await changeDeliveries(
          db,
          `state = 'pending', delivered_at = null`,
          `id = (select id from ${RECORDS} order by position desc limit 1)`,
        );
      },
      /skipped an unfinished delivery/,
    ],
    [
      'a count that is not so',
      (db: Database) => rows(db, 'update backlog set pending = pending + 1'),
      /operator counts are exact/,
    ],
  ] as const)('finds %s', async ([, damage, promise], { bus }) => {
    await damage(bus.db);
    expect((await found(bus)).join('\n')).toMatch(promise);
  });
});
