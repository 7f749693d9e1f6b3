import pg from 'pg';
import { expect, vi } from 'vitest';

import { migrate } from '../../lib/platform/db/connect.ts';
import { test } from '../support/bus-test.ts';
import { drainLive, emitPayments, openTransaction, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { runProgram } from '../support/local-server.ts';
import { PATIENTLY } from '../support/patience.ts';
import journal from '../../drizzle/migrations/meta/_journal.json' with { type: 'json' };

const migrations = async (bus: Bus) =>
  (await rows<{ hash: string }>(bus.db, 'select hash from drizzle.__drizzle_migrations order by id')).map(
    ({ hash }) => hash,
  );

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
