import process from 'node:process';

import { InvalidConfiguration } from '../lib/platform/config.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf } from '../lib/platform/db/statement.ts';
import { requireFit } from '../lib/platform/db/surroundings.ts';
import { EXIT, Failure, misused } from '../cli/arguments.ts';
import { causeWords, reasonOf } from '../cli/refusals.ts';

/**
 * Opens the Postgres database that the environment names, and closes it at the end.
 *
 * @param variables may hold its URL; the first one that is set counts.
 * @throws Failure where none is set, or the database can't be reached, can't keep the promises or refuses a statement. Its text never shows the
 *   password, nor a statement with its values.
 */
export async function withDatabase<Result>(
  variables: readonly string[],
  use: (db: Database) => Promise<Result>,
): Promise<Result> {
  const url = databaseUrl(variables);
  const { db, close } = await connect(url.href);
  try {
    await requireFit(driverOf(db)).catch((error: unknown) => {
      throw unusable(error, url);
    });
    return await use(db);
  } catch (error) {
    throw error instanceof Failure ? error : failureOf(error, url);
  } finally {
    await close();
  }
}

function databaseUrl(variables: readonly string[]): URL {
  // An empty variable counts as unset, as everywhere.
  const variable = variables.find((name) => process.env[name]?.trim()) ?? variables.at(-1)!;
  const written = process.env[variable]?.trim();
  if (!written) throw misused(`${variable} is not set.`, EXAMPLE);
  if (/^postgres(ql)?:\/\//.test(written) && URL.canParse(written)) return new URL(written);
  // The value may contain a password: it is not shown.
  throw misused(
    `${variable} is not a valid URL that begins with postgres://`,
    `${EXAMPLE} Percent-encode special characters such as # in the password.`,
  );
}

const EXAMPLE = 'Write the database’s URL, such as postgres://user:password@host/database.';

const MIGRATE = 'npm run migrate creates or updates them.';

/** Explains refusals of Postgres by their codes; null keeps its own message. */
const REFUSALS: Readonly<Record<string, readonly [words: string | null, advice: string]>> = {
  '28P01': ['the password is wrong', 'Correct it in the URL. Percent-encode special characters such as #.'],
  '28000': [null, 'Correct the user in the URL: postgres://<user>:<password>@<host>/<database>'],
  '3D000': [null, 'Correct the database in the URL: postgres://<user>:<password>@<host>/<database>'],
  '42501': [null, 'Use a user who owns the tables.'],
  '42P01': ['a table of the bus is missing', MIGRATE],
  '42703': ['the tables of the bus are of another version', MIGRATE],
  '3F000': ['the tables of the bus are missing', MIGRATE],
};

/** At least one digit tells it from EPIPE. @see https://www.postgresql.org/docs/current/errcodes-appendix.html */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** A lost connection, for which the driver has a message but no code. */
const LOST = /^E[A-Z]+$|^Connection terminated/;

/** Makes a failure of an error that makes the database unusable. */
export function unusable(error: unknown, { host }: URL): Failure {
  if (error instanceof InvalidConfiguration)
    return new Failure(EXIT.unreachable, error.message, null, { cause: error });
  const cause = rootOf(error);
  const reason = reasonOf(cause);
  const [words, advice] = REFUSALS[reason] ?? [null, 'Is it running, and is the URL correct?'];
  const why = words ?? (SQLSTATE.test(reason) ? cause.message : causeWords(reason));
  return new Failure(
    EXIT.unreachable,
    `The database at ${host || 'localhost'} can’t be used: ${why}.`,
    advice,
    { cause: error },
  );
}

/** @returns any other error, a fault of ours, as it is. */
function failureOf(error: unknown, url: URL): unknown {
  if (error instanceof InvalidConfiguration) return unusable(error, url);
  const cause = rootOf(error);
  const reason = reasonOf(cause);
  if (LOST.test(reason)) return unusable(error, url);
  if (!SQLSTATE.test(reason)) return error;
  const [words, advice] = REFUSALS[reason] ?? [null, null];
  // Not 1, which says that the doctor found a broken promise.
  const message = `The database refused: ${words ?? cause.message}.`;
  return new Failure(EXIT.unreachable, message, advice, { cause: error });
}

/** Finds the driver's own error: Drizzle wraps it in one that shows the statement and its values. */
function rootOf(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}
