import { InvalidConfiguration } from '../config.ts';
import { codeOf } from '../log.ts';
import { SECOND } from '../time.ts';
import { run } from './statement.ts';
import type { Executor, Sender } from './statement.ts';

// What a database must be like for the event bus, which its settings and its other tables may prevent. It is read at the
// start of what migrates or examines it. Functions, which have no time for that, read it when a statement fails in a way
// that it would explain.

/** What is around the tables of the event bus in a database. */
export interface Surroundings {
  /** Of the server, such as 180001 for 18.1. */
  readonly version: number;
  readonly versionText: string;
  readonly encoding: string;
  readonly role: string;
  readonly searchPath: string;
  /** Where a new table would be; null where the search path has no schema that there is. */
  readonly currentSchema: string | null;
  readonly dateStyle: string;
  /** The schemas that have a table which only the event bus has. */
  readonly schemas: readonly string[];
  /** The one of them that the search path finds first, if it finds any. */
  readonly foundIn: string | null;
  /** The schema of the table `events` that the search path finds, whoever's it is. */
  readonly eventsIn: string | null;
}

/** The oldest version that the tests run on. */
const OLDEST_VERSION = 15;

/** Drizzle writes the names of types and sequences with their schema, and producers elsewhere those of functions. */
const SCHEMA = 'public';

/** @throws InvalidConfiguration in one sentence, when the database cannot keep the promises of the event bus. */
export async function requireFit(on: Executor): Promise<void> {
  const refusal = refusalOf(await readSurroundings(on));
  if (refusal) throw refusal;
}

async function readSurroundings(on: Executor): Promise<Surroundings> {
  const [found] = await run<Surroundings>(on, READ);
  return found!;
}

const READ = {
  text: `
    select current_setting('server_version_num')::int as version, current_setting('server_version') as "versionText",
      current_setting('server_encoding') as encoding, current_user::text as role,
      current_setting('search_path') as "searchPath", current_setting('DateStyle') as "dateStyle", current_schema()::text as "currentSchema",
      coalesce((
        select json_agg(relnamespace::regnamespace::text order by relnamespace) from pg_catalog.pg_class
        where relname = 'catalog_topics' and relkind in ('r', 'p')
      ), '[]') as schemas,
      (select relnamespace::regnamespace::text from pg_catalog.pg_class where oid = to_regclass('catalog_topics'))
        as "foundIn",
      (select relnamespace::regnamespace::text from pg_catalog.pg_class where oid = to_regclass('events'))
        as "eventsIn"`,
  values: [],
  limitMs: 5 * SECOND,
};

/** Says in one sentence what of the surroundings must change; null where the event bus can keep its promises. */
export function refusalOf(surroundings: Surroundings): InvalidConfiguration | null {
  const must = mustOf(surroundings);
  return must === null ? null : new InvalidConfiguration('DATABASE_URL', must);
}

function mustOf({
  version,
  versionText,
  encoding,
  role,
  searchPath,
  dateStyle,
  ...tables
}: Surroundings): string | null {
  const { currentSchema, schemas, foundIn, eventsIn } = tables;
  if (version < OLDEST_VERSION * 10_000)
    return `must name a Postgres of version ${OLDEST_VERSION} or newer; this one is ${versionText}`;
  if (encoding !== 'UTF8')
    return `must name a database whose encoding is UTF8, not ${encoding}: create database postbud encoding 'UTF8' template template0`;
  const [own] = schemas;
  if (foundIn !== null && eventsIn !== null && eventsIn !== foundIn)
    return `must lead to the event bus’s own table events, in the schema ${foundIn}; the search path finds another one first, in the schema ${eventsIn}: alter role ${role} set search_path = ${foundIn}`;
  // The functions of the database have the schema in their own search path, and producers call them by it.
  if (own !== undefined && !schemas.includes(SCHEMA))
    return `must lead to the event bus’s tables in the schema ${SCHEMA}; they are in the schema ${own}: alter schema ${own} rename to ${SCHEMA}`;
  if (own !== undefined && foundIn === null)
    return `must lead to the event bus’s tables; they are in the schema ${own}, but the search path is ${searchPath}: alter role ${role} set search_path = ${own}`;
  if (own === undefined && eventsIn !== null)
    return `must name a database without another table called events; there is one in the schema ${eventsIn}: create database postbud encoding 'UTF8' template template0`;
  if (own === undefined && currentSchema !== SCHEMA)
    return `must lead to the schema ${SCHEMA}, where the migrations make the tables; the search path is ${searchPath}: alter role ${role} set search_path = ${SCHEMA}`;
  // Drizzle reads instants as text, and JavaScript reads no other style.
  if (!dateStyle.startsWith('ISO'))
    return `must lead to a role whose DateStyle is ISO, not ${dateStyle}: alter role ${role} set datestyle = 'ISO, MDY'`;
  return null;
}

/**
 * Runs something, and explains its error by the surroundings where they may be the cause: only then are they read.
 *
 * @throws InvalidConfiguration in place of an error that they explain.
 */
export async function explained<Result>(driver: Sender, body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (!EXPLAINABLE.has(codeOf(error) ?? '')) throw error;
    throw (await refusalBy(driver)) ?? error;
  }
}

/**
 * An unknown table, column, function, type or schema; syntax that an old version does not know; and characters that the
 * database's encoding does not have.
 */
const EXPLAINABLE: ReadonlySet<string> = new Set([
  '42P01',
  '42703',
  '42883',
  '42704',
  '3F000',
  '42601',
  '22P05',
  '22021',
]);

async function refusalBy(driver: Sender): Promise<InvalidConfiguration | null> {
  try {
    const { rows } = await driver.send(READ);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the columns of the statement
    return refusalOf(rows[0] as Surroundings);
  } catch {
    return null;
  }
}
