import { and, desc, eq } from 'drizzle-orm';

import { operatorActions } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import type { Following } from '../kit/following.ts';
import { shortId } from '../kit/words.ts';

/** Says that a timer is cancelled. */
export async function followCancellation(
  db: Database,
  { eventId }: { readonly eventId: string },
): Promise<Following | null> {
  const { action, at, eventId: of, topic } = operatorActions;
  const [found] = await db
    .select({ now, at, topic })
    .from(operatorActions)
    .where(and(eq(action, 'cancel_timer'), eq(of, eventId)))
    .orderBy(desc(at))
    .limit(1);
  if (!found) return null;
  return {
    tone: 'ok',
    words: html`<b>Cancelled ${shortId(eventId)}.</b> This ${found.topic} will not happen.`,
    isSettled: true,
    since: instantOf(found.at),
    now: instantOf(found.now),
  };
}
