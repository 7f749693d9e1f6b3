import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readMigrationFiles } from 'drizzle-orm/migrator';

import { InvalidConfiguration } from '../../platform/environment.ts';
import type { Database } from '../../platform/db/database.ts';
import { applyGrants } from '../../platform/db/role-grants.ts';
import { driverOf, limitStatements, run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { requireFit } from '../../platform/db/surroundings.ts';
import { SECOND } from '../../platform/time.ts';
import { publishCatalog } from './publish-catalog.ts';

/** How long a migration waits for a table. Other statements on that table wait behind it. */
const PATIENCE_MS = 3 * SECOND;

/**
 * Runs the missing migrations of the tables, creates the functions, publishes the catalog for `postbud_emit`, and gives
 * roles what `npm run grant` granted. Safe to call at every start, from several processes at once, behind a pooler, and
 * while functions run: all of it is one transaction, which gives up on a table that is in use instead of making other
 * statements wait.
 *
 * @param folder of the schema: `migrations` with Drizzle's journal, and `functions`.
 * @throws InvalidConfiguration for a database that cannot keep the promises, or of a release before 1.0; an error with
 *   the code 55P03 when it gave up. Nothing has changed then.
 */
export async function migrate(
  db: Database,
  folder = fileURLToPath(new URL('../../../drizzle', import.meta.url)),
): Promise<void> {
  await requireFit(driverOf(db));
  await db.transaction(async (tx) => {
    // Whatever limits the role has: another migration may take long.
    await limitStatements(tx, 0);
    await execute(tx, `set local lock_timeout = 0`);
    await execute(tx, 'select pg_advisory_xact_lock(7, 1)');
    await execute(tx, `set local lock_timeout = ${PATIENCE_MS}`);
    await createTablesAndFunctions(tx, folder);
    await publishCatalog(tx);
    await applyGrants(tx);
  });
}

/**
 * The lock and the settings end with the transaction, so that a pooler's session keeps nothing of them. Drizzle's own
 * migrator makes its table before its transaction, where no such lock could keep two of them apart; this one keeps the
 * same table.
 */
async function createTablesAndFunctions(tx: Executor, folder: string): Promise<void> {
  await execute(tx, 'create schema if not exists drizzle');
  await execute(
    tx,
    `create table if not exists drizzle.__drizzle_migrations (
      id serial primary key, hash text not null, created_at bigint)`,
  );
  const [last] = await run<{ at: number }>(tx, {
    text: 'select created_at::float8 as at from drizzle.__drizzle_migrations order by created_at desc limit 1',
    values: [],
  });
  const migrations = readMigrationFiles({ migrationsFolder: join(folder, 'migrations') });
  if (last && last.at < migrations[0]!.folderMillis)
    throw new InvalidConfiguration(
      'DATABASE_URL',
      'leads to tables of a release before 1.0: run npm run migrate of release 1.1 there first, then this one again',
    );
  // The release that the tables are of has functions for them.
  if (last && last.at > migrations.at(-1)!.folderMillis) return;
  const functions = readFunctions(join(folder, 'functions'));
  const ofTriggers = functions.filter(({ text }) =>
    /^create or replace function \w+\(\) returns trigger /m.test(text),
  );
  // Their bodies name tables and functions that are created later.
  await execute(tx, 'set local check_function_bodies = off');
  // Tables name these, and they take and return nothing that tables define.
  for (const { text } of ofTriggers) await execute(tx, text);
  for (const migration of migrations) {
    if (last && migration.folderMillis <= last.at) continue;
    for (const statement of migration.sql) await execute(tx, statement);
    await run(tx, {
      text: 'insert into drizzle.__drizzle_migrations (hash, created_at) values ($1::text, $2::bigint)',
      values: [migration.hash, migration.folderMillis],
    });
  }
  for (const one of functions) if (!ofTriggers.includes(one)) await execute(tx, one.text);
  await dropFormerFunctions(
    tx,
    functions.map(({ name }) => name),
  );
}

/** A function or an aggregate, and the statement that creates it, which its file holds. */
interface DatabaseFunction {
  readonly name: string;
  readonly text: string;
}

function readFunctions(folder: string): DatabaseFunction[] {
  return readdirSync(folder)
    .toSorted()
    .map((file) => ({ name: file.replace(/\.sql$/, ''), text: readFileSync(join(folder, file), 'utf8') }));
}

/**
 * Drops the functions that no file has any more, and those that took other arguments under their name: what this transaction
 * has not created. Without a number in its name only the latter, since `OUTBOX_TABLE` creates such a function of a service.
 */
async function dropFormerFunctions(tx: Executor, names: readonly string[]): Promise<void> {
  const former = await run<{ signature: string }>(tx, {
    text: `select oid::regprocedure::text as signature from pg_proc
           where pronamespace = 'public'::regnamespace and xmin <> pg_current_xact_id()::xid
             and (proname ~ '^postbud_.+_[0-9]+$' or proname = any ($1::text::text[]))`,
    values: [`{${names.join()}}`],
  });
  if (former.length > 0)
    await execute(tx, `drop routine ${former.map(({ signature }) => signature).join(', ')}`);
}

async function execute(tx: Executor, text: string): Promise<void> {
  await run<never>(tx, { text, values: [] });
}
