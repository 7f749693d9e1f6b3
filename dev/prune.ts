import { parseArgs } from 'node:util';

import { connect } from '../lib/db/connect.ts';
import { KEEP_MS, prune } from '../lib/retention/prune.ts';
import { DAY, HOUR } from '../lib/time.ts';

const USAGE = `npm run prune -- [--days ${KEEP_MS / DAY}]

Deletes delivered events of DATABASE_URL that are older, with their deliveries. Dead letters and receipts stay. The cron
does the same, a little at a time.`;

/** `npm run prune`. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      days: { type: 'string', default: String(KEEP_MS / DAY) },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const days = Number(values.days);
  if (!(days >= 1)) throw new Error('--days: write a number, 1 or more');
  if (!process.env['DATABASE_URL']) throw new Error('DATABASE_URL: write the URL of the database to prune');
  const { db, close } = await connect();
  try {
    const { events, deliveries } = await prune({ db, keepMs: days * DAY, until: Date.now() + 24 * HOUR });
    console.log(`Deleted ${events} events and ${deliveries} deliveries that are older than ${days} days.`);
  } finally {
    await close();
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
