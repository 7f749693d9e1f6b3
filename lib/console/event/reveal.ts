import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { revealOf } from '../dead-letters/reveal.ts';
import type { Reveal } from '../dead-letters/reveal.ts';

/**
 * Records that an operator sees the personal data of an event, and why.
 *
 * @returns null, and records nothing, for an unknown event.
 */
export async function recordReveal(
  db: Database,
  eventId: string,
  by: string,
  reason: string,
): Promise<Reveal | null> {
  const revealId = uuidv7();
  const [recorded] = await run<{ at: number }>(driverOf(db), {
    text: `
      insert into operator_actions (id, at, operator, action, topic, event_id, reason)
      select $2::uuid, clock_timestamp(), $3::text, 'reveal', topic, id, $4::text from events where id = $1::uuid
      returning (extract(epoch from at) * 1000)::float8 as at`,
    values: [eventId, revealId, by, reason],
  });
  return recorded ? revealOf(revealId, recorded.at) : null;
}
