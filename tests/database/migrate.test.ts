import pg from 'pg';
import { expect, inject, onTestFinished, vi } from 'vitest';

import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { test } from '../support/bus-test.ts';
import { drainLive, emitPayments, openTransaction, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { runProgram } from '../support/local-server.ts';
import { migrateToNextRelease, SchemaFolder } from '../support/next-release.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { structureOf } from '../support/structure.ts';
import journal from '../../drizzle/migrations/meta/_journal.json' with { type: 'json' };

const migrations = async (bus: Bus) =>
  (await rows<{ hash: string }>(bus.db, 'select hash from drizzle.__drizzle_migrations order by id')).map(
    ({ hash }) => hash,
  );

async function emptyDatabase(): Promise<{ readonly db: Database; readonly url: string }> {
  const url = await createEmptyDatabase(inject('postgresUrl'));
  const { db, close } = await connect(url);
  onTestFinished(close);
  return { db, url };
}

test('each migration runs once when two processes migrate at the same moment', async ({ bus }) => {
  const before = await migrations(bus);
  await rows(bus.db, 'drop schema public cascade');
  await rows(bus.db, 'drop schema drizzle cascade');
  await rows(bus.db, 'create schema public');
  await Promise.all([migrate(bus.db), migrate(bus.db), migrate(bus.db)]);
  expect(await migrations(bus)).toEqual(before);
});

// Of a database that has the one, Drizzle leaves out the other where it is older.
test('each migration is newer than the one before it', () => {
  const times = journal.entries.map(({ when }) => when);
  expect(times).toEqual(times.toSorted((one, other) => one - other));
});

test('npm run migrate tries again until a table that is in use is released', async ({ bus }) => {
  const holder = new pg.Client(bus.url);
  await holder.connect();
  await holder.query('begin');
  await holder.query('lock table drizzle.__drizzle_migrations');
  const running = runProgram('dev/migrate.ts', { DATABASE_URL: bus.url });
  const waited = new Set<string>();
  await vi.waitFor(async () => {
    const { rows: waiting } = await holder.query<{ since: string }>(
      `select waitstart::text as since from pg_locks
       where waitstart is not null and relation = 'drizzle.__drizzle_migrations'::regclass`,
    );
    for (const { since } of waiting) waited.add(since);
    expect(waited.size).toBe(2);
  }, PATIENTLY);
  await holder.query('rollback');
  await holder.end();
  expect(await running).toEqual({
    code: 0,
    output: 'A table is in use. Retrying …\nThe tables are up to date.\n',
  });
});

test('a migration runs again when it is the victim of a deadlock', async ({ bus }) => {
  const [first, second] = [await openTransaction(bus.url), await openTransaction(bus.url)];
  const waiters = `select from pg_locks where classid = 7 and objid = 1 and not granted
    and database = (select oid from pg_database where datname = current_database())`;
  const areWaiting = async (count: number) =>
    await expect.poll(() => rows(bus.db, waiters)).toHaveLength(count);
  await first.client.query('select pg_advisory_xact_lock(7, 1)');
  const migrating = migrate(bus.db);
  await areWaiting(1);
  // Else it could be the victim.
  await second.client.query(`set local deadlock_timeout = '1min'`);
  await second.client.query('select from catalog_topics for update');
  const waiting = second.client.query('select pg_advisory_xact_lock(7, 1)');
  await areWaiting(2);
  await first.commit();
  await waiting;
  await second.commit();
  await migrating;
});

test('a database of release 1.0 becomes what a new one is, whatever functions it has', async ({ bus }) => {
  const { db } = await emptyDatabase();
  const first = await SchemaFolder.open();
  onTestFinished(() => first.remove());
  await first.edit('migrations/meta/_journal.json', (text) => {
    const { entries, ...others } = JSON.parse(text) as typeof journal;
    return JSON.stringify({ ...others, entries: entries.slice(0, 1) });
  });
  // Views read the tables as they are created, and those of that release are others.
  const views = ['deliveries', 'lane_heads', 'lane_outcomes', 'states_of_lanes', 'subscription_counts'];
  for (const name of [...views, 'postbud_due_lanes_1']) await first.delete(`functions/${name}.sql`);
  await first.migrate(db);
  await rows(db, 'drop function postbud_slot');
  await rows(db, `create function postbud_turn_3(tokens uuid[]) returns void language sql as ''`);
  await rows(db, `create function postbud_emit(topic text) returns uuid language sql as 'select null::uuid'`);
  await migrate(db);
  expect(await structureOf(db)).toEqual(await structureOf(bus.db));
});

test('a function that a service has in the same schema stays', async ({ bus }) => {
  await rows(bus.db, `create function postbud_require_transaction() returns void language sql as ''`);
  await migrate(bus.db);
  expect(await rows(bus.db, 'select postbud_require_transaction()')).toHaveLength(1);
  await rows(bus.db, 'drop function postbud_require_transaction()');
});

test('an older release that migrates leaves the functions of a newer one as they are', async ({ bus }) => {
  const { db } = await emptyDatabase();
  await migrate(db);
  const newer = await SchemaFolder.open();
  onTestFinished(() => newer.remove());
  await migrateToNextRelease(db, newer);
  const before = await structureOf(db);
  await migrate(db);
  expect(await structureOf(db)).toEqual(before);
  expect(before).not.toEqual(await structureOf(bus.db));
});

test('a database of a release before 1.0 is refused with the way to go, and nothing has changed', async () => {
  const { db, url } = await emptyDatabase();
  await rows(db, 'create schema drizzle');
  await rows(db, 'create table drizzle.__drizzle_migrations (id serial, hash text, created_at bigint)');
  await rows(db, `insert into drizzle.__drizzle_migrations (hash, created_at) values ('', 1795366600044)`);
  const before = await structureOf(db);
  expect(await runProgram('dev/migrate.ts', { DATABASE_URL: url })).toEqual({
    code: 3,
    output:
      'DATABASE_URL leads to tables of a release before 1.0: run npm run migrate of release 1.1 there first, then this one again\n',
  });
  expect(await structureOf(db)).toEqual(before);
});

test('a migration gives up on a table that is in use and changes nothing, so that no traffic queues behind it', async () => {
  const { db, url } = await emptyDatabase();
  await migrate(db);
  const newer = await SchemaFolder.open();
  onTestFinished(() => newer.remove());
  const before = await structureOf(db);
  const reader = await openTransaction(url);
  await reader.client.query('select from last_pass');
  await expect(migrateToNextRelease(db, newer)).rejects.toMatchObject({ code: '55P03' });
  expect(await structureOf(db)).toEqual(before);
  await reader.commit();
});

test('a transaction that writes to a table with triggers holds up no migration that changes no table', async ({
  bus,
}) => {
  const producer = await openTransaction(bus.url);
  await producer.client.query('lock table awaiting, timers in row exclusive mode');
  await migrate(bus.db);
  await producer.commit();
});

// Of a table that has no primary key and says nothing else, Postgres refuses what a publication would have to send.
test('a publication of all tables, as logical replication makes one, has no change refused', async ({
  bus,
  ledger,
}) => {
  await rows(bus.db, 'create publication everything for all tables');
  await emitPayments(bus.db, 1, 3);
  expect(await drainLive(bus.db, [ledger()])).toMatchObject({ delivered: 3 });
  const unnamed = `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
    and relreplident = 'd' and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)`;
  expect(await rows(bus.db, unnamed)).toEqual([]);
});
