import { replay } from '../../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../../lib/bus/relay/relay.ts';
import type { Database } from '../../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../../lib/platform/db/statement.ts';
import { DAY, MINUTE } from '../../../lib/platform/time.ts';
import { attached } from './attached.ts';
import { timeOf } from './orders.ts';
import type { PlayClock } from './orders.ts';
import { RECORDS, AWAITING_PLACE } from '../../support/records.ts';

/** Each handler that still fails holds its lane for one of them. */
const LEAPS = 400;

/**
 * Delivers what is left, with a clock that leaps over all waits, and replays the dead letters, as an operator would.
 *
 * @throws Error when something stays undelivered.
 */
export async function finish(db: Database, port: number, clock: PlayClock): Promise<void> {
  const subscribers = attached(port);
  for (let leap = 1; leap <= LEAPS; leap += 1) {
    const now = () => timeOf(clock) + leap * DAY;
    await relay({ db, subscribers, until: Date.now() + MINUTE, now });
    const left = await leftOver(db);
    if (left.open + left.dead === 0) return;
    if (left.dead === 0) continue;
    const request = { topic: 'payment.captured', since: '520w' };
    for (const { name } of subscribers) {
      await replay(db, { ...request, subscriber: name }, 'the play', new Date(now()), subscribers);
    }
  }
  throw new Error(`undelivered: ${JSON.stringify(await leftOver(db))}`);
}

async function leftOver(db: Database): Promise<{ readonly open: number; readonly dead: number }> {
  const [left] = await run<{ open: number; dead: number }>(driverOf(db), {
    text: `
      select (select count(*)::int from ${AWAITING_PLACE}) + count(*) filter (where state in ('pending', 'failing'))::int as open,
        count(*) filter (where state = 'dead_lettered')::int as dead
      from ${RECORDS} where subscriber in ('ledger', 'accounting')`,
    values: [],
  });
  return left!;
}
