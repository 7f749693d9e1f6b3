import type { Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import type { Due, LeasedLane, StoredDelivery } from '../support/records.ts';

// tests/support/records.ts for the core of release 2.0.

export type { Due, LeasedLane, StoredDelivery } from '../support/records.ts';

export const RECORDS = `(select event_id || '.' || subscriber as id, * from deliveries) as record`;

export async function deliveriesOf(db: Database, subscriber?: string): Promise<StoredDelivery[]> {
  return await read<StoredDelivery>(
    db,
    `select id, topic, subscriber, ordering_key as "orderingKey", event_id::text as "eventId", state::text, attempts,
       replays, (extract(epoch from next_attempt_at) * 1000)::float8 as "nextAttemptAt",
       (extract(epoch from delivered_at) * 1000)::float8 as "deliveredAt",
       (extract(epoch from dead_lettered_at) * 1000)::float8 as "deadLetteredAt",
       attempt_log as log
     from ${RECORDS}
     where $1::text is null or subscriber = $1
     order by topic, subscriber, "orderingKey", position`,
    [subscriber ?? null],
  );
}

export async function statesOf(db: Database, subscriber = 'ledger'): Promise<string[]> {
  return (await deliveriesOf(db, subscriber)).map(({ state }) => state);
}

export async function deliveryIdsOf(db: Database, subscriber = 'ledger', state?: string): Promise<string[]> {
  const all = await deliveriesOf(db, subscriber);
  return all.filter((one) => state === undefined || one.state === state).map(({ id }) => id);
}

export async function countDeliveries(
  db: Database,
  condition = 'true',
  values: readonly unknown[] = [],
): Promise<number> {
  const [all] = await read<{ count: number }>(
    db,
    `select count(*)::int as count from ${RECORDS} where ${condition}`,
    values,
  );
  return all!.count;
}

export const AWAITING_PLACE = '(select event_id, topic, created_at, seq from awaiting) as awaiting';

export async function awaitingPlace(db: Database): Promise<string[]> {
  const events = await read<{ id: string }>(
    db,
    `select event_id::text as id from ${AWAITING_PLACE} order by created_at, seq`,
  );
  return events.map(({ id }) => id);
}

export async function deadLettersOf(db: Database, condition = 'true'): Promise<string[]> {
  const letters = await read<{ id: string }>(
    db,
    `select id from ${RECORDS} where state = 'dead_lettered' and ${condition}
     order by dead_lettered_at desc, lane desc, position desc`,
  );
  return letters.map(({ id }) => id);
}

export async function haltsOf(db: Database): Promise<string[]> {
  const halts = await read<{ id: string }>(
    db,
    `select id from ${RECORDS} where state = 'dead_lettered' and is_open order by dead_lettered_at desc, lane desc, position desc`,
  );
  return halts.map(({ id }) => id);
}

/** The lanes with the newest row of their journals. */
const NEWEST = `(
  select lanes.topic, lanes.subscriber, newest.* from lanes, lateral (
    select * from journal where lane = lanes.id order by head desc, number desc limit 1
  ) as newest
) as lane`;

export async function leasedLanes(db: Database, subscriber?: string): Promise<LeasedLane[]> {
  return await read<LeasedLane>(
    db,
    `select topic, subscriber, (extract(epoch from leased_until) * 1000)::float8 as until
     from ${NEWEST} where leased_until is not null and ($1::text is null or subscriber = $1) order by topic, subscriber`,
    [subscriber ?? null],
  );
}

export async function dueTimesOf(db: Database, subscriber?: string): Promise<Due[]> {
  return await read<Due>(
    db,
    `select subscriber, ordering_key as key, (extract(epoch from due_at) * 1000)::float8 as at
     from exceptions join lanes on lanes.id = lane
     where due_at is not null and ($1::text is null or subscriber = $1) order by subscriber, ordering_key`,
    [subscriber ?? null],
  );
}

async function read<Row>(db: Database, text: string, values: readonly unknown[] = []): Promise<Row[]> {
  return await run<Row>(driverOf(db), { text, values });
}
