import { withDatabase } from './database.ts';
import { EXIT, Failure } from '../cli/arguments.ts';
import { runProgram } from './program.ts';
import { migrate } from '../lib/bus/migrations/migrate.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { sleep, SECOND } from '../lib/platform/time.ts';

const USAGE = `npm run migrate

Creates or updates the tables in the database of DATABASE_URL_UNPOOLED, or else of DATABASE_URL. Run it before you
deploy the functions that need them. Running functions keep working.`;

const VARIABLES = ['DATABASE_URL_UNPOOLED', 'DATABASE_URL'];

/** A second apart: a table in use is usually free again soon. */
const TRIES = 10;

/** `npm run migrate`. */
await runProgram({
  usage: USAGE,
  options: {},
  async run(_, { out }) {
    await withDatabase(VARIABLES, (db) => migratePatiently(db, out.write));
    out.write('The tables are up to date.');
    return EXIT.ok;
  },
});

async function migratePatiently(db: Database, tell: (line: string) => void): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await migrate(db);
      return;
    } catch (error) {
      if (!isTableInUse(error)) throw error;
      if (attempt === TRIES) {
        const message = `A table has been in use for ${TRIES} seconds. Nothing was changed.`;
        throw new Failure(EXIT.failed, message, 'End the transaction that uses it, and try again.', {
          cause: error,
        });
      }
      tell('A table is in use. Retrying …');
      await sleep(SECOND);
    }
  }
}

function isTableInUse(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === '55P03') || isTableInUse(error.cause);
}
