import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import type { Described, Keys } from './identifier.ts';

/** An event with its identifiers. */
export interface NumberedEvent extends Keys, Described {
  /** Numbers are drawn in about the order of creation, and some are nobody's. */
  readonly seq: number;
  readonly id: string;
}

/** Reads the events from one number on and below another, in the order of their numbers. */
export async function readEvents(tx: Transaction, from: number, to: number): Promise<NumberedEvent[]> {
  return await run<NumberedEvent>(tx, { text: EVENTS, values: [from, to] });
}

const EVENTS = `
  select seq::float8 as seq, id::text as id, correlation_id as "correlationId",
    causation_id as "causationId", ordering_key as "orderingKey", dedupe_key as "dedupeKey", topic,
    version, payload
  from events where seq >= $1::float8::bigint and seq < $2::float8::bigint
  order by seq`;
