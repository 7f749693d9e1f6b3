import process from 'node:process';

import { sql } from 'drizzle-orm';

import { connect } from '../lib/db/connect.ts';
import type { Database } from '../lib/db/connect.ts';
import { EXIT, Failure, misused } from './failure.ts';
import { causeWords, reasonOf } from './refusals.ts';

/**
 * Opens the Postgres database of the environment, and closes it in the end.
 *
 * @param variables the first of them that is set names it.
 * @throws Failure where none names one, where it can't be reached, or where it refuses a statement. None of them shows
 *   the password, or a statement with its values.
 */
export async function withDatabase<Result>(
  variables: readonly string[],
  use: (db: Database) => Promise<Result>,
): Promise<Result> {
  const url = databaseUrl(variables);
  const { db, close } = await connect(url.href);
  try {
    await db.execute(sql`select 1`).catch((error: unknown) => {
      throw unusable(error, url);
    });
    return await use(db);
  } catch (error) {
    throw error instanceof Failure ? error : refused(error, url);
  } finally {
    await close();
  }
}

function databaseUrl(variables: readonly string[]): URL {
  // An empty variable is an unset one, as everywhere.
  const variable = variables.find((name) => process.env[name]?.trim()) ?? variables.at(-1)!;
  const written = process.env[variable]?.trim();
  if (!written) throw misused(`${variable}: write the URL of the database, postgres://…`);
  if (/^postgres(ql)?:\/\//.test(written) && URL.canParse(written)) return new URL(written);
  throw misused(
    `${variable}: write a URL that begins with postgres://, with signs like # in a password percent-encoded`,
  );
}

const MIGRATE = 'npm run migrate makes them, or brings them up to date.';

/** What Postgres refuses, by its code: in our words, or with what to do beside its own. */
const REFUSALS: Readonly<Record<string, readonly [words: string | null, advice: string]>> = {
  '28P01': ['the password is wrong', 'Write the right one into the URL, with signs like # percent-encoded.'],
  '28000': [null, 'Write another user into the URL: postgres://<user>:<password>@<host>/<database>'],
  '3D000': [null, 'Write another one into the URL: postgres://<user>:<password>@<host>/<database>'],
  '42501': [null, 'Write a user into the URL who owns the tables.'],
  '42P01': ['the tables of the bus are not all there', MIGRATE],
  '42703': ['the tables of the bus are not of this version', MIGRATE],
  '3F000': ['the tables of the bus are not there', MIGRATE],
};

/** One digit at least: EPIPE is none. @see https://www.postgresql.org/docs/current/errcodes-appendix.html */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** A connection that was lost: by its code, or by the driver's words, which has none for it. */
const LOST = /^E[A-Z]+$|^Connection terminated/;

/** Says why a database can't be used at all. */
export function unusable(error: unknown, { host }: URL): Failure {
  const cause = rootOf(error);
  const reason = reasonOf(cause);
  const [words, advice] = REFUSALS[reason] ?? [null, 'Is it running, and is the URL right?'];
  const why = words ?? (SQLSTATE.test(reason) ? cause.message : causeWords(reason));
  return new Failure(
    EXIT.unreachable,
    `The database at ${host || 'localhost'} can’t be used: ${why}.`,
    advice,
    { cause: error },
  );
}

/** @returns what is no refusal of the database, and so a fault of ours, as it is. */
function refused(error: unknown, url: URL): unknown {
  const cause = rootOf(error);
  const reason = reasonOf(cause);
  if (LOST.test(reason)) return unusable(error, url);
  if (!SQLSTATE.test(reason)) return error;
  const [words, advice] = REFUSALS[reason] ?? [null, null];
  // Not the 1 of a doctor who has found something.
  const message = `The database refused: ${words ?? cause.message}.`;
  return new Failure(EXIT.unreachable, message, advice, { cause: error });
}

/** The driver's own error: Drizzle puts the statement and its values into the message of the one around it. */
function rootOf(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}
