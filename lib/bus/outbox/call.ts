import * as z from 'zod';

import { noteDue } from '../../platform/db/commits.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { InvalidPayload, NotYourTopic, UnknownTopic } from './errors.ts';
import type { OutboxEvent } from './record.ts';

/**
 * Stores an event by `postbud_emit`, which needs no right on any table. The package for components in other repositories
 * has it in place of `insert.ts`.
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

/** An error of `postbud_emit`, as the drivers have it. */
const refusal = z.object({
  code: z.enum(['PB001', 'PB002', 'PB004']),
  message: z.string(),
  detail: z.string().optional(),
  hint: z.string().optional(),
});

const issues = z.array(z.object({ path: z.string(), message: z.string() }));

/** Finds what `postbud_emit` said; Drizzle wraps a driver's error. @returns undefined for any other error. */
export function refusalOf(
  topic: string,
  error: unknown,
): UnknownTopic | InvalidPayload | NotYourTopic | undefined {
  const { success, data } = refusal.safeParse(error);
  if (!success) return error instanceof Error && error.cause ? refusalOf(topic, error.cause) : undefined;
  const said = data.hint === undefined ? data.message : `${data.message}: ${data.hint}`;
  switch (data.code) {
    case 'PB001':
      return new UnknownTopic(topic, said, { cause: error });
    case 'PB002':
      return new InvalidPayload(topic, issues.parse(JSON.parse(data.detail ?? '[]')), { cause: error });
    case 'PB004':
      return new NotYourTopic(topic, said, { cause: error });
  }
}
