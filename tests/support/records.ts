import type { PastAttempt } from '../../drizzle/schema.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';

export interface StoredDelivery {
  /** As operators name it. */
  readonly id: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly orderingKey: string;
  readonly eventId: string;
  readonly state: string;
  readonly attempts: number;
  readonly replays: number;
  /** Epoch milliseconds. */
  readonly nextAttemptAt: number | null;
  readonly deliveredAt: number | null;
  readonly deadLetteredAt: number | null;
  readonly log: readonly PastAttempt[] | null;
}

export interface LeasedLane {
  readonly topic: string;
  readonly subscriber: string;
  /** Epoch milliseconds. */
  readonly until: number;
}

export interface Due {
  readonly subscriber: string;
  /** Empty where it is the lane's, not that of a key which waits apart. */
  readonly key: string;
  /** Epoch milliseconds. */
  readonly at: number;
}

/**
 * One record for each event and subscriber, as a relation for a test's own statement:
 * `select attempts from ${RECORDS} where subscriber = 'ledger'`. Tests read deliveries here and nowhere else, so that they
 * need not know which tables a record is made of.
 */
export const RECORDS = `(select event_id || '.' || subscriber as id, * from deliveries) as record`;

/** The deliveries in the order of their lanes. @param subscriber all subscribers' when left out. */
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

/** The states of a subscriber's deliveries, in the order of their lanes. */
export async function statesOf(db: Database, subscriber = 'ledger'): Promise<string[]> {
  return (await deliveriesOf(db, subscriber)).map(({ state }) => state);
}

/** The ids of a subscriber's deliveries, in the order of their lanes. @param state any when left out. */
export async function deliveryIdsOf(db: Database, subscriber = 'ledger', state?: string): Promise<string[]> {
  const all = await deliveriesOf(db, subscriber);
  return all.filter((one) => state === undefined || one.state === state).map(({ id }) => id);
}

/** Counts the deliveries of which a condition over the columns of `RECORDS` is true. */
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

/** The events that wait for their place, as a relation for a test's own statement. */
export const AWAITING_PLACE = '(select event_id, topic, created_at, seq from awaiting) as awaiting';

/** The ids of the events that wait for their place, in the order of their creation. */
export async function awaitingPlace(db: Database): Promise<string[]> {
  const events = await read<{ id: string }>(
    db,
    `select event_id::text as id from ${AWAITING_PLACE} order by created_at, seq`,
  );
  return events.map(({ id }) => id);
}

/** The ids of dead letters as operators page through them, newest first. @param condition over the columns of `RECORDS`. */
export async function deadLettersOf(db: Database, condition = 'true'): Promise<string[]> {
  const letters = await read<{ id: string }>(
    db,
    `select id from ${RECORDS} where state = 'dead_lettered' and ${condition}
     order by dead_lettered_at desc, lane desc, position desc`,
  );
  return letters.map(({ id }) => id);
}

/** The ids of the dead letters that halt their lane or their key, newest first. */
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

/** The lanes that relays hold, also those whose lease is over and that nobody has claimed since. */
export async function leasedLanes(db: Database, subscriber?: string): Promise<LeasedLane[]> {
  return await read<LeasedLane>(
    db,
    `select topic, subscriber, (extract(epoch from leased_until) * 1000)::float8 as until
     from ${NEWEST} where leased_until is not null and ($1::text is null or subscriber = $1) order by topic, subscriber`,
    [subscriber ?? null],
  );
}

/** When a relay next has to look at lanes, and at keys that wait apart. @param subscriber all subscribers' when left out. */
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
