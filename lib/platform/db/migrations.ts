import { readMigrationFiles } from 'drizzle-orm/migrator';

import { SECOND } from '../time.ts';
import { publishCatalog } from './publish-catalog.ts';
import { applyGrants } from './role-grants.ts';
import { run } from './statement.ts';
import type { Executor } from './statement.ts';

/** How long a migration waits for a table. Other statements on that table wait behind it. */
const PATIENCE_MS = 3 * SECOND;

/**
 * Runs the missing migrations, publishes the catalog, and gives roles what `npm run grant` granted, all in the caller's
 * transaction.
 *
 * The lock and the settings end with the transaction, so that a pooler's session keeps nothing of them. Drizzle's own
 * migrator makes its table before its transaction, where no such lock could keep two of them apart; this one keeps the
 * same table.
 *
 * @param folder of the migrations, with Drizzle's journal.
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
  for (const { sql, hash, folderMillis } of readMigrationFiles({ migrationsFolder: folder })) {
    if (last && folderMillis <= last.at) continue;
    for (const statement of sql) await execute(statement);
    await run(tx, {
      text: 'insert into drizzle.__drizzle_migrations (hash, created_at) values ($1::text, $2::bigint)',
      values: [hash, folderMillis],
    });
  }
  await publishCatalog(tx);
  await applyGrants(tx);
}
