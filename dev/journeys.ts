import { z } from 'zod';

import { drawList } from '../cli/draw.ts';
import type { Pane } from '../cli/terminal.ts';
import { statePhrase } from '../lib/console/kit/document.ts';
import { until } from '../lib/console/kit/words.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { instantOf } from '../lib/platform/time.ts';

/** One event's delivery to one subscriber. */
export const journey = z.object({
  eventId: z.string(),
  topic: z.string(),
  createdAtMs: z.number(),
  causationId: z.string().nullable(),
  /** Null while the event awaits its place. */
  subscriber: z.string().nullable(),
  state: z.enum(['pending', 'failing', 'dead_lettered', 'delivered']),
  attempts: z.number(),
  /** From the record of the event to the end of the handler. */
  deliveredAfterMs: z.number().nullable(),
  nextAttemptAtMs: z.number().nullable(),
  lastError: z.string().nullable(),
  /** An earlier delivery of the lane waits for its retry, and this one behind it. */
  isHeldBack: z.boolean(),
  /** Nobody takes it, so it waits. */
  isUnattached: z.boolean(),
});
export type Journey = z.output<typeof journey>;

/** Reads the journeys of all events after `sinceSeq`, oldest event first. */
export async function journeysSince(
  db: Database,
  sinceSeq: number,
): Promise<Omit<Journey, 'isUnattached'>[]> {
  return await run(driverOf(db), {
    text: `
      select events.id::text as "eventId", events.topic, causation_id as "causationId", subscriber,
        (extract(epoch from events.created_at) * 1000)::float8 as "createdAtMs",
        coalesce(deliveries.state, 'pending')::text as state, coalesce(attempts, 0)::int as attempts,
        (extract(epoch from delivered_at - events.created_at) * 1000)::float8 as "deliveredAfterMs",
        (extract(epoch from next_attempt_at) * 1000)::float8 as "nextAttemptAtMs",
        attempt_log -> -1 ->> 'message' as "lastError",
        coalesce(is_open and next_attempt_at is null, false) and exists (
          select from exceptions as earlier
          where earlier.lane = deliveries.lane and earlier.ordering_key = deliveries.ordering_key and earlier.is_open
            and earlier.position < deliveries.position
        ) as "isHeldBack"
      from events
      left join deliveries on deliveries.event_id = events.id
      where seq > $1::bigint
      order by events.created_at, seq, subscriber`,
    values: [sinceSeq],
  });
}

/** Reads the newest event's number; 0 without events. */
export async function newestSeq(db: Database): Promise<number> {
  const [row] = await run<{ seq: number }>(driverOf(db), {
    text: 'select coalesce(max(seq), 0)::float8 as seq from events',
    values: [],
  });
  return row!.seq;
}

/** Draws journeys as a table that fits 80 columns: a line for each delivery, with the event's topic on its first. */
export function journeyTable(journeys: readonly Journey[], pane: Pane, now: number): string {
  const isWide = pane.columns === null || pane.columns > 100;
  const eventIds = new Set(journeys.map(({ eventId }) => eventId));
  const firsts = new Set(journeys.filter(({ eventId }, place) => journeys[place - 1]?.eventId !== eventId));
  const isEffect = ({ causationId }: Journey) => causationId !== null && eventIds.has(causationId);
  return drawList<Journey>(pane, {
    name: 'Journeys',
    columns: [
      { label: 'topic', cell: (row) => firsts.has(row) && `${isEffect(row) ? '└ ' : ''}${row.topic}` },
      { label: 'subscriber', cell: ({ subscriber }) => subscriber },
      {
        label: 'ms',
        tone: 'num',
        cell: ({ deliveredAfterMs: ms }) => ms !== null && ms.toFixed(ms < 10 ? 1 : 0),
      },
      isWide && { label: 'attempts', tone: 'num', cell: ({ attempts }) => attempts },
      { label: 'state', cell: ({ state }) => statePhrase(state) },
      { label: 'why', cell: (row) => note(row, now) },
    ],
    rows: journeys,
  });
}

function note(
  { subscriber, state, isHeldBack, isUnattached, lastError, nextAttemptAtMs }: Journey,
  now: number,
): string {
  if (state === 'delivered') return '';
  if (subscriber === null) return 'awaits its place';
  if (isUnattached) return 'waits until somebody is attached';
  if (isHeldBack && lastError === null) return 'behind an earlier event of its lane';
  const retry =
    nextAttemptAtMs === null ? '' : `next retry ${until(instantOf(nextAttemptAtMs), instantOf(now))}`;
  return [lastError, retry].filter(Boolean).join('; ');
}
