import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import type { Tally } from './tally.ts';

/** Adds tallies, one of each subscriber, to the subscribers' totals. */
export async function addHealth(db: Database, tallies: readonly Tally[]): Promise<void> {
  await run(driverOf(db), {
    name: 'add_health',
    text: ADD_HEALTH,
    values: [JSON.stringify(tallies)],
    limitMs: TURN_LIMIT_MS,
  });
}

// Sorted by the primary key, so that processes that write the same rows at once add up and do not deadlock. No other
// statement locks more than one of these rows before it.
const ADD_HEALTH = `
  insert into subscriber_health as known (subscriber, topic, period, starts_at, delivered_in, delivered_ms, handled_in, handled_ms)
  select subscriber, '', 'total', 'epoch', "deliveredIn", "deliveredMs", "handledIn", "handledMs"
  from jsonb_to_recordset($1::text::jsonb) as tally(subscriber text, "deliveredIn" bigint[], "deliveredMs" float8,
    "handledIn" bigint[], "handledMs" float8)
  order by subscriber
  on conflict (subscriber, topic, period, starts_at) do update set
    delivered_in = postbud_add_1(known.delivered_in, excluded.delivered_in),
    delivered_ms = known.delivered_ms + excluded.delivered_ms,
    handled_in = postbud_add_1(known.handled_in, excluded.handled_in),
    handled_ms = known.handled_ms + excluded.handled_ms`;
