import { and, eq } from 'drizzle-orm';

import { awaiting, log, setAside, timers } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import type { Following } from '../kit/following.ts';

/** Says what became of what an operator repaired: of a row, not of an event. */
export async function followRepair(db: Database, { id }: { readonly id: string }): Promise<Following | null> {
  if (!/^\d+$/.test(id)) return null;
  const { topic, eventId, repairedAt } = setAside;
  const isIts = and(eq(awaiting.topic, topic), eq(awaiting.eventId, eventId));
  const [found] = await db
    .select({
      now,
      repairedAt,
      timerId: timers.id,
      refusedAt: timers.refusedAt,
      waiting: db.$count(awaiting, isIts),
      placed: db.$count(log, eq(log.eventId, eventId)),
    })
    .from(setAside)
    .leftJoin(timers, eq(timers.id, eventId))
    .where(eq(setAside.id, Number(id)));
  if (!found?.repairedAt) return null;
  const [tone, rest] = outcomeOf(found);
  return {
    tone,
    words: html`<b>Repaired ${id}.</b> ${rest}`,
    isSettled: tone !== 'wait',
    since: instantOf(found.repairedAt),
    now: instantOf(found.now),
  };
}

interface Found {
  /** Of a timer that is not released yet. */
  readonly timerId: string | null;
  readonly refusedAt: Date | null;
  /** Whether its event awaits its place. */
  readonly waiting: number;
  readonly placed: number;
}

function outcomeOf({ timerId, refusedAt, waiting, placed }: Found): readonly [Following['tone'], string] {
  if (refusedAt !== null) return ['fail', 'The catalog still refuses the timer: it is set aside again.'];
  if (timerId !== null) return ['wait', 'Its timer is released when the relay next looks.'];
  if (waiting > 0) return ['wait', 'Its event awaits its place.'];
  if (placed > 0) return ['ok', 'Its event has its place.'];
  return ['ok', 'It stays on record, and nothing is delivered.'];
}
