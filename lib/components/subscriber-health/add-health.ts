import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { addTally, emptyTally } from './tally.ts';
import type { Tally } from './tally.ts';

/** Adds tallies to the hours of their subscriptions, to those of their subscribers, and to the subscribers' totals. */
export async function addHealth(db: Database, tallies: readonly Tally[]): Promise<void> {
  const hours = sumBy(tallies, ({ startsAtMs }) => startsAtMs);
  const totals = sumBy(hours, () => 0);
  const rows = [
    ...[...tallies, ...hours].map((tally) => ({ ...tally, period: 'hour' })),
    ...totals.map((tally) => ({ ...tally, period: 'total' })),
  ];
  await run(driverOf(db), {
    name: 'add_health',
    text: ADD_HEALTH,
    values: [JSON.stringify(rows)],
    limitMs: TURN_LIMIT_MS,
  });
}

/** Adds up the tallies of each subscriber that start at the same instant. */
function sumBy(tallies: readonly Tally[], startOf: (tally: Tally) => number): Tally[] {
  const sums = new Map<string, Tally>();
  for (const tally of tallies) {
    const start = startOf(tally);
    const key = `${tally.subscriber} ${start}`;
    const sum = sums.get(key) ?? emptyTally(tally.subscriber, '', start);
    sums.set(key, sum);
    addTally(sum, tally);
  }
  return [...sums.values()];
}

// Sorted by the primary key, so that processes that write the same rows at once add up and do not deadlock. No other
// statement locks more than one of these rows before it.
const ADD_HEALTH = `
  insert into subscriber_health as known (subscriber, topic, period, starts_at, delivered, failed, dead_lettered,
    replays_delivered, replays_dead_lettered, delivered_in, delivered_ms, handled_in, handled_ms)
  select subscriber, topic, period, to_timestamp("startsAtMs" / 1000), delivered, failed, "deadLettered", "replaysDelivered", "replaysDeadLettered",
    "deliveredIn", "deliveredMs", "handledIn", "handledMs"
  from jsonb_to_recordset($1::text::jsonb) as tally(subscriber text, topic text, period text, "startsAtMs" float8,
    delivered bigint, failed bigint, "deadLettered" bigint, "replaysDelivered" bigint, "replaysDeadLettered" bigint,
    "deliveredIn" bigint[], "deliveredMs" float8, "handledIn" bigint[], "handledMs" float8)
  order by subscriber, topic, period, "startsAtMs"
  on conflict (subscriber, topic, period, starts_at) do update set
    delivered = known.delivered + excluded.delivered,
    failed = known.failed + excluded.failed,
    dead_lettered = known.dead_lettered + excluded.dead_lettered,
    replays_delivered = known.replays_delivered + excluded.replays_delivered,
    replays_dead_lettered = known.replays_dead_lettered + excluded.replays_dead_lettered,
    delivered_in = postbud_add_1(known.delivered_in, excluded.delivered_in),
    delivered_ms = known.delivered_ms + excluded.delivered_ms,
    handled_in = postbud_add_1(known.handled_in, excluded.handled_in),
    handled_ms = known.handled_ms + excluded.handled_ms`;
