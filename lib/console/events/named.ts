import { topics } from '../../bus/catalog/catalog.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** An event, or a timer, whose own id, delivery or key was searched. */
export interface NamedEvent {
  readonly eventId: string;
  readonly by: 'event id' | 'delivery id' | 'deduplication key' | 'timer key';
}

/** Finds the events that primary keys and unique keys lead to, newest first. */
export async function findNamed(db: Database, q: string, limit: number): Promise<NamedEvent[]> {
  const [from, to] = rangeOf(q) ?? [null, null];
  const { eventId, subscriber } = readDeliveryId(q.toLowerCase()) ?? { eventId: null, subscriber: null };
  return await run<NamedEvent>(driverOf(db), {
    text: NAMED,
    values: [from, to, eventId, subscriber, q, TOPICS, limit],
  });
}

/** Fewer digits would be those of events of weeks: an id begins with its time. */
const FEWEST_DIGITS = 8;

/** @returns the first and the last id that begin like this; null for what is not the beginning of an id. */
function rangeOf(q: string): readonly [from: string, to: string] | null {
  const digits = q.toLowerCase().replaceAll('-', '');
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < FEWEST_DIGITS || digits.length > 32) return null;
  if (q.includes('-') && q.indexOf('-') !== 8) return null;
  return [digits.padEnd(32, '0'), digits.padEnd(32, 'f')];
}

const TOPICS = `{${topics()
  .map(([topic]) => topic)
  .join(',')}}`;

// The webhooks of a provider carry its event id in the payload, so the index leads to them.
const NAMED = `
  with named as materialized (
    (
      select id, 'event id' as by from events
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $7::int
    )
    union all
    (
      select id, 'event id' from timers
      where id between $1::text::uuid and $2::text::uuid order by id desc limit $7::int
    )
    union all
    select id, 'timer key' from timers where timer_key = $5::text
    union all
    select event_id, 'delivery id' from deliveries where event_id = $3::text::uuid and subscriber = $4::text
    union all
    select events.id, 'deduplication key'
    from unnest($6::text::text[]) as known(topic) join events on events.topic = known.topic and dedupe_key = $5::text
  )
  select id::text as "eventId", by from named order by id desc`;
