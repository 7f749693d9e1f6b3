import { and, eq } from 'drizzle-orm';

import { awaitingFanOut, deliveries, setAside } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import type { Following } from '../kit/following.ts';

/** Says what became of what an operator repaired: of a row, not of an event. */
export async function followRepair(db: Database, { id }: { readonly id: string }): Promise<Following | null> {
  if (!/^\d+$/.test(id)) return null;
  const { topic, eventId, repairedAt } = setAside;
  const isIts = and(eq(awaitingFanOut.topic, topic), eq(awaitingFanOut.eventId, eventId));
  const [found] = await db
    .select({
      now,
      repairedAt,
      waiting: db.$count(awaitingFanOut, isIts),
      fannedOut: db.$count(deliveries, eq(deliveries.eventId, eventId)),
    })
    .from(setAside)
    .where(eq(setAside.id, Number(id)));
  if (!found?.repairedAt) return null;
  const isWaiting = found.waiting > 0;
  const rest = isWaiting
    ? 'Its event waits for fan-out.'
    : found.fannedOut > 0
      ? 'Its event is fanned out.'
      : 'It stays on record, and nothing is delivered.';
  return {
    tone: isWaiting ? 'wait' : 'ok',
    words: html`<b>Repaired ${id}.</b> ${rest}`,
    isSettled: !isWaiting,
    since: instantOf(found.repairedAt),
    now: instantOf(found.now),
  };
}
