import { withDatabase } from './database.ts';
import { EXIT } from '../cli/arguments.ts';
import { runProgram } from './program.ts';
import { KEEP_MS } from '../lib/bus/deliveries/prune.ts';
import { pruneAll } from '../lib/components/prune.ts';
import { quantity } from '../lib/console/kit/words.ts';
import { DAY, HOUR } from '../lib/platform/time.ts';

const USAGE = `npm run prune -- [--days ${KEEP_MS / DAY}]

Deletes events from the database of DATABASE_URL that are older than this and received by every subscriber, with their
deliveries. Dead letters and receipts stay. The cron does the same, a little at a time.`;

/** A hundred years. */
const MOST_DAYS = 36_500;

/** `npm run prune`. */
await runProgram({
  usage: USAGE,
  options: { days: { value: '<number>', help: 'how many days to keep events' } },
  async run(given, { out }) {
    const days = given.wholeNumber('days', 1, MOST_DAYS) ?? KEEP_MS / DAY;
    const { events, deliveries } = await withDatabase(['DATABASE_URL'], (db) =>
      pruneAll({ db, keepMs: days * DAY, until: Date.now() + 24 * HOUR }),
    );
    const deleted = `${quantity(events, 'event')} older than ${quantity(days, 'day')}`;
    out.write(`Deleted ${deleted}, with ${quantity(deliveries, 'delivery')}.`);
    return EXIT.ok;
  },
});
