import { readDue } from '../../bus/outbox/due.ts';
import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { traceparent } from '../../platform/trace-context.ts';
import { NEVER } from './route.ts';
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
  const given = events.map(({ traceparent: own = parent, ...event }) => ({
    ...event,
    traceparent: own,
    ...dueOf(event),
  }));
  return await db.transaction(async (tx) => {
    await limitStatements(tx, STATEMENT_LIMIT_MS);
    const recorded = await run<{ recorded: Recorded }>(tx, { text: EMIT, values: [JSON.stringify(given)] });
    const ids = recorded.map((row) => row.recorded.id);
    const unseen = new Set(
      (await run<{ id: string }>(tx, { text: NEW, values: [ids, JSON.stringify(events)] })).map(
        ({ id }) => id,
      ),
    );
    if (unseen.size > 0) noteDue(tx);
    return events.map(({ id }, index) => {
      const { id: eventId, isNew } = recorded[index]!.recorded;
      // The second of two with one id is a duplicate too.
      return { id, eventId, duplicate: !(isNew ?? unseen.delete(eventId!)) };
    });
  });
}

interface Recorded {
  readonly id: string | null;
  /** Of a cancellation; of an event it is found out afterwards. */
  readonly isNew?: boolean;
}

function dueOf({ at }: ProducedEvent) {
  if (at === undefined || at === NEVER) return {};
  const due = readDue(at);
  return 'expected' in due ? {} : { at: due.at, afterMs: due.afterMs };
}

const EMIT = `
  select case when event ->> 'at' = '${NEVER}'
    then postbud_cancel_timer_once_1(event ->> 'type', event ->> 'timerkey', event ->> 'id')
    else json_build_object('id', postbud_emit(event ->> 'type', event -> 'data',
      ordering_key => event ->> 'orderingkey', dedupe_key => event ->> 'id',
      correlation_id => event ->> 'correlationid', causation_id => event ->> 'causationid',
      traceparent => event ->> 'traceparent', version => (event ->> 'schemaversion')::int,
      at => coalesce((event ->> 'at')::timestamptz,
        clock_timestamp() + (event ->> 'afterMs')::float8 * interval '1 millisecond'),
      timer_key => event ->> 'timerkey'))
    end as recorded
  from (
    select event from jsonb_array_elements($1::text::jsonb) with ordinality as given(event, place) order by place
  ) as in_order`;

/** Selects those that this transaction recorded. Another one's, which it waited for, are duplicates. */
const NEW = `
  select id::text from events where id = any ($1::uuid[]) and xmin = pg_current_xact_id()::xid
  union all
  select timer_id::text
  from jsonb_to_recordset($2::text::jsonb) as given(type text, id text, at text)
    join timer_dedupe_keys on topic = type and dedupe_key = id
  where given.at is distinct from '${NEVER}' and timer_dedupe_keys.xmin = pg_current_xact_id()::xid`;
