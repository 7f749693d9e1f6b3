import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { traceparent } from '../../platform/trace-context.ts';
import type { ProducedEvent, Taken } from './route.ts';

/** The longest wait for the same event in another transaction. */
const STATEMENT_LIMIT_MS = 4 * SECOND;

/**
 * Records events in their order, all or none, each once for its producer's id: that is its dedupe key in its topic.
 *
 * @returns what became of each, in the same order.
 * @throws the database's error, PB001 or PB002 for a payload of an earlier version that does not fit it.
 */
export async function recordAll(db: Database, events: readonly ProducedEvent[]): Promise<Taken['events']> {
  if (events.length === 0) return [];
  const parent = traceparent();
  const given = events.map(({ traceparent: own = parent, ...event }) => ({ ...event, traceparent: own }));
  return await db.transaction(async (tx) => {
    await limitStatements(tx, STATEMENT_LIMIT_MS);
    const recorded = await run<{ id: string }>(tx, { text: EMIT, values: [JSON.stringify(given)] });
    const ids = recorded.map(({ id }) => id);
    const unseen = new Set((await run<{ id: string }>(tx, { text: NEW, values: [ids] })).map(({ id }) => id));
    if (unseen.size > 0) noteDue(tx);
    return events.map(({ id }, index) => ({
      id,
      eventId: ids[index]!,
      // The second of two with one id is a duplicate too.
      duplicate: !unseen.delete(ids[index]!),
    }));
  });
}

const EMIT = `
  select postbud_emit(event ->> 'type', event -> 'data', ordering_key => event ->> 'orderingkey',
    dedupe_key => event ->> 'id', correlation_id => event ->> 'correlationid',
    causation_id => event ->> 'causationid', traceparent => event ->> 'traceparent',
    version => (event ->> 'schemaversion')::int)::text as id
  from (
    select event from jsonb_array_elements($1::text::jsonb) with ordinality as given(event, place) order by place
  ) as in_order`;

/** Selects those that this transaction recorded. Another one's, which it waited for, are duplicates. */
const NEW = `
  select id::text from events where id = any ($1::uuid[]) and xmin = pg_current_xact_id()::xid`;
