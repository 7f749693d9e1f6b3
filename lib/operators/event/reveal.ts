import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';

/**
 * Records that an operator sees the personal data of an event, and why.
 *
 * @returns false, and records nothing, for an unknown event.
 */
export async function recordReveal(
  db: Database,
  eventId: string,
  by: string,
  reason: string,
): Promise<boolean> {
  const recorded = await run(driverOf(db), {
    text: `
      insert into operator_actions (id, at, operator, action, topic, event_id, reason)
      select $2::uuid, clock_timestamp(), $3::text, 'reveal', topic, id, $4::text from events where id = $1::uuid
      returning id`,
    values: [eventId, uuidv7(), by, reason],
  });
  return recorded.length > 0;
}
