import { run } from '../../lib/platform/db/statement.ts';
import type { Executor } from '../../lib/platform/db/statement.ts';
import { unhindered } from './bus.ts';
import { RECORDS } from './records.ts';

/**
 * Scenes that a test sets past the bus: what a dead relay, another release or somebody at a SQL prompt leaves. Only these
 * functions know which tables that takes.
 */

/** Empties the tables of events and of all that became of them. @param others tables that the test begins without, too. */
export async function forgetEvents(db: Executor, ...others: readonly string[]): Promise<void> {
  const tables = [
    'events',
    'awaiting_fan_out',
    'deliveries',
    'lanes',
    'home_lanes',
    'backlog',
    'halts',
    'absences',
  ];
  await write(db, unhindered(`truncate ${[...tables, ...others].join()}`));
}

interface Hold {
  /** When the lease is over. */
  readonly until: Date;
  /** All of them when left out. */
  readonly subscriber?: string;
  /** The newest payload version that its relay can read. */
  readonly version?: number;
}

/** Has a relay that never settles hold the lanes that have something to deliver: it died, or is busy until then. */
export async function holdLanes(db: Executor, { until, subscriber, version }: Hold): Promise<void> {
  await write(
    db,
    `update lanes set lease_token = gen_random_uuid(), leased_until = $1::timestamptz, due_at = $1::timestamptz,
       held_version = coalesce($3, held_version)
     where (due_at is not null or lease_token is not null) and ($2::text is null or subscriber = $2)`,
    [until.toISOString(), subscriber ?? null, version ?? null],
  );
}

/** Gives the lanes of a subscriber to another relay, while the one that holds them goes on. */
export async function stealLanes(db: Executor, subscriber: string): Promise<void> {
  await write(db, 'update lanes set lease_token = gen_random_uuid() where subscriber = $1', [subscriber]);
}

/** Ends the leases of all lanes that relays hold, as if their time was over. */
export async function expireLeases(db: Executor): Promise<void> {
  await write(
    db,
    `update lanes set leased_until = clock_timestamp() - interval '1 ms', due_at = clock_timestamp() - interval '1 ms'
     where lease_token is not null`,
  );
}

/** Gives back all lanes that relays hold, so that they are due. */
export async function freeLanes(db: Executor): Promise<void> {
  await write(db, 'update lanes set lease_token = null, due_at = now() where lease_token is not null');
}

/** Locks lanes until the transaction ends. @param condition over `topic` and `subscriber`. */
export async function lockLanes(tx: Executor, condition = 'true'): Promise<void> {
  await write(tx, `select from lanes where ${condition} for update`);
}

/**
 * Has events that wait for their place list other subscribers, as the catalog of another release does.
 *
 * @param list SQL for the new list, of `subscribers`, which is the old one. @param condition over the columns of `events`.
 */
export async function relist(db: Executor, list: string, condition = 'true'): Promise<void> {
  await write(
    db,
    `with event as (
       update events set subscribers = ${list}, open = cardinality((${list})::text[])
       where id in (select event_id from awaiting_fan_out) and ${condition} returning id, subscribers, open
     )
     update awaiting_fan_out set subscribers = event.subscribers, open = event.open from event where event_id = event.id`,
  );
}

/** Moves the creation of the events that wait for their place. @param by an interval, such as `-2 minutes`. */
export async function shiftCreation(db: Executor, by: string): Promise<void> {
  await write(
    db,
    `with event as (
       update events set created_at = created_at + $1::interval
       where id in (select event_id from awaiting_fan_out) returning id, created_at
     )
     update awaiting_fan_out set created_at = event.created_at from event where event_id = event.id`,
    [by],
  );
}

/** A marker as a producer could insert it who may write to the tables. */
export async function insertMarker(
  db: Executor,
  topic: string,
  orderingKey: string,
  subscribers: readonly (string | null)[],
): Promise<void> {
  await write(
    db,
    `insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
     select $1, clock_timestamp(), -1, gen_random_uuid(), $2, 1, 10, array_agg(name order by place)
     from jsonb_array_elements_text($3::text::jsonb) with ordinality as listed(name, place)`,
    [topic, orderingKey, JSON.stringify(subscribers)],
  );
}

/** Spoils the marker of an event, so that the event gets no place. */
export async function spoilMarker(db: Executor, eventId: string): Promise<void> {
  await write(
    db,
    'update awaiting_fan_out set subscribers = array_append(subscribers, null) where event_id = $1::uuid',
    [eventId],
  );
}

/** Deletes the marker of an event, or of all, so that the event gets no place and nobody knows. */
export async function deleteMarker(db: Executor, eventId?: string): Promise<void> {
  await write(db, 'delete from awaiting_fan_out where event_id = coalesce($1::uuid, event_id)', [
    eventId ?? null,
  ]);
}

/** Changes what is recorded of deliveries. @param condition over the columns of `RECORDS`. */
export async function changeDeliveries(db: Executor, change: string, condition = 'true'): Promise<void> {
  await write(
    db,
    `update deliveries set ${change} where (lane_id || '-' || position) in (select id from ${RECORDS} where ${condition})`,
  );
}

/** Deletes the records of deliveries. @param condition over the columns of `RECORDS`. */
export async function deleteDeliveries(
  db: Executor,
  condition: string,
  values: readonly unknown[] = [],
): Promise<void> {
  await write(
    db,
    `delete from deliveries where (lane_id || '-' || position) in (select id from ${RECORDS} where ${condition})`,
    values,
  );
}

/** Has deliveries never been handed over, and makes their lanes due then. @param condition over the columns of `RECORDS`. */
export async function undeliver(db: Executor, condition: string, due: Date): Promise<void> {
  await changeDeliveries(
    db,
    `state = 'pending', attempts = 0, delivered_at = null`,
    `state = 'delivered' and ${condition}`,
  );
  await write(
    db,
    `update lanes set due_at = $1::timestamptz, head = least(head, (
       select min(position) - 1 from deliveries where lane_id = lanes.id and state = 'pending'
     ))
     where id in (select lane_id from deliveries where state = 'pending')`,
    [due.toISOString()],
  );
}

/** Lets deliveries wait longer for their next attempt. @param by an interval. @param condition over the columns of `RECORDS`. */
export async function delayRetries(db: Executor, by: string, condition = 'true'): Promise<void> {
  await write(
    db,
    `with delayed as (
       update deliveries set next_attempt_at = next_attempt_at + $1::interval
       where next_attempt_at is not null
         and (lane_id || '-' || position) in (select id from ${RECORDS} where ${condition})
       returning lane_id, lane_key, next_attempt_at
     )
     update lanes set due_at = delayed.next_attempt_at from delayed
     where lane_key is null and lanes.id = lane_id or home_id = lane_id and held_key = lane_key`,
    [by],
  );
}

/** Gives all that a subscriber was given to another name, which an earlier release called it by. */
export async function renameLanes(db: Executor, from: string, to: string): Promise<void> {
  for (const table of ['lanes', 'home_lanes', 'backlog'])
    await write(db, `update ${table} set subscriber = $2 where subscriber = $1`, [from, to]);
}

/** Leaves a subscription that only the catalog of another release has. @param waiting how many deliveries wait in it. */
export async function leaveSubscription(
  db: Executor,
  topic: string,
  subscriber: string,
  waiting = 0,
): Promise<void> {
  await write(
    db,
    `with lane as (insert into lanes (topic, subscriber, ordering_key, tail) values ($1, $2, '', 0))
     insert into backlog (topic, subscriber, shard, pending, failing, dead_lettered) values ($1, $2, 0, $3, 0, 0)`,
    [topic, subscriber, waiting],
  );
}

async function write(db: Executor, text: string, values: readonly unknown[] = []): Promise<void> {
  await run(db, { text, values });
}
