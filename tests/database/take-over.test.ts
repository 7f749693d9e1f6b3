import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

import pg from 'pg';
import { expect, inject, onTestFinished } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { connect, migrate } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, rows, START } from '../support/bus.ts';
import { runProgram } from '../support/local-server.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { structureOf } from '../support/structure.ts';

/**
 * A database as release 0.3 left it, with deliveries in every state: delivered, pending, failing, dead-lettered,
 * dismissed, skipped, replayed and retried early; a key in trouble; a paused subscription; a lane whose relay died; events
 * that wait for fan-out; and two of release 0.1, which did not record whom they are for.
 */
const RELEASE_0_3 = new URL('../fixtures/release-0.3.sql.gz', import.meta.url);

async function databaseOfRelease03(): Promise<{ readonly db: Database; readonly url: string }> {
  const url = await createEmptyDatabase(inject('postgresUrl'));
  const client = new pg.Client(url);
  await client.connect();
  await client.query(gunzipSync(readFileSync(RELEASE_0_3)).toString());
  await client.end();
  const { db, close } = await connect(url);
  onTestFinished(close);
  return { db, url };
}

const migrationsOf = (db: Database) => rows(db, 'select hash from drizzle.__drizzle_migrations order by id');

/** The amount of a payment, or the topic of another event, and its ordering key. */
const nameOf = (event: {
  readonly topic: string;
  readonly orderingKey: string;
  readonly payload: Readonly<Record<string, unknown>>;
}) =>
  `${event.topic === 'payment.captured' ? String(event.payload['amountMinor']) : event.topic}${event.orderingKey}`;

test('a database of release 0.3 becomes what a new one is', async ({ bus }) => {
  const { db } = await databaseOfRelease03();
  await migrate(db);
  expect(await structureOf(db)).toEqual(await structureOf(bus.db));
  const before = await migrationsOf(db);
  await migrate(db);
  expect(await migrationsOf(db)).toEqual(before);
});

test('all that release 0.3 left open is delivered in order, and the rest is as it was', async () => {
  const { db } = await databaseOfRelease03();
  const settled = () =>
    rows(
      db,
      `select lane_id, position, state, dismissed_at::text, delivered_at::text from deliveries
       where state in ('delivered', 'dead_lettered') order by lane_id, position`,
    );
  const before = await settled();
  await migrate(db);
  expect(await contradictions(db)).toEqual([]);
  expect(await settled()).toEqual(before);
  const handed: string[] = [];
  const handle = (name: string) => (event: Parameters<typeof nameOf>[0]) =>
    handed.push(`${name} ${nameOf(event)}`);
  const listed = (['payment.captured', 'payment.failed', 'booking.created'] satisfies TopicName[]).flatMap(
    (topic) => catalog[topic].subscribers.map((name) => ({ topic, name })),
  );
  const subscribers = listed.map(({ topic, name }) => attach(name, { [topic]: handle(name) }));
  await rows(db, 'delete from pauses');
  await drain(db, subscribers);
  await drain(db, subscribers, { now: START + 10 * MINUTE });
  const of = (name: string) =>
    handed.filter((one) => one.startsWith(`${name} `)).map((one) => one.slice(name.length + 1));
  expect(of('accounting')).toEqual(expect.arrayContaining(['1', '2', '3', '4', '5', '6', '21']));
  expect(of('accounting').filter((one) => !/[abc]$/.test(one))).toEqual(['1', '2', '3', '4', '5', '6', '21']);
  expect(of('accounting').filter((one) => one.endsWith('a'))).toEqual(['11a', '13a']);
  expect(of('ledger').filter((one) => one.endsWith('a'))).toEqual(['11a', '13a']);
  expect(of('ledger').filter((one) => !one.endsWith('a'))).toEqual(['21']);
  // Two of the three are of release 0.1.
  expect(of('audit').filter((one) => one === 'payment.failed')).toHaveLength(3);
  expect(await rows(db, `select state, count(*)::int from deliveries group by state order by state`)).toEqual(
    [
      { state: 'delivered', count: expect.any(Number) as number },
      { state: 'dead_lettered', count: 4 },
    ],
  );
  expect(await contradictions(db)).toEqual([]);
});

test('events that did not record whom they are for say so, and a retry that was called hurried has its new name', async () => {
  const { db } = await databaseOfRelease03();
  await migrate(db);
  expect(
    await rows(
      db,
      `select distinct array_to_string(array(select unnest(subscribers) order by 1), ' ') as names
       from events where topic = 'payment.failed'`,
    ),
  ).toEqual([{ names: catalog['payment.failed'].subscribers.toSorted().join(' ') }]);
  expect(
    await rows(
      db,
      `select entry ->> 'outcome' as outcome, entry ->> 'by' as by from deliveries, jsonb_array_elements(attempt_log) as entry
       where entry ->> 'reason' = 'it is mended'`,
    ),
  ).toEqual([{ outcome: 'retried_early', by: 'kari' }]);
});

test('an event of release 0.1 whose topic the catalog lacks is named, and nothing has changed', async () => {
  const { db } = await databaseOfRelease03();
  await rows(db, `update awaiting_fan_out set topic = 'door.opened' where subscribers is null`);
  const before = await structureOf(db);
  await expect(migrate(db)).rejects.toThrow(
    '1 events of door.opened do not say whom they are for, and the catalog has no such topic: add it, or delete the events',
  );
  expect(await structureOf(db)).toEqual(before);
});

test('a database of an older release is refused with the way to go, and nothing has changed', async () => {
  const { db, url } = await databaseOfRelease03();
  await rows(db, 'delete from drizzle.__drizzle_migrations where id = 45');
  const before = await structureOf(db);
  expect(await runProgram('dev/migrate.ts', { DATABASE_URL: url })).toEqual({
    code: 3,
    output:
      'DATABASE_URL leads to tables of a release before 0.3: run npm run migrate of release 0.3 there first, then this one again\n',
  });
  expect(await structureOf(db)).toEqual(before);
});

test('a migration gives up on a table that is in use and changes nothing, so that no traffic queues behind it', async () => {
  const { db, url } = await databaseOfRelease03();
  const before = await migrationsOf(db);
  const reader = new pg.Client(url);
  await reader.connect();
  await reader.query('begin');
  await reader.query('select from lanes');
  const attempted = migrate(db).then(
    () => null,
    (error: Error) => error,
  );
  await expect(attempted).resolves.toMatchObject({ code: '55P03' });
  expect(await migrationsOf(db)).toEqual(before);
  await reader.query('rollback');
  await reader.end();
});
