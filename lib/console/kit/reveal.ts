import { and, eq, gt, or, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { operatorActions } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, MINUTE } from '../../platform/time.ts';
import type { Operator } from './operator.ts';
import * as shape from './shapes.ts';

/** An operator who reloads the page has not asked again, and should not have to. */
const REVEALED_MS = 5 * MINUTE;

export const reveal = z.object({ revealId: z.uuid(), until: shape.instant }).meta({
  id: 'Reveal',
  description: 'The reveal’s entry in the operator log, and until when its page shows the personal data.',
});

export type Reveal = z.output<typeof reveal>;

/** @param at when it was logged, as epoch milliseconds. */
function revealOf(revealId: string, at: number): Reveal {
  return { revealId, until: instantOf(at + REVEALED_MS) };
}

/** The query of a page that a reveal leads to. A reload of it asks for no other reveal. */
export const revealQuery = z.object({
  revealed: z.uuid().optional().catch(undefined).meta({
    description: 'A reveal that the same operator made here at most five minutes ago: shows its data again.',
  }),
});

/**
 * Finds the reveal that a page shows again.
 *
 * @param of the delivery's or the event's id.
 * @returns null unless this operator made it, of this very thing, less than five minutes ago, and still has the scope.
 */
export async function findReveal(
  db: Database,
  { subject, scopes }: Operator,
  { revealed }: z.output<typeof revealQuery>,
  of: string,
): Promise<Reveal | null> {
  if (revealed === undefined || !scopes.has('event-bus:reveal')) return null;
  const { id, at, operator, action, deliveryId, eventId } = operatorActions;
  const isIts = or(eq(deliveryId, of), eq(sql`${eventId}::text`, of));
  const isRecent = gt(at, sql`clock_timestamp() - ${REVEALED_MS}::float8 * interval '1 millisecond'`);
  const [made] = await db
    .select({ at })
    .from(operatorActions)
    .where(and(eq(id, revealed), eq(action, 'reveal'), eq(operator, subject), isIts, isRecent));
  return made ? revealOf(revealed, made.at.getTime()) : null;
}

/** Whose personal data is shown, to whom, and why. */
interface Revealed {
  readonly eventId: string;
  /** Of one delivery; null: on the page of the event. */
  readonly subscriber: string | null;
  readonly by: string;
  readonly reason: string;
}

/**
 * Records that an operator sees the personal data of an event or of a delivery, and why.
 *
 * @returns null, and records nothing, for an unknown one.
 */
export async function recordReveal(
  db: Database,
  { eventId, subscriber, by, reason }: Revealed,
): Promise<Reveal | null> {
  const revealId = uuidv7();
  const [recorded] = await run<{ at: number }>(driverOf(db), {
    text: RECORD,
    values: [eventId, revealId, by, reason, subscriber],
  });
  return recorded ? revealOf(revealId, recorded.at) : null;
}

const RECORD = `
  insert into operator_actions (id, at, operator, action, topic, event_id, subscriber, delivery_id, reason)
  select $2::uuid, clock_timestamp(), $3::text, 'reveal', topic, case when $5::text is null then id end, $5::text,
    id || '.' || $5::text, $4::text
  from events where id = $1::uuid
    and ($5::text is null or exists (select from deliveries where event_id = $1::uuid and subscriber = $5::text))
  returning (extract(epoch from at) * 1000)::float8 as at`;
