import { v7 as uuidv7 } from 'uuid';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../../bus/catalog/catalog.ts';
import { dueMsOf } from '../../bus/outbox/due.ts';
import { InvalidPayload, UnknownTopic } from '../../bus/outbox/errors.ts';
import { assertStorable, outboxEvent } from '../../bus/outbox/record.ts';
import type { EmitOptions } from '../../bus/outbox/record.ts';
import { inTransactionOf, MAYBE_FIRST_WRITE } from '../../platform/db/callers-transaction.ts';
import type { Transaction } from '../../platform/db/callers-transaction.ts';
import { run } from '../../platform/db/statement.ts';
import { instantOf } from '../../platform/time.ts';
import { MOST_BYTES } from './post.ts';
import { RECORDING } from './table.ts';

export type RecordOptions = EmitOptions;

/**
 * Records an event in the service's own outbox, in its transaction and in one statement. After a rollback nothing is left;
 * after the commit nothing can lose it, and `forward` carries it to the bus.
 *
 * @param tx the transaction that also writes the business data: Drizzle's, or the bare client of `pg`, Neon or PGlite.
 * @param payload checked against the topic's schema; the schema's output is stored.
 * @param options as for `emit`.
 * @returns the event's id at its source: the `dedupeKey`, or else a UUIDv7. The bus gives it an id of its own.
 * @throws InvalidPayload or UnknownTopic before anything is sent to the database, so that the transaction can go on;
 *   NotInTransaction, and then nothing is stored.
 */
export async function record<Name extends TopicName>(
  tx: Transaction,
  topic: Name,
  payload: PayloadInput<Name>,
  options: RecordOptions = {},
): Promise<{ id: string }> {
  const event = outboxEvent(topic, payload, options);
  requireKeys(topic, options);
  const id = event.dedupeKey ?? event.id;
  const { correlationId, causationId, traceparent, timer } = event;
  const written = {
    specversion: '1.0',
    id,
    source: event.producer,
    type: topic,
    datacontenttype: 'application/json',
    schemaversion: event.version,
    ...(options.orderingKey !== undefined && { orderingkey: options.orderingKey }),
    // An event without a cause starts a correlation of its own, under the id that the bus gives it.
    ...(correlationId !== event.id && { correlationid: correlationId }),
    ...(causationId !== null && { causationid: causationId }),
    ...(traceparent !== null && { traceparent }),
    // A duration counts from now, and not from when it is forwarded.
    ...(timer !== null && { at: instantOf(dueMsOf(timer)) }),
    ...(timer !== null && timer.key !== null && { timerkey: timer.key }),
    data: JSON.parse(event.payload) as unknown,
  };
  const text = JSON.stringify(written);
  requireSize(topic, text);
  await store(tx, 'record', [topic, id, text]);
  return { id };
}

/**
 * Records that a timer is to be cancelled, in the service's transaction: the bus is told in its turn, after what was recorded
 * before. Whether it was in time only the bus knows.
 *
 * @throws UnknownTopic; InvalidPayload for a key that no timer can have; NotInTransaction.
 */
export async function cancelTimer(tx: Transaction, topic: TopicName, timerKey: string): Promise<void> {
  if (!isTopicName(topic)) throw new UnknownTopic(topic);
  assertStorable(topic, null, { timerKey });
  requireKeys(topic, { timerKey });
  const id = uuidv7();
  const source = catalog[topic].producer;
  const written = { specversion: '1.0', id, source, type: topic, at: 'never', timerkey: timerKey };
  await store(tx, 'cancelTimer', [topic, id, JSON.stringify(written)]);
}

async function store(tx: Transaction, call: string, values: readonly string[]): Promise<void> {
  await inTransactionOf(tx, call, async () => await run(tx, { text: RECORD, values }));
}

/** Refuses the empty keys that the bus refuses: nothing behind them in the outbox would be sent. */
function requireKeys(topic: TopicName, options: RecordOptions): void {
  const issues = Object.entries(options)
    .filter(([option, value]) => value === '' && option !== 'orderingKey')
    .map(([path]) => ({ path, message: 'expected 1 to 255 characters' }));
  if (issues.length > 0) throw new InvalidPayload(topic, issues);
}

/** Refuses an event that is larger than a request to the bus may be, in which it stands in an array. */
function requireSize(topic: TopicName, event: string): void {
  const bytes = Buffer.byteLength(event) + '[]'.length;
  if (bytes <= MOST_BYTES) return;
  throw new InvalidPayload(topic, [
    { path: '', message: `expected an event of at most 1 MiB, got ${bytes} bytes` },
  ]);
}

// What the bus is told is on the service's disk by then. The lock comes before the place, and after what its floor is read
// from. One is enough for a transaction, whose settings go with it: at its end, and where it is rolled back to a savepoint. A
// role that may not read the sequence takes 0.
const RECORD = `
  with first_write as materialized (select ${MAYBE_FIRST_WRITE}),
  recording as materialized (
    select set_config('postbud.recording', 'on', true),
      case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end,
      pg_advisory_xact_lock_shared(${RECORDING}, case
        when has_sequence_privilege(places, 'usage, select') then coalesce(pg_sequence_last_value(places) & 2147483647, 0)
        else 0
      end::int)
    from (select pg_get_serial_sequence('postbud_outbox', 'place')::regclass::oid) as outbox(places)
    where current_setting('postbud.recording', true) is distinct from 'on'
  )
  insert into postbud_outbox (topic, id, event)
  select $1::text, $2::text, $3::text::jsonb from first_write left join recording on true
  on conflict (topic, id) do nothing`;
