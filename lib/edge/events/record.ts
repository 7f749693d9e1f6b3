import { readDue } from '../../bus/outbox/due.ts';
import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { traceparent } from '../../platform/trace-context.ts';
import { NEVER } from './route.ts';
import type { ProducedEvent, Taken } from './route.ts';
import { dedupeKeyOf } from './source.ts';

/** Longer than the request is answered without it, so that a late answer still finds what it recorded. */
const ANSWER_LIMIT_MS = 15 * SECOND;

/**
 * Records events in their order, all or none, each once for its source and id: they are its dedupe key in its topic.
 *
 * @returns what became of each, in the same order.
 * @throws the database's error, PB001 or PB002 for a payload of an earlier version that does not fit it, PB006 for an event
 *   whose source and id are those of another fact.
 */
export async function recordAll(db: Database, events: readonly ProducedEvent[]): Promise<Taken['events']> {
  if (events.length === 0) return [];
  const parent = traceparent();
  const given = events.map(
    ({ traceparent: own = parent, partitionkey, orderingkey = partitionkey, ...event }) => ({
      ...event,
      orderingkey,
      dedupekey: dedupeKeyOf(event),
      traceparent: own,
      ...dueOf(event),
    }),
  );
  const [row] = await run<{ taken: Taken['events'] }>(driverOf(db), {
    name: 'record_posted_2',
    text: 'select postbud_record_posted_2($1::jsonb) as taken',
    values: [JSON.stringify(given)],
    limitMs: ANSWER_LIMIT_MS,
  });
  const { taken } = row!;
  if (taken.some(({ duplicate }) => !duplicate)) noteDue(db);
  return taken;
}

function dueOf({ at }: ProducedEvent) {
  if (at === undefined || at === NEVER) return {};
  const due = readDue(at);
  return 'expected' in due ? {} : { at: due.at, afterMs: due.afterMs };
}
