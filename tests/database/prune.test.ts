import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { rollUpJournal } from '../../lib/bus/deliveries/roll-up.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { pruneAll } from '../../lib/components/prune.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
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
import { countDeliveries, deliveriesOf } from '../support/records.ts';
import { relist } from '../support/scenes.ts';
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
    const errors = () =>
      rows(
        bus.db,
        `select kind, (select count(*)::int from exceptions where error_group = key) as count from error_groups`,
      );
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
    const lanes = () =>
      rows(bus.db, 'select id, head::int, tail::int, number::int from lane_heads order by id');
    const before = await lanes();
    await pruneIn(bus, 365);
    expect(await lanes()).toEqual(before);
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

  test('goes on behind the newest place of a stream, which stays', async ({ bus }) => {
    const everybody = everyone(() => undefined);
    for (const number of [1, 2, 3]) {
      await emitPayments(bus.db, number, number);
      await drain(bus.db, everybody);
      expect(await pruneIn(bus, 31)).toEqual({ events: 1, deliveries: 4 });
      expect(await contradictions(bus.db)).toEqual([]);
    }
    expect(await rows(bus.db, 'select position::int, event_id from log')).toEqual([
      { position: 3, event_id: null },
    ]);
  });

  test('deletes what says when the deliveries were made, and audiences that no event has any more', async ({
    bus,
  }) => {
    const everybody = everyone(() => undefined);
    const inJournal = () => rows(bus.db, 'select lane from journal where took_ms is not null');
    for (const round of [1, 2]) {
      await emitPayments(bus.db, round, round);
      if (round === 1) await relist(bus.db, `'{ledger}'`);
      await drain(bus.db, everybody);
    }
    expect(await rows(bus.db, 'select from audiences')).toHaveLength(2);
    await drain(bus.db, everybody);
    await rollUpJournal(bus.db, Date.now() + MINUTE, inDays(365 * 10));
    await pruneIn(bus, 31);
    // The newest row of a lane says how far it has come.
    expect(await inJournal()).toHaveLength(4);
    expect(await rows(bus.db, 'select from audiences')).toHaveLength(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('does not wait for a lane that has come to what is for others', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    await emitPayments(bus.db, 2, 5);
    await relist(bus.db, `'{bookings}'`);
    await drain(
      bus.db,
      everyone(() => undefined),
    );
    expect(await pruneIn(bus, 31)).toMatchObject({ events: 1 });
    await rollUpJournal(bus.db, Date.now() + MINUTE);
    expect(await contradictions(bus.db)).toEqual([]);
    expect(await pruneIn(bus, 31)).toEqual({ events: 4, deliveries: 4 });
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
