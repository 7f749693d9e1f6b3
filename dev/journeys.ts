import { styleText } from 'node:util';

import { z } from 'zod';

import type { Database } from '../lib/db/connect.ts';
import { driverOf, run } from '../lib/db/statement.ts';

/** One event on its way to one subscriber. */
export const journey = z.object({
  eventId: z.string(),
  topic: z.string(),
  createdAtMs: z.number(),
  causationId: z.string().nullable(),
  /** Null while the event waits for fan-out. */
  subscriber: z.string().nullable(),
  state: z.string(),
  attempts: z.number(),
  /** From the event's record, which its commit follows at once, to the end of the handler. */
  deliveredAfterMs: z.number().nullable(),
  nextAttemptAtMs: z.number().nullable(),
  lastError: z.string().nullable(),
  /** Whether an earlier delivery of the lane waits for its retry, and this one with it. */
  isHeldBack: z.boolean(),
});
export type Journey = z.output<typeof journey>;

/** The journeys of all events after `sinceSeq`, oldest event first. */
export async function journeysSince(db: Database, sinceSeq: number): Promise<Journey[]> {
  return await run<Journey>(driverOf(db), {
    text: `
      select events.id::text as "eventId", events.topic, causation_id as "causationId", subscriber,
        (extract(epoch from events.created_at) * 1000)::float8 as "createdAtMs",
        coalesce(deliveries.state, 'pending')::text as state, coalesce(attempts, 0)::int as attempts,
        (extract(epoch from delivered_at - events.created_at) * 1000)::float8 as "deliveredAfterMs",
        (extract(epoch from next_attempt_at) * 1000)::float8 as "nextAttemptAtMs",
        attempt_log -> -1 ->> 'message' as "lastError",
        coalesce(lease_token is null and due_at > clock_timestamp() and next_attempt_at is null, false) as "isHeldBack"
      from events
      left join deliveries on deliveries.event_id = events.id
      left join lanes on lanes.id = deliveries.lane_id
      where seq > $1::bigint
      order by events.created_at, seq, subscriber`,
    values: [sinceSeq],
  });
}

/** The newest event's number, 0 when there is none. */
export async function newestSeq(db: Database): Promise<number> {
  const [row] = await run<{ seq: number }>(driverOf(db), {
    text: 'select coalesce(max(seq), 0)::float8 as seq from events',
    values: [],
  });
  return row!.seq;
}

const MARKS: Readonly<Record<string, { mark: string; colour: Parameters<typeof styleText>[0] }>> = {
  delivered: { mark: '✓', colour: 'green' },
  pending: { mark: '·', colour: 'dim' },
  failing: { mark: '!', colour: 'yellow' },
  dead_lettered: { mark: '✗', colour: 'red' },
};

/** Writes journeys as a table for a terminal: a line per delivery, an event's topic on its first. */
export function journeyTable(journeys: readonly Journey[], colours: boolean, nowMs: number): string {
  const paint = (colour: Parameters<typeof styleText>[0], text: string) =>
    colours ? styleText(colour, text) : text;
  const isCausedBy = new Set(journeys.map(({ eventId }) => eventId));
  const rows = journeys.map((row, index) => {
    const isFirst = journeys[index - 1]?.eventId !== row.eventId;
    const indent = row.causationId && isCausedBy.has(row.causationId) ? '└ ' : '';
    return {
      topic: isFirst ? indent + row.topic : '',
      subscriber: row.subscriber ?? '(not fanned out yet)',
      state: `${MARKS[row.state]?.mark ?? '?'} ${row.state.replace('_', '-')}`,
      colour: MARKS[row.state]?.colour ?? 'dim',
      attempts: String(row.attempts),
      ms:
        row.deliveredAfterMs === null ? '' : row.deliveredAfterMs.toFixed(row.deliveredAfterMs < 10 ? 1 : 0),
      note: note(row, nowMs),
    };
  });
  const width = (name: 'topic' | 'subscriber' | 'state', title: string) =>
    Math.max(title.length, ...rows.map((row) => row[name].length));
  const [topic, subscriber, state] = [
    width('topic', 'topic'),
    width('subscriber', 'subscriber'),
    width('state', 'state'),
  ];
  const line = (
    cells: { topic: string; subscriber: string; state: string; attempts: string; ms: string; note: string },
    colour?: Parameters<typeof styleText>[0],
  ) =>
    [
      cells.topic.padEnd(topic),
      cells.subscriber.padEnd(subscriber),
      colour ? paint(colour, cells.state.padEnd(state)) : cells.state.padEnd(state),
      cells.attempts.padStart(8),
      cells.ms.padStart(6),
      paint('dim', cells.note),
    ]
      .join('  ')
      .trimEnd();
  const head = line({
    topic: 'topic',
    subscriber: 'subscriber',
    state: 'state',
    attempts: 'attempts',
    ms: 'ms',
    note: '',
  });
  return [paint('bold', head), ...rows.map((row) => line(row, row.colour))].join('\n');
}

function note(row: Journey, nowMs: number): string {
  if (row.state === 'delivered') return '';
  const waits =
    row.nextAttemptAtMs === null
      ? ''
      : `next try in ${Math.max(0, Math.round((row.nextAttemptAtMs - nowMs) / 1000))} s`;
  if (row.lastError) return [row.lastError, waits].filter(Boolean).join('; ');
  return row.isHeldBack ? 'behind an earlier event of its lane' : waits;
}
