import { afterAll, describe, expect } from 'vitest';

import { connect } from '../../lib/db/connect.ts';
import type { Connection, Database } from '../../lib/db/connect.ts';
import { advanceErasures, erase } from '../../lib/deliveries/erase.ts';
import { watchIncidents } from '../../lib/incidents/watch.ts';
import { examine } from '../../lib/operators/doctor/read.ts';
import { audit } from '../../lib/subscribers/audit.ts';
import { identity } from '../../lib/subscribers/identity.ts';
import { notificationsBy } from '../../lib/subscribers/notifications.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { attach } from '../../lib/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/subscribers/subscriber.ts';
import { contradictions, drain, gate, openTransaction, payloadOf, rows } from '../support/bus.ts';
import { test } from '../support/bus-test.ts';
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
     select to_jsonb(deliveries) - 'attempt_log' || jsonb_build_object('attempts', jsonb_array_length(attempt_log)) from deliveries
     union all select to_jsonb(lanes) from lanes
     union all select to_jsonb(backlog) from backlog
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
    await drain(db, quotingSubscribers([audit, identity, notificationsBy(undefined)]));
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
    const before = await bones(db);
    const planted = await tracesOf(db);
    for (const table of [
      'events',
      'deliveries',
      'notifications',
      'incidents',
      'alerts',
      'outages',
      'error_groups',
      'identity_subjects',
      'pauses',
    ])
      expect(
        planted.some((trace) => trace.startsWith(`${table}:`)),
        table,
      ).toBe(true);

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
void [advanceErasures, gate, openTransaction, payloadOf, PermanentError, attach, plantedPayload];
export type { BusEvent };
