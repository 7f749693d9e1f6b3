import type { Database } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { PRESENCE_LOCK } from '../locks.ts';

/**
 * Ends the outages of components elsewhere that no longer wait in one (`SUBSCRIBER_<NAME>_OUTAGE=off`), so that what waits
 * is due and nothing shows an outage that holds nothing back. `endOutages` does the rest, as after any other end.
 *
 * Components that this process does not send anything to are left alone: another deployment may wait for them.
 */
export async function leaveOutages(db: Database, attached: readonly AttachedSubscriber[]): Promise<void> {
  const elsewhere = attached.filter(({ place }) => place === 'elsewhere');
  const left = elsewhere.filter(({ outage }) => outage === 'off').map(({ name }) => name);
  if (left.length === 0) return;
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: 'select pg_advisory_xact_lock($1::int, 0)', values: [PRESENCE_LOCK] });
    await run(tx, { text: LEAVE, values: [left.join(' ')] });
  });
}

const LEAVE = `
  with forgotten as (
    delete from absences where subscriber = any (string_to_array($1::text, ' '))
  )
  update outages set recovered_at = clock_timestamp()
  where subscriber = any (string_to_array($1::text, ' ')) and recovered_at is null`;
