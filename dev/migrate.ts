import process from 'node:process';

import { migrate } from '../lib/db/connect.ts';
import type { Database } from '../lib/db/connect.ts';
import { sleep, SECOND } from '../lib/time.ts';
import { withDatabase } from '../cli/database.ts';
import { EXIT, Failure, misused } from '../cli/failure.ts';
import { runProgram } from '../cli/program.ts';

const USAGE = `npm run migrate

Brings the tables of DATABASE_URL_UNPOOLED, or else of DATABASE_URL, up to date. To be run before the functions that
need them are deployed; those that run meanwhile go on.`;

const VARIABLES = ['DATABASE_URL_UNPOOLED', 'DATABASE_URL'];

/** A table in use is free again soon, unless somebody holds it for good. */
const TRIES = 10;

/** `npm run migrate`. */
await runProgram({
  usage: USAGE,
  options: {},
  async run(_, { out }) {
    requireUnpooled();
    await withDatabase(VARIABLES, (db) => migratePatiently(db, out.write));
    out.write('The tables are up to date.');
    return EXIT.ok;
  },
});

function requireUnpooled(): void {
  const url = VARIABLES.map((name) => process.env[name]?.trim()).find(Boolean) ?? '';
  if (!URL.canParse(url) || !new URL(url).hostname.includes('-pooler.')) return;
  throw misused(
    'DATABASE_URL_UNPOOLED: write the address without -pooler; one migration at a time needs a session',
  );
}

async function migratePatiently(db: Database, tell: (line: string) => void): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await migrate(db);
      return;
    } catch (error) {
      if (!isTableInUse(error)) throw error;
      if (attempt === TRIES) {
        const message = 'A table is in use all the time: nothing was changed.';
        throw new Failure(EXIT.failed, message, 'Find out by whom, and try again.', { cause: error });
      }
      tell('A table is in use. Trying again …');
      await sleep(SECOND);
    }
  }
}

function isTableInUse(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === '55P03') || isTableInUse(error.cause);
}
