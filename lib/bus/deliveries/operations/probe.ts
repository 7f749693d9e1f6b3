import { eq } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { outages } from '../../../../drizzle/schema.ts';
import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { clock, logged } from '../parts.ts';
import type { Asked } from './first-of-lane.ts';

/** What an operator asks for, of a subscriber. */
interface AskedOf extends Omit<Asked, 'deliveryId'> {
  readonly subscriber: string;
}

/**
 * Makes the next probe of a subscriber that does not answer due now, and records the operator. One delivery probes: the
 * one that is due longest, or, where all wait for a retry, the first of them.
 *
 * @returns false for a subscriber without an outage: nothing changes, and nothing is recorded.
 */
export async function probe(
  db: Database,
  { subscriber, by, reason = null, incidentId = null, now }: AskedOf,
): Promise<boolean> {
  const at = now?.toISOString() ?? null;
  return await db.transaction(async (tx) => {
    const isSilent = await makeDue(tx, subscriber, at, [by, reason, uuidv7(), incidentId]);
    if (isSilent) noteDue(tx);
    return isSilent;
  });
}

/**
 * Makes the next probe of a subscriber due because it says that it is back: now, or ten seconds after the last one began,
 * so that one which says so all the time is not probed all the time. Calling it again changes nothing, and without an
 * outage nothing is written. It is no operator's action, and is not recorded.
 *
 * @returns whether the subscriber is in an outage.
 */
export async function probeReturned(db: Database, subscriber: string): Promise<boolean> {
  if ((await db.$count(outages, eq(outages.subscriber, subscriber))) === 0) return false;
  return await db.transaction(async (tx) => await makeDue(tx, subscriber, null, [null, null, null, null]));
}

/** @param operator who asked for it, why, the record's id and the incident; null each where the subscriber did. */
async function makeDue(
  tx: Transaction,
  subscriber: string,
  at: string | null,
  operator: readonly (string | null)[],
): Promise<boolean> {
  const [lane] = await run<{ id: number }>(tx, { text: LANE, values: [subscriber, at] });
  if (lane) await run(tx, { text: 'select postbud_lock_lanes_2(array[$1::int])', values: [lane.id] });
  const values = [subscriber, at, lane?.id ?? null, ...operator];
  return (await run(tx, { text: PROBE, values })).length > 0;
}

// The free lane whose retry comes first, where nothing is due.
const LANE = `
  with ${clock('$2')},
  lane as materialized (
    select id, slot, head, tail from lane_heads
    where subscriber = $1::text and leased_until is null and not exists (
      select from pauses where pauses.subscriber = $1::text and pauses.topic in ('', lane_heads.topic)
    )
  ),
  first as materialized (
    select id, due_at from lane, lateral (
      select due_at from exceptions where exceptions.lane = lane.id and due_at is not null order by due_at limit 1
    ) as next
    order by due_at limit 1
  )
  select first.id from clock, first
  where first.due_at > clock.now and exists (select from outages where subscriber = $1::text)
    and not exists (
      select from lane where tail > head
        and (slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open))
    )`;

const PROBE = `
  with ${clock('$2')},
  first as materialized (
    select lane, position from clock, exceptions where lane = $3::int and due_at > clock.now order by due_at limit 1
  ),
  retried as (
    update exceptions set next_attempt_at = clock.now, due_at = clock.now,
      attempt_log = case when $4::text is null then attempt_log
        else ${logged('retried_early', { by: '$4::text', reason: '$5::text' })} end
    from clock, first where exceptions.lane = first.lane and exceptions.position = first.position
  ),
  probing as (
    update outages set next_probe_at = least(next_probe_at,
      case when $4::text is null then greatest(clock.now, probed_at + interval '10 seconds') else clock.now end)
    from clock where subscriber = $1::text
    returning subscriber
  ),
  recorded as (
    insert into operator_actions (id, at, operator, action, topic, subscriber, reason, incident_id)
    select $6::uuid, clock.now, $4::text, 'probe', null, subscriber, $5::text, $7::uuid from clock, probing where $4::text is not null
  )
  select subscriber from probing`;
