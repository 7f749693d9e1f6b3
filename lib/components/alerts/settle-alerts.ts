import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import type { Claimed } from './claim-alerts.ts';

/** After the tenth attempt, some four hours after the first, an alert is given up. */
const MOST_ATTEMPTS = 10;

/**
 * Records whether the claimed alerts were sent. Those that were not are due again after 1, 2, 4 … minutes, an hour at
 * most.
 *
 * @param failure why the message was not sent; null: it was.
 * @param now overrides the database's clock in tests.
 */
export async function settleAlerts(
  db: Database,
  { channel, claimedAt }: Claimed,
  failure: string | null,
  now?: Date,
): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: SETTLE, values: [channel, claimedAt, failure, now?.toISOString() ?? null] });
  });
}

const SETTLE = `
  with clock as materialized (
    select coalesce($4::text::timestamptz, clock_timestamp()) as now
  )
  update alerts set sent_at = case when $3::text is null then clock.now end, last_error = $3::text,
    due_at = case when $3::text is not null and attempts < ${MOST_ATTEMPTS}
      then clock.now + least(interval '1 hour', power(2, attempts - 1) * interval '1 minute') end
  from clock where channel = $1::text and attempted_at = $2::text::timestamptz and due_at is not null`;
