import type { OutboxEvent } from '../../bus/outbox/record.ts';
import { refusalOf } from '../../bus/outbox/refusal.ts';
import { noteDue } from '../../platform/db/commits.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';

/**
 * Stores an event by `postbud_emit`, which needs no right on any table. The package has it in place of the `store` of
 * `lib/bus/outbox/insert.ts`.
 *
 * The database's catalog decides whom the event is for, and the database makes its id. The statement has no name: where
 * a pooler loses named statements, the caller's transaction could not go on.
 *
 * @returns the event's id; with a dedupe key that was used before, the first one's.
 * @throws NotYourTopic; UnknownTopic or InvalidPayload where the database's catalog differs from this one. The
 *   transaction is aborted then.
 */
export async function store(tx: Executor, event: OutboxEvent): Promise<string> {
  const { correlationId } = event;
  const values = [
    event.topic,
    event.payload,
    event.orderingKey,
    event.dedupeKey,
    // An event without a cause starts a correlation of its own, under the id that the database gives it.
    correlationId === event.id ? null : correlationId,
    event.causationId,
    event.traceparent,
    event.version,
    event.timer?.at,
    event.timer?.afterMs,
    event.timer?.key,
  ].map((value) => value ?? null);
  try {
    const [row] = await run<{ id: string }>(tx, { text: CALL, values });
    noteDue(tx);
    return row!.id;
  } catch (error) {
    throw refusalOf(event.topic, error) ?? error;
  }
}

const CALL = `
  select postbud_emit($1::text, $2::text::jsonb, ordering_key => $3::text, dedupe_key => $4::text,
    correlation_id => $5::text, causation_id => $6::text, traceparent => $7::text, version => $8::text::int,
    at => coalesce($9::text::timestamptz, clock_timestamp() + $10::text::float8 * interval '1 millisecond'),
    timer_key => $11::text)::text as id`;
