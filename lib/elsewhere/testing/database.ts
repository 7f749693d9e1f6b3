import { migrate } from '../../bus/migrations/migrate.ts';
import { connect } from '../../platform/db/connect.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { codeOf } from '../../platform/log.ts';

/** An embedded database in memory with all tables and without rows, whose clock only the test moves. */
export interface TestDatabase {
  readonly db: Database;
  /** Sets the database's clock. Statements that are sent later read it, in and out of transactions. */
  setClock(at: Date): Promise<void>;
  close(): Promise<void>;
}

/** The last database that was given back, for the next test of this process: opening one takes a second or more. */
let idle: TestDatabase | undefined;

/** Takes the idle database of this process, or opens one. */
export async function borrowDatabase(): Promise<TestDatabase> {
  const taken = idle;
  idle = undefined;
  return taken ?? (await openDatabase());
}

/**
 * Empties a database for the next test: rows, tables that the test made, and settings. One whose functions, triggers or
 * columns the test changed is closed instead.
 */
export async function giveBack(database: TestDatabase): Promise<void> {
  const { db } = database;
  await run(driverOf(db), { text: 'reset all', values: [] });
  await run(driverOf(db), { text: SEARCH_PATH, values: [] });
  const [row] = await run<{ is_as_new: boolean }>(driverOf(db), {
    text: 'select postbud_testing.reset() as is_as_new',
    values: [],
  });
  if (row!.is_as_new && !idle) idle = database;
  else await database.close();
}

async function openDatabase(): Promise<TestDatabase> {
  const { db, close } = await connect('memory://').catch((error: unknown) => {
    throw codeOf(error) === 'ERR_MODULE_NOT_FOUND' ? new DatabaseMissing({ cause: error }) : error;
  });
  // Before the migrations, whose defaults then read the clock of the test.
  await executeAll(db, CLOCK);
  await migrate(db);
  // Its path is its own, and not that of the session.
  await executeAll(db, [`alter function postbud_emit ${SEARCH_PATH}`]);
  await executeAll(db, BEGINNING);
  return {
    db,
    close,
    async setClock(at) {
      await run(driverOf(db), {
        text: `select set_config('postbud.clock', $1::text, false)`,
        values: [at.toISOString()],
      });
    },
  };
}

/** Only a test needs the embedded database, so the package does not install it. */
class DatabaseMissing extends Error {
  readonly code = 'database_missing';

  constructor(options: ErrorOptions) {
    super(
      'a test bus runs on @electric-sql/pglite, which is not installed: npm install --save-dev @electric-sql/pglite',
      options,
    );
    this.name = 'DatabaseMissing';
  }
}

async function executeAll(db: Database, statements: readonly string[]): Promise<void> {
  for (const text of statements) await run(driverOf(db), { text, values: [] });
}

const SEARCH_PATH = 'set search_path = public, postbud_testing, pg_catalog';

/**
 * Replaces the clock: these functions are found before those of `pg_catalog`. All readings are the same, but that of
 * placing, which takes only events that are older than it.
 */
const CLOCK = [
  'create schema postbud_testing',
  `create function postbud_testing.now() returns timestamptz language sql stable as
    $$ select current_setting('postbud.clock')::timestamptz $$`,
  ...['statement_timestamp', 'transaction_timestamp'].map(
    (name) => `create function postbud_testing.${name}() returns timestamptz language sql stable as
      $$ select postbud_testing.now() $$`,
  ),
  `create function postbud_testing.clock_timestamp() returns timestamptz language plpgsql as $$
    declare
      callers text;
    begin
      get diagnostics callers = pg_context;
      return postbud_testing.now()
        + case when callers like '%function postbud_place%' then interval '1 millisecond' else interval '0' end;
    end
  $$`,
  // Where the clock stands, events are emitted at the time up to which others have their places, so a process must not remember
  // that time: it does as long as the server is the same.
  `create function postbud_testing.pg_postmaster_start_time() returns uuid language sql volatile as
    $$ select gen_random_uuid() $$`,
  SEARCH_PATH,
  `select set_config('postbud.clock', '1970-01-01T00:00:00Z', false)`,
];

/** Keeps how the database was after the migrations, and makes the function that takes it back there. */
const BEGINNING = [
  // Of everything that a test could change without a table of its own.
  `create function postbud_testing.fingerprint() returns text language sql as $$
    select string_agg(sum::text, ' ') from (
      select sum(hashtext(concat(oid, ' ', xmin))) from pg_proc
      union all select sum(hashtext(concat(oid, ' ', xmin))) from pg_trigger
      union all select sum(hashtext(concat(oid, ' ', xmin))) from pg_type
      union all select sum(hashtext(concat(oid, ' ', xmin))) from pg_namespace
      union all select sum(hashtext(concat(oid, ' ', xmin))) from pg_constraint
      union all select sum(hashtext(concat(oid, ' ', xmin))) from pg_attrdef
      union all select sum(hashtext(concat(attrelid, ' ', attnum, ' ', xmin))) from pg_attribute
      union all select count(*) from pg_class
    ) as part
  $$`,
  `create function postbud_testing.reset() returns boolean language plpgsql as $$
    declare
      extra text;
    begin
      set local session_replication_role = replica;
      foreach extra in array array(
        select format('drop %s if exists %s cascade', case relkind when 'v' then 'view' when 'm' then
          'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end, oid::regclass)
        from pg_class where relkind in ('r', 'p', 'v', 'm', 'f', 'S')
          and oid > (select oid from postbud_testing.newest_relation) order by relkind = 'S', oid
      ) loop
        execute extra;
      end loop;
      foreach extra in array array(
        select format('truncate %s restart identity', string_agg(oid::regclass::text, ', ')) from pg_class
        where relnamespace = 'public'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0 having count(*) > 0
      ) loop
        execute extra;
      end loop;
      foreach extra in array array(
        select format('insert into public.%I overriding system value table postbud_testing.%I', relname, relname)
        from pg_class where relnamespace = 'postbud_testing'::regnamespace and relkind = 'r'
          and to_regclass(format('public.%I', relname)) is not null
      ) loop
        execute extra;
      end loop;
      return postbud_testing.fingerprint() = (select fingerprint from postbud_testing.beginning);
    end
  $$`,
  // The rows that migrations have written.
  `do $$
    declare
      filled text;
    begin
      for filled in select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
        and pg_relation_size(oid) > 0
      loop
        execute format('create table postbud_testing.%I as table public.%I', filled, filled);
      end loop;
    end
  $$`,
  'create table postbud_testing.beginning (fingerprint text)',
  'create table postbud_testing.newest_relation (oid oid)',
  'insert into postbud_testing.newest_relation select max(oid) from pg_class',
  'insert into postbud_testing.beginning select postbud_testing.fingerprint()',
];
