import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { readMigrationFiles } from 'drizzle-orm/migrator';
import type { MigrationMeta } from 'drizzle-orm/migrator';

import { InvalidConfiguration } from '../environment.ts';
import { SECOND } from '../time.ts';
import { publishCatalog } from './publish-catalog.ts';
import { applyGrants } from './role-grants.ts';
import { run } from './statement.ts';
import type { Executor } from './statement.ts';

/** How long a migration waits for a table. Other statements on that table wait behind it. */
const PATIENCE_MS = 3 * SECOND;

/** When the last migration of release 0.3 was written, by Drizzle's journal. */
const LAST_OF_0_3 = 1_795_366_600_044;

/**
 * Runs the missing migrations, publishes the catalog, and gives roles what `npm run grant` granted, all in the caller's
 * transaction.
 *
 * The lock and the settings end with the transaction, so that a pooler's session keeps nothing of them. Drizzle's own
 * migrator makes its table before its transaction, where no such lock could keep two of them apart; this one keeps the
 * same table.
 *
 * @param folder of the schema, with the migrations and Drizzle's journal in `migrations`.
 * @throws InvalidConfiguration for a database of a release before 0.3.
 */
export async function runMigrations(tx: Executor, folder: string): Promise<void> {
  const execute = async (text: string) => await run<never>(tx, { text, values: [] });
  // Whatever limits the role has: another migration may take long.
  await execute(`set local statement_timeout = 0`);
  await execute(`set local lock_timeout = 0`);
  await execute('select pg_advisory_xact_lock(7, 1)');
  await execute(`set local lock_timeout = ${PATIENCE_MS}`);
  await execute('create schema if not exists drizzle');
  await execute(`create table if not exists drizzle.__drizzle_migrations (
    id serial primary key, hash text not null, created_at bigint)`);
  const [last] = await run<{ at: number }>(tx, {
    text: 'select created_at::float8 as at from drizzle.__drizzle_migrations order by created_at desc limit 1',
    values: [],
  });
  const [baseline, ...later] = readMigrationFiles({ migrationsFolder: join(folder, 'migrations') });
  for (const migration of [baseline!, ...later]) {
    if (last && migration.folderMillis <= last.at) continue;
    const isTakenOver = last && migration === baseline;
    for (const statement of isTakenOver ? takeOver(last.at, baseline, folder) : migration.sql)
      await execute(statement);
    await run(tx, {
      text: 'insert into drizzle.__drizzle_migrations (hash, created_at) values ($1::text, $2::bigint)',
      values: [migration.hash, migration.folderMillis],
    });
  }
  await execute('set local check_function_bodies = off');
  const functions = join(folder, 'functions');
  for (const file of readdirSync(functions).sort())
    await execute(readFileSync(join(functions, file), 'utf8'));
  await publishCatalog(tx);
  await applyGrants(tx);
}

/** The statements that make a database of release 0.3, the last before 1.0, what the baseline makes of an empty one. */
function takeOver(lastAt: number, baseline: MigrationMeta, folder: string): readonly string[] {
  if (lastAt < LAST_OF_0_3)
    throw new InvalidConfiguration(
      'DATABASE_URL',
      'leads to tables of a release before 0.3: run npm run migrate of release 0.3 there first, then this one again',
    );
  return [
    readFileSync(join(folder, 'take-over.sql'), 'utf8'),
    ...baseline.sql.filter((statement) =>
      /^create or replace (?:function|aggregate|trigger) /m.test(statement),
    ),
  ];
}
