import { afterAll, describe, expect } from 'vitest';

import { repair } from '../../lib/bus/deliveries/operations/repair.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { audit } from '../../lib/components/audit.ts';
import { previewErasure } from '../../lib/components/erasures/erase-preview.ts';
import { advanceErasures, erase } from '../../lib/components/erasures/erase.ts';
import { identity } from '../../lib/components/identity.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { notificationsBy } from '../../lib/components/notifications.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  gate,
  openTransaction,
  payloadOf,
  rows,
  START,
  storeBacklog,
  emitAlone,
} from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { spoilMarker } from '../support/scenes.ts';
import {
  emitPlanted,
  NAMING_TOPICS,
  PERSON,
  plantedPayload,
  quotingSubscribers,
  tracesOf,
} from '../support/planted-person.ts';

/** A second process, as far as the database can tell. */
let other: Connection;
test.beforeAll(async ({ database }) => {
  other = await connect(database.url);
});
afterAll(async () => {
  await other.close();
});

const BY = { by: 'ingrid', reason: 'Request 2026-114.' } as const;

/** All that must stay as it is: ids, order, counts and states. */
async function bones(db: Database): Promise<unknown> {
  return await rows(
    db,
    `select to_jsonb(events) - 'payload' - 'erased_at' as bone from events
     union all
     select to_jsonb(record) - 'attempt_log' || jsonb_build_object('attempts', jsonb_array_length(attempt_log)) from ${RECORDS}
     union all select to_jsonb(lanes) from lanes
     union all select to_jsonb(journal) from journal
     union all select to_jsonb(error_groups) - 'message' from error_groups
     union all select to_jsonb(notifications) - 'email' from notifications
     order by 1`,
  );
}

const erasures = (db: Database) =>
  rows<Record<string, unknown>>(
    db,
    'select to_jsonb(erasures) as row from erasures order by requested_at',
  ).then((found) => found.map(({ row }) => row as Record<string, unknown>));

describe('an erased person', () => {
  test('is nowhere in a dump of the database, and ids, order, counts and states are as before', async ({
    bus,
  }) => {
    const { db } = bus;
    await emitPlanted(db);
    await drain(db, quotingSubscribers([audit, identity, notificationsBy()]));
    // What is written about all that, by people too.
    await watchIncidents(db);
    const said = `${PERSON.name} (${PERSON.email}) called`;
    await rows(
      db,
      `update incidents set acknowledged_at = now(), acknowledged_by = 'kari', acknowledged_note = $1`,
      [said],
    );
    await rows(db, 'update error_groups set message = message || $1', [said]);
    await rows(
      db,
      `insert into alerts (incident_id, revision, channel, last_error) select id, 1, 'mail', $1 from incidents`,
      [said],
    );
    await rows(
      db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
       values ('accounting', 'timeout', $1, now(), now())`,
      [said],
    );
    await rows(
      db,
      `insert into pauses (subscriber, paused_at, paused_by, reason) values ('accounting', now(), 'kari', $1)`,
      [said],
    );
    await rows(db, 'insert into operator_names (subject, name, seen_at) values ($1, $2, now())', [
      PERSON.subject,
      PERSON.name,
    ]);
    const before = await bones(db);
    const planted = await tracesOf(db);
    for (const table of [
      'events',
      'exceptions',
      'notifications',
      'incidents',
      'alerts',
      'outages',
      'error_groups',
      'identity_subjects',
      'operator_names',
      'pauses',
    ])
      expect(
        planted.some((trace) => trace.startsWith(`${table}:`)),
        table,
      ).toBe(true);

    // The audit trail refuses changes, and need not change.
    const [trail] = await rows<{ count: number }>(db, 'select count(*)::int as count from audit_log');
    expect(trail!.count).toBeGreaterThan(20);
    expect(planted.filter((trace) => trace.startsWith('audit_log:'))).toEqual([]);

    await erase(db, { subjects: [PERSON.id], ...BY });

    expect(await tracesOf(db)).toEqual([]);
    expect(await bones(db)).toEqual(before);
    expect(await contradictions(db)).toEqual([]);
    expect((await examine(db)).findings).toEqual([]);
    const [ended] = await erasures(db);
    expect(ended).toMatchObject({ state: 'ended', subjects: [PERSON.id], names: null, keys_kept: 0 });
    expect(ended!['found']).toBeGreaterThanOrEqual(NAMING_TOPICS.length);
    expect(await rows(db, 'select * from erased_events')).toEqual([]);
    expect(await rows(db, 'select action, operator, reason, erasure_id from operator_actions')).toEqual([
      { action: 'erase', operator: 'ingrid', reason: BY.reason, erasure_id: ended!['id'] },
    ]);
  });
});

describe('a search', () => {
  const profile = (fields: object) => payloadOf('user.profile.updated', { name: 'Kari Lunde', ...fields });
  const namesIn = async (db: Database) =>
    await rows<{ topic: string; payload: Record<string, unknown> }>(
      db,
      'select topic, payload from events order by created_at, seq',
    );
  const emitAll = async (db: Database, ...payloads: object[]) => {
    await db.transaction(async (tx) => {
      for (const payload of payloads) await emit(tx, 'user.profile.updated', payload as never);
    });
  };

  test('follows the e-mail addresses of a person, in any case, and their provider’s name, but no other id', async ({
    bus: { db },
  }) => {
    await emitAll(
      db,
      profile({ userId: 'usr_1', email: 'Kari@example.no' }),
      profile({ userId: 'usr_2', email: 'ola@example.no' }),
    );
    await db.transaction(async (tx) => {
      await emit(tx, 'booking.approved', payloadOf('booking.approved', { email: 'kari@EXAMPLE.no' }));
      await emit(tx, 'user.signed_up', { subject: 'idp-77', method: 'bank-id', email: 'kari@example.no' });
      await emit(tx, 'user.signed_in', { subject: 'idp-77', method: 'bank-id' });
    });
    await erase(db, { subjects: ['usr_1'], ...BY });
    expect(
      (await namesIn(db)).map(({ payload }) => [payload['email'], payload['subject'], payload['name']]),
    ).toEqual([
      [undefined, undefined, 'erased'],
      ['ola@example.no', undefined, 'Kari Lunde'],
      [undefined, undefined, undefined],
      [undefined, 'erased', undefined],
      [undefined, 'erased', undefined],
    ]);
  });

  test('does not follow an address that another id has too, unless it is asked for', async ({
    bus: { db },
  }) => {
    await emitAll(
      db,
      profile({ userId: 'usr_1', email: 'family@example.no' }),
      profile({ userId: 'usr_2', email: 'family@example.no' }),
    );
    const preview = await previewErasure(db, { subjects: ['usr_1'] }, Infinity);
    expect(preview).toMatchObject({
      isComplete: true,
      topics: [{ topic: 'user.profile.updated', events: 1 }],
    });
    expect(preview.names.map(({ text, origin }) => [text, origin])).toEqual([
      ['usr_1', 'asked'],
      ['family@example.no', 'shared'],
    ]);
    await erase(db, { subjects: ['usr_1'], ...BY });
    expect((await namesIn(db)).map(({ payload }) => payload['email'])).toEqual([
      undefined,
      'family@example.no',
    ]);
    await erase(db, { subjects: ['family@example.no'], ...BY });
    expect((await namesIn(db)).map(({ payload }) => payload['email'])).toEqual([undefined, undefined]);
    // Of the address only its first letter is left.
    expect((await erasures(db)).map(({ subjects }) => subjects)).toEqual([['usr_1'], ['f…@…']]);
    expect(await tracesOf(db, ['family@example.no'])).toEqual([]);
  });

  test('does not take another person’s names for theirs because of an address that turns out to be shared', async ({
    bus: { db },
  }) => {
    await db.transaction(async (tx) => {
      const email = 'family@example.no';
      await emit(tx, 'user.profile.updated', profile({ userId: 'usr_1', email }));
      await emit(tx, 'user.signed_up', { subject: 'idp-of-two', method: 'bank-id', email });
      await emit(tx, 'user.profile.updated', profile({ userId: 'usr_2', email }));
    });
    await erase(db, { subjects: ['usr_1'], ...BY });
    const [, signedUp, two] = await namesIn(db);
    expect(signedUp!.payload).toMatchObject({ subject: 'idp-of-two' });
    expect(two!.payload).toMatchObject({ name: 'Kari Lunde' });
  });

  test('by the given names alone leaves what names the person otherwise', async ({ bus: { db } }) => {
    await emitAll(db, profile({ userId: 'usr_1', email: 'kari@example.no' }));
    await db.transaction(async (tx) => {
      await emit(tx, 'booking.approved', payloadOf('booking.approved', { email: 'kari@example.no' }));
    });
    await erase(db, { subjects: ['usr_1'], isExact: true, ...BY });
    expect((await namesIn(db)).map(({ payload }) => payload['email'])).toEqual([
      undefined,
      'kari@example.no',
    ]);
  });

  test('finds a single event by its id, and what this release does not know by any of its texts', async ({
    bus: { db },
  }) => {
    await db.transaction(async (tx) => {
      await emit(tx, 'review.submitted', payloadOf('review.submitted', { text: 'Synnøve her' }));
      await emit(tx, 'support.case.opened', payloadOf('support.case.opened'));
      await emit(tx, 'user.locked', payloadOf('user.locked', { userId: 'usr_1' }));
    });
    await rows(
      db,
      `update events set topic = 'some.new.topic', payload = payload || '{"deep": [{"owner": "usr_1"}]}'
      where topic = 'support.case.opened'`,
    );
    await rows(
      db,
      `update events set version = 9, payload = payload || '{"nickname": "Synnøve"}' where topic = 'user.locked'`,
    );
    const [{ id } = { id: '' }] = await rows<{ id: string }>(
      db,
      `select id::text from events where topic = 'review.submitted'`,
    );
    await erase(db, { subjects: ['usr_1', id], ...BY });
    const [review, unknown, newer] = await namesIn(db);
    expect(review!.payload).not.toHaveProperty('text');
    expect(unknown!.payload).toMatchObject({
      caseId: 'cas_6104',
      subject: 'erased',
      deep: [{ owner: 'usr_1' }],
    });
    expect(newer!.payload).toMatchObject({ userId: 'usr_1', nickname: 'erased', email: 'erased' });
  });

  test('reads all events, however many there are', async ({ bus: { db } }) => {
    await storeBacklog(db, 'user.profile.updated', 25_000);
    await rows(
      db,
      `update events set payload = payload || '{"userId": "usr_other", "email": "other@example.no"}'
      where seq % 5 <> 0`,
    );
    await erase(db, { subjects: ['usr_3071'], ...BY });
    expect(
      await rows(db, `select payload ->> 'name' as name, count(*)::int from events group by 1 order by 1`),
    ).toEqual([
      { name: 'Kari Lunde', count: 20_000 },
      { name: 'erased', count: 5000 },
    ]);
    expect((await erasures(db))[0]).toMatchObject({ found: 5000, events: 5000, searched: 25_000 });
  });
});

describe('an erasure under way', () => {
  test('waits for a producer whose transaction was open, and leaves what is created after the request', async ({
    bus,
  }) => {
    const { db } = bus;
    const producer = await openTransaction(bus.url);
    await producer.emit('mfa.required', plantedPayload('mfa.required'));
    const id = await erase(db, { subjects: [PERSON.id], ...BY, until: Date.now() + 300 });
    expect((await erasures(db))[0]).toMatchObject({ state: 'waiting' });
    await db.transaction(async (tx) => {
      await emit(tx, 'user.locked', plantedPayload('user.locked'));
    });
    await producer.commit();
    await erase(db, { subjects: [PERSON.id], ...BY, id });
    expect(await rows(db, `select topic, payload ->> 'email' as email from events order by topic`)).toEqual([
      { topic: 'mfa.required', email: null },
      { topic: 'user.locked', email: PERSON.email },
    ]);
  });

  test('does not wait for another one that fails', async ({ bus: { db } }) => {
    await rows(
      db,
      `create function refuse_step() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`,
    );
    await rows(
      db,
      `create trigger planted before update of state on erasures for each row when (old.requested_by = 'kari')
       execute function refuse_step()`,
    );
    for (const by of ['kari', 'ola']) await erase(db, { subjects: [by], by, reason: 'asked', until: 0 });
    await expect(advanceErasures(db, Date.now() + MINUTE)).rejects.toThrow('planted');
    await expect
      .poll(async () => {
        await advanceErasures(db, Date.now() + MINUTE);
        return (await erasures(db)).map(({ state }) => state);
      })
      .toEqual(['waiting', 'ended']);
    await rows(db, 'drop function refuse_step cascade');
  });

  test('erases the error of an attempt that a relay had begun before', async ({ bus: { db } }) => {
    await db.transaction(async (tx) => {
      await emit(tx, 'user.role.revoked', plantedPayload('user.role.revoked'));
      await emit(tx, 'user.profile.updated', plantedPayload('user.profile.updated'));
    });
    const [handler, end] = [gate(), gate()];
    const slow = attach('audit', {
      'user.profile.updated': async ({ payload }) => {
        handler.open();
        await end.opened;
        throw new PermanentError(JSON.stringify(payload));
      },
    });
    const relaying = drain(db, [slow]);
    await handler.opened;
    const erasing = erase(db, { subjects: [PERSON.id], ...BY });
    await expect.poll(async () => (await erasures(db))[0]!['state']).toBe('settling');
    // What the watch writes of it meanwhile is masked too.
    end.open();
    await relaying;
    await watchIncidents(db);
    await erasing;
    expect(await tracesOf(db)).toEqual([]);
    expect(
      await rows(
        db,
        `select attempt_log -> -1 ->> 'message' as message from ${RECORDS} where state = 'dead_lettered'`,
      ),
    ).toEqual([{ message: 'erased' }]);
  });

  test('is continued by any process after the first was killed in the middle, twice at once, while a relay works', async ({
    bus: { db },
  }) => {
    await emitPlanted(db);
    await storeBacklog(db, 'user.profile.updated', 3000);
    await rows(
      db,
      `update events set payload = payload || $1::jsonb where payload ->> 'userId' = 'usr_3071'`,
      [JSON.stringify({ ...plantedPayload('user.profile.updated'), changed: ['name'] })],
    );
    const killed = await connect(url(db));
    const relaying = drain(db, quotingSubscribers());
    const dying = erase(killed.db, { subjects: [PERSON.id], ...BY });
    // It may be killed before the statement that kills it is answered.
    dying.catch(() => undefined);
    await expect.poll(async () => Number((await erasures(db))[0]?.['events'] ?? 0)).toBeGreaterThan(0);
    await rows(
      db,
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'to be killed'`,
    );
    await expect(dying).rejects.toThrow(/terminat|connection|ECONNRESET/i);
    await killed.close();
    const twin = erase(other.db, { subjects: [PERSON.email], ...BY });
    const all = [advanceUntilEnded(db), advanceUntilEnded(other.db)];
    await Promise.all([...all, twin, relaying]);
    expect((await erasures(db)).map(({ state }) => state)).toEqual(['ended', 'ended']);
    expect(await tracesOf(db)).toEqual([]);
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('an erased event', () => {
  test('is replayed with its erased payload, and says so', async ({ bus: { db } }) => {
    await db.transaction(async (tx) => {
      await emit(tx, 'user.profile.updated', plantedPayload('user.profile.updated'));
    });
    const received: Pick<BusEvent, 'payload' | 'erased'>[] = [];
    const taker = attach('audit', {
      'user.profile.updated': ({ payload, erased }) => {
        received.push({ payload, erased });
        if (received.length === 1) throw new PermanentError('not yet');
      },
    });
    await drain(db, [taker]);
    await erase(db, { subjects: [PERSON.id], ...BY });
    await replay(db, { topic: 'user.profile.updated', since: '3650d' }, 'kari', new Date(START + MINUTE));
    await drain(db, [taker], { now: START + MINUTE });
    expect(received.map(({ erased }) => erased)).toEqual([false, true]);
    expect(received[1]!.payload).toEqual({ userId: PERSON.id, name: 'erased', changed: ['phone'] });
  });

  test('loses keys that hold the person, in one order with the others of the key, once nothing depends on them', async ({
    bus: { db },
  }) => {
    await db.transaction(async (tx) => {
      for (const topic of ['user.profile.updated', 'user.profile.updated', 'user.role.revoked'] as const)
        await emit(tx, topic, plantedPayload(topic), {
          orderingKey: PERSON.email,
          ...(topic === 'user.role.revoked' && {
            dedupeKey: `locked ${PERSON.email}`,
            correlationId: `of ${PERSON.email}`,
          }),
        });
    });
    const subscribers = ['audit', 'notifications'].map((name) =>
      attach(name, { 'user.profile.updated': () => undefined }),
    );
    await drain(db, subscribers);
    await erase(db, { subjects: [PERSON.email], ...BY });
    // The role’s event is not delivered yet: its lane needs the key.
    expect((await erasures(db))[0]).toMatchObject({ state: 'ended' });
    const keys = await rows<{ topic: string; key: string; lane_key: string; slot: number; of_key: number }>(
      db,
      `select distinct events.topic, events.ordering_key as key, log.ordering_key as lane_key, slot,
         postbud_slot(events.ordering_key) as of_key
       from events join log on event_id = events.id join streams on streams.id = stream`,
    );
    const profiles = keys.filter(({ topic }) => topic === 'user.profile.updated');
    expect(new Set(profiles.map(({ key }) => key)).size).toBe(1);
    for (const { key, lane_key: laneKey, slot, of_key: ofKey } of profiles) {
      expect(key).toMatch(/^erased [0-9a-f]{16} \d+$/);
      expect([laneKey, slot]).toEqual([key, ofKey]);
    }
    expect(await contradictions(db)).toEqual([]);
    expect((await examine(db)).findings).toEqual([]);
  });
});

describe('what was set aside of an erased event', () => {
  test('loses its keys once it is repaired, and keeps them until then', async ({ bus: { db } }) => {
    const { id } = await emitAlone(db, 'user.profile.updated', plantedPayload('user.profile.updated'), {
      orderingKey: PERSON.email,
    });
    await spoilMarker(db, id);
    const subscribers = ['audit', 'notifications'].map((name) =>
      attach(name, { 'user.profile.updated': () => undefined }),
    );
    await drain(db, subscribers);
    await rows(
      db,
      `insert into set_aside (at, kind, topic, event_id, found)
       values (now(), 'unfit_timer', 'user.profile.updated', $1::uuid, $2::jsonb)`,
      [id, JSON.stringify({ error: 'name: expected a string', timerKey: PERSON.email })],
    );
    const aside = async () =>
      await rows<{ id: string; kind: string; key: string | null; has_error: boolean }>(
        db,
        `select id::text, kind, coalesce(found ->> 'ordering_key', found ->> 'timerKey') as key, found ? 'error' as has_error
         from set_aside order by id`,
      );
    await erase(db, { subjects: [PERSON.email], ...BY });
    expect((await erasures(db))[0]).toMatchObject({ events: 1, keys_kept: 1 });
    const [marker, timer] = await aside();
    expect([marker, timer]).toMatchObject([
      { kind: 'unfit_marker', key: PERSON.email },
      { kind: 'unfit_timer', key: PERSON.email },
    ]);

    await repair(db, { id: marker!.id, ...BY });
    await rows(
      db,
      "update set_aside set repaired_at = now(), repaired_by = 'postbud' where id = $1::bigint",
      [timer!.id],
    );
    await drain(db, subscribers);
    await erase(db, { subjects: [PERSON.email, id], ...BY });
    expect(await aside()).toMatchObject([
      { key: null, has_error: true },
      { key: null, has_error: true },
    ]);
    expect(await tracesOf(db, [PERSON.email])).toEqual([]);
    expect(await contradictions(db)).toEqual([]);
  });
});

describe('an erased timer', () => {
  const erasedAtRelease = async (db: Database) => {
    await drain(db, [], { now: Date.now() + 2 * HOUR });
    return await rows(db, 'select count(*)::int as count from events where erased_at is null');
  };

  test('is released without the person’s data, by whichever of their names it is found', async ({
    bus: { db },
  }) => {
    for (const topic of NAMING_TOPICS) {
      await emitAlone(db, topic, plantedPayload(topic), {
        at: '1h',
        dedupeKey: `for ${PERSON.email}`,
        correlationId: `of ${PERSON.email}`,
      });
    }
    const others = { email: 'ola@example.no', userId: 'usr_2' };
    await emitAlone(db, 'user.profile.updated', payloadOf('user.profile.updated', others), { at: '1h' });
    const preview = await previewErasure(db, { subjects: [PERSON.id] }, Infinity);
    expect(preview).toMatchObject({ isComplete: true, timers: NAMING_TOPICS.length });
    expect(preview.topics).toHaveLength(NAMING_TOPICS.length);

    await erase(db, { subjects: [PERSON.id], ...BY });

    expect(await tracesOf(db)).toEqual([]);
    expect((await erasures(db))[0]).toMatchObject({ found: NAMING_TOPICS.length, keys_kept: 0 });
    expect(await erasedAtRelease(db)).toEqual([{ count: 1 }]);
    expect(await rows(db, 'select from timers')).toEqual([]);
    expect(await rows(db, `select payload ->> 'email' as email from events where erased_at is null`)).toEqual(
      [{ email: others.email }],
    );
    expect(await tracesOf(db)).toEqual([]);
  });

  test('may have been set by a transaction that was open, or be released meanwhile', async ({ bus }) => {
    const { db } = bus;
    const payload = plantedPayload('user.profile.updated');
    await emitAlone(db, 'user.profile.updated', payload, { at: '1h' });
    const producer = await openTransaction(bus.url);
    await producer.emit('user.locked', plantedPayload('user.locked'), { at: '90d' });
    const id = await erase(db, { subjects: [PERSON.id], ...BY, until: Date.now() + 300 });
    expect((await erasures(db))[0]).toMatchObject({ state: 'waiting' });
    await drain(db, [], { now: Date.now() + 2 * HOUR });
    expect(await rows(db, 'select topic from events')).toEqual([{ topic: 'user.profile.updated' }]);
    await producer.commit();
    await erase(db, { subjects: [PERSON.id], ...BY, id });
    expect(await tracesOf(db)).toEqual([]);
  });

  test('keeps the key that its producer cancels it by, and the erasure says so', async ({ bus: { db } }) => {
    await emitAlone(db, 'user.locked', plantedPayload('user.locked'), { at: '1h', timerKey: PERSON.email });
    await erase(db, { subjects: [PERSON.id], ...BY });
    expect((await erasures(db))[0]).toMatchObject({ events: 1, keys_kept: 1 });
    expect(await rows(db, 'select timer_key from timers where erased_at is not null')).toEqual([
      { timer_key: PERSON.email },
    ]);
    await emitAlone(db, 'user.locked', plantedPayload('user.locked'), { at: '1h', timerKey: PERSON.email });
    expect(await rows(db, 'select erased_at from timers')).toEqual([{ erased_at: null }]);
  });
});

async function advanceUntilEnded(db: Database): Promise<void> {
  while ((await advanceErasures(db, Date.now() + 1000)) !== null) await sleep(10);
}

/** The address of the same database, whose connections have a name of their own. */
function url(db: Database): string {
  const { options } = db.$client as { options: { connectionString: string } };
  const named = new URL(options.connectionString);
  named.searchParams.set('application_name', 'to be killed');
  return named.href;
}
