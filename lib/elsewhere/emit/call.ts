import type { OutboxEvent } from '../../bus/outbox/record.ts';
import { callErrorOf } from '../../bus/outbox/refusal.ts';
import { MAYBE_FIRST_WRITE } from '../../platform/db/callers-transaction.ts';
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
    throw callErrorOf(event.topic, error);
  }
}

// With every schema, whatever the caller's search path is. The clock alone has none: in `postbud/testing` it is the test's.
const CALL = `
  with first_write as materialized (select ${MAYBE_FIRST_WRITE})
  select public.postbud_emit($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb,
    ordering_key => $3::pg_catalog.text, dedupe_key => $4::pg_catalog.text, correlation_id => $5::pg_catalog.text,
    causation_id => $6::pg_catalog.text, traceparent => $7::pg_catalog.text, version => $8::pg_catalog.text::int,
    at => coalesce($9::pg_catalog.timestamptz, clock_timestamp() operator(pg_catalog.+)
      ($10::pg_catalog.float8 operator(pg_catalog.*) interval '1 millisecond')),
    timer_key => $11::pg_catalog.text)::pg_catalog.text as id from first_write`;
