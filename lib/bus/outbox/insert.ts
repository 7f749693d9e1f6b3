import { MAYBE_FIRST_WRITE } from '../../platform/db/callers-transaction.ts';
import { noteDue } from '../../platform/db/commits.ts';
import { isOurs, run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { eventValues, recordingStatement } from './record.ts';
import type { OutboxEvent } from './record.ts';

/**
 * Stores an event with the rights that the bus has on its tables. In the package for components in other repositories, which
 * have none, `lib/elsewhere/emit/call.ts` stands in its place.
 *
 * @returns the event's id; with a dedupe key that was used before, the first one's.
 */
export async function store(tx: Executor, event: OutboxEvent): Promise<string> {
  if (event.timer) return await setTimer(tx, event, event.timer);
  const [row] = await run<{ id: string; backend: number }>(
    tx,
    (isOurs(tx) ? insertEvent : insertByOthers)(event),
  );
  if (row) {
    noteDue(tx, { backend: row.backend, topic: event.topic });
    return row.id;
  }
  // Read without a lock: an open producer must not keep the relay from settling that event.
  const [earlier] = await run<{ id: string }>(tx, {
    text: 'select id::text from events where topic = $1::text and dedupe_key = $2::text',
    values: [event.topic, event.dedupeKey],
  });
  return earlier!.id;
}

const EMIT = { name: 'postbud_emit', select: 'select id::text, pg_backend_pid() as backend from event' };

/** In our own transactions, which are known to be some. */
const insertEvent = recordingStatement(EMIT);

const insertByOthers = recordingStatement({ ...EMIT, lock: `, ${MAYBE_FIRST_WRITE}` });

async function setTimer(
  tx: Executor,
  event: OutboxEvent,
  timer: NonNullable<OutboxEvent['timer']>,
): Promise<string> {
  const [row] = await run<{ id: string }>(tx, {
    name: 'postbud_set_timer',
    text: SET_TIMER,
    values: [...eventValues(event), timer.key, timer.at, timer.afterMs],
  });
  noteDue(tx);
  return row!.id;
}

const SET_TIMER = `
  with first_write as materialized (select ${MAYBE_FIRST_WRITE})
  select postbud_set_timer_1($1::uuid, $2::text, $11::text,
    coalesce($12::text::timestamptz, clock_timestamp() + $13::float8 * interval '1 millisecond'), $3::text::jsonb,
    $4::smallint, $5::text, $6::text, $7::text, $8::text, $9::text, $10::text)::text as id from first_write`;
