import { MINUTE } from '../../platform/time.ts';
import type { ReceivedEvent } from './event.ts';
import type { OpenTransaction } from './transaction.ts';

/**
 * The table in the receiver's own database that remembers which events it has handled. Run it in a migration, or at the
 * start; a second time changes nothing.
 *
 * A row is written in the transaction of the handler. The first index recognises an event; the second one finds rows that
 * are old enough to be deleted.
 */
export const RECEIVED_TABLE = `
create table if not exists postbud_received (
  subscriber text not null,
  topic text not null,
  event_id uuid not null,
  received_at timestamptz not null default now(),
  primary key (subscriber, topic, event_id)
);
create index if not exists postbud_received_at on postbud_received (received_at);
`;

export interface Remembered {
  /** Whether the event was handled before: it must not be handled again. */
  readonly isDuplicate: boolean;
  /** Whether the event before it in its order should have come here, and did not. */
  readonly isGap: boolean;
}

/**
 * Remembers an event, in the transaction that handles it. A concurrent delivery of the same event waits here until that
 * transaction has ended.
 *
 * An event that is missing before this one is a gap if the bus says that it gave it up. If the bus delivered it, it is one
 * only if it was created after the first event that this table remembers of the topic: what came before may have been
 * handled elsewhere, or its row deleted.
 */
export async function remember(
  { run }: OpenTransaction,
  subscriber: string,
  event: ReceivedEvent,
): Promise<Remembered> {
  const { previousId, previousSkipped } = event;
  const of = `subscriber = ${literal(subscriber)} and topic = ${literal(event.topic)}`;
  // What is answered as taken is on the receiver's disk, whatever its database has set.
  const insert = `insert into postbud_received (subscriber, topic, event_id)
    select ${literal(subscriber)}, ${literal(event.topic)}, ${literal(event.id)}::uuid
    from (select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
      offset 0) as on_disk
    on conflict do nothing returning 1`;
  if (previousId === null) return { isDuplicate: (await run(insert)).length === 0, isGap: false };
  const [row] = await run(`
    with remembered as (${insert})
    select exists (select from remembered) as is_new, is_known as previous_is_known,
      case when not is_known then (
        select extract(epoch from received_at) * 1000 from postbud_received where ${of} order by received_at limit 1
      )::float8 end as first_at
    from (
      select exists (select from postbud_received where ${of} and event_id = ${literal(previousId)}) as is_known
    ) as previous`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the columns of the statement above
  const found = row as { is_new: boolean; previous_is_known: boolean; first_at: number | null };
  const isExpected = found.first_at !== null && createdAtMs(previousId) > found.first_at + CLOCKS_DIFFER_MS;
  return {
    isDuplicate: !found.is_new,
    isGap: !found.previous_is_known && (previousSkipped || isExpected),
  };
}

/** The clocks of the bus and of the receiver may differ by as much as a signature may be old. */
const CLOCKS_DIFFER_MS = 5 * MINUTE;

/** Reads the time of a UUIDv7. @see https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7 */
function createdAtMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/**
 * Writes a name or an id as a literal. Parameters would be safer, but Drizzle accepts none with raw SQL text, and its own
 * way would make it a dependency.
 *
 * @throws TypeError for anything else.
 */
function literal(text: string): string {
  if (!/^[\w.-]+$/.test(text)) throw new TypeError('expected a name of the catalog, or an id');
  return `'${text}'`;
}
