import { parseArgs } from 'node:util';

import { connect, migrate } from '../lib/db/connect.ts';
import { sleep, SECOND } from '../lib/time.ts';

const USAGE = `npm run migrate

Brings the tables of DATABASE_URL_UNPOOLED, or else of DATABASE_URL, up to date. To be run before the functions that
need them are deployed; those that run meanwhile go on.`;

/** A table in use is free again soon, unless somebody holds it for good. */
const TRIES = 10;

/** `npm run migrate`. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { help: { type: 'boolean', default: false } } });
  if (values.help) return console.log(USAGE);
  const url = process.env['DATABASE_URL_UNPOOLED'] || process.env['DATABASE_URL'];
  if (!url) throw new Error('DATABASE_URL: write the URL of the database to migrate');
  if (new URL(url).hostname.includes('-pooler.')) {
    throw new Error(
      'DATABASE_URL_UNPOOLED: write the address without -pooler; one migration at a time needs a session',
    );
  }
  const { db, close } = await connect(url);
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await migrate(db);
        return console.log('The tables are up to date.');
      } catch (error) {
        if (!isTableInUse(error)) throw error;
        if (attempt === TRIES) {
          throw new Error(
            'a table is in use all the time: nothing was changed; find out by whom, and try again',
            {
              cause: error,
            },
          );
        }
        console.log('A table is in use. Trying again …');
        await sleep(SECOND);
      }
    }
  } finally {
    await close();
  }
}

function isTableInUse(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === '55P03') || isTableInUse(error.cause);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
