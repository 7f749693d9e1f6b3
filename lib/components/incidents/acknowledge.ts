import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/**
 * Records that an operator has taken an incident up, with a note, on the incident and in the operator log. A later
 * acknowledgement replaces an earlier one.
 *
 * @returns `closed` for an incident that is over: nothing was recorded; null for an unknown one.
 */
export async function acknowledge(
  db: Database,
  incidentId: string,
  by: string,
  note: string,
): Promise<'acknowledged' | 'closed' | null> {
  const [row] = await run<{ is_acknowledged: boolean; is_known: boolean }>(driverOf(db), {
    text: ACKNOWLEDGE,
    values: [incidentId, by, note, uuidv7()],
  });
  if (row!.is_acknowledged) return 'acknowledged';
  return row!.is_known ? 'closed' : null;
}

const ACKNOWLEDGE = `
  with acknowledged as (
    update incidents set acknowledged_at = clock_timestamp(), acknowledged_by = $2::text, acknowledged_note = $3::text,
      revision = revision + 1, change = 'changed', changed_at = clock_timestamp()
    where id = $1::uuid and closed_at is null
    returning *
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, incident_id)
    select $4::uuid, acknowledged_at, acknowledged_by, 'acknowledge', topic, subscriber, acknowledged_note, id
    from acknowledged
  )
  select exists (select from acknowledged) as is_acknowledged,
    exists (select from incidents where id = $1::uuid) as is_known`;
