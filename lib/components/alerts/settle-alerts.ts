import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import type { AlertNotSent } from './channel.ts';
import type { Claimed } from './claim-alerts.ts';

/** After the tenth attempt, some four hours after the first, an alert is given up. */
const MOST_ATTEMPTS = 10;

/**
 * Records whether the claimed alerts were sent. Those that were not are due again after 1, 2, 4 … minutes, an hour at
 * most.
 *
 * @param failure why the message was not sent, or not of all its incidents; null: it was.
 * @param now overrides the database's clock in tests.
 */
export async function settleAlerts(
  db: Database,
  { channel, claimedAt }: Claimed,
  failure: Pick<AlertNotSent, 'message' | 'accepted'> | null,
  now?: Date,
): Promise<void> {
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    const { message = null, accepted = [] } = failure ?? {};
    await run(tx, {
      text: SETTLE,
      values: [channel, claimedAt, message, JSON.stringify(accepted), now?.toISOString() ?? null],
    });
  });
}

const SETTLE = `
  with clock as materialized (
    select coalesce($5::text::timestamptz, clock_timestamp()) as now
  ),
  settled as (
    select incident_id, revision, $3::text is null or $4::text::jsonb ? incident_id::text as is_sent
    from alerts where channel = $1::text and attempted_at = $2::text::timestamptz and due_at is not null
  )
  update alerts set sent_at = case when is_sent then clock.now end, last_error = case when not is_sent then $3::text end,
    due_at = case when not is_sent and attempts < ${MOST_ATTEMPTS}
      then clock.now + least(interval '1 hour', power(2, attempts - 1) * interval '1 minute') end
  from clock, settled
  where channel = $1::text and (alerts.incident_id, alerts.revision) = (settled.incident_id, settled.revision)`;
