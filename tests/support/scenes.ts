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
    'awaiting',
    'streams',
    'audiences',
    'log',
    'lanes',
    'journal',
    'exceptions',
    'lane_totals',
  ];
  await write(db, unhindered(`truncate ${[...tables, ...others].join()}`));
}

interface Hold {
  /** When the lease is over. */
  readonly until: Date;
  /** All of them when left out. */
  readonly subscriber?: string;
}

/** Has a relay that never settles hold the lanes that have something to deliver. */
export async function holdLanes(db: Executor, { until, subscriber }: Hold): Promise<void> {
  await write(
    db,
    `insert into journal (lane, number, head, at, token, leased_until, first_claimed, claimed_to, handlers)
     select lane.id, newest.number + 1, newest.head, clock_timestamp(), gen_random_uuid(), $1::timestamptz, next.first, next.last, 1
     from lanes as lane, lateral (
         select * from journal where journal.lane = lane.id order by journal.head desc, number desc limit 1
       ) as newest, lateral (
         select min(position) as first, max(position) as last from (
           select position from log where log.stream = lane.stream and position > newest.head
           union all
           select position from exceptions where exceptions.lane = lane.id and is_open
         ) as open
       ) as next
     where next.first is not null and ($2::text is null or subscriber = $2)`,
    [until.toISOString(), subscriber ?? null],
  );
}

/** Gives the lanes of a subscriber to another relay, while the one that holds them goes on. */
export async function stealLanes(db: Executor, subscriber: string): Promise<void> {
  await write(
    db,
    `update journal set token = gen_random_uuid()
     where (lane, head, number) in (
       select newest.lane, newest.head, newest.number from lanes, lateral (
         select * from journal where lane = lanes.id order by head desc, number desc limit 1
       ) as newest where subscriber = $1
     )`,
    [subscriber],
  );
}

/** Ends the leases of all lanes that relays hold, as if their time was over. */
export async function expireLeases(db: Executor): Promise<void> {
  await write(
    db,
    `update journal set leased_until = clock_timestamp() - interval '1 ms' where leased_until is not null`,
  );
}

/** Gives back all lanes that relays hold, so that they are due. */
export async function freeLanes(db: Executor): Promise<void> {
  await write(
    db,
    `insert into journal (lane, number, head, at)
     select newest.lane, newest.number + 1, newest.head, clock_timestamp() from lanes, lateral (
       select * from journal where lane = lanes.id order by head desc, number desc limit 1
     ) as newest where leased_until is not null`,
  );
}

/** Locks lanes until the transaction ends. @param condition over `topic` and `subscriber`. */
export async function lockLanes(tx: Executor, condition = 'true'): Promise<void> {
  await write(tx, `select postbud_lock_lanes_2(array(select id from lanes where ${condition}))`);
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
       update events set subscribers = ${list}
       where id in (select event_id from awaiting) and ${condition} returning id, subscribers
     )
     update awaiting set subscribers = event.subscribers from event where event_id = event.id`,
  );
}

/** Moves the creation of the events that wait for their place. @param by an interval, such as `-2 minutes`. */
export async function shiftCreation(db: Executor, by: string): Promise<void> {
  await write(
    db,
    `with event as (
       update events set created_at = created_at + $1::interval where id in (select event_id from awaiting)
       returning id, created_at
     )
     update awaiting set created_at = event.created_at from event where event_id = event.id`,
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
    `insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
     select $1, clock_timestamp(), -1, gen_random_uuid(), $2, 1, 10, array_agg(name order by place)
     from jsonb_array_elements_text($3::text::jsonb) with ordinality as listed(name, place)`,
    [topic, orderingKey, JSON.stringify(subscribers)],
  );
}

/** Spoils the marker of an event, so that the event gets no place. */
export async function spoilMarker(db: Executor, eventId: string): Promise<void> {
  await write(
    db,
    'update awaiting set subscribers = array_append(subscribers, null) where event_id = $1::uuid',
    [eventId],
  );
}

/** Deletes the marker of an event, or of all, so that the event gets no place and nobody knows. */
export async function deleteMarker(db: Executor, eventId?: string): Promise<void> {
  await write(db, 'delete from awaiting where event_id = coalesce($1::uuid, event_id)', [eventId ?? null]);
}

/** Changes what is recorded of deliveries that have a row. @param condition over the columns of `RECORDS`. */
export async function changeDeliveries(db: Executor, change: string, condition = 'true'): Promise<void> {
  await write(
    db,
    `update exceptions set ${change}
     where (lane, position) in (select lane, position from ${RECORDS} where ${condition})`,
  );
}

/** Deletes what is recorded of deliveries, and the places of their events. @param condition over the columns of `RECORDS`. */
export async function deleteDeliveries(
  db: Executor,
  condition: string,
  values: readonly unknown[] = [],
): Promise<void> {
  await write(
    db,
    `with gone as materialized (
       select lane, stream, position from ${RECORDS} join lanes on lanes.id = lane where ${condition.replaceAll(/\bid\b/g, 'record.id')}
     ),
     rows_gone as (delete from exceptions where (lane, position) in (select lane, position from gone))
     delete from log where (stream, position) in (select stream, position from gone)`,
    values,
  );
}

/** Has the deliveries of lanes never been handed over, from the first of these on. @param condition over the columns of `RECORDS`. */
export async function undeliver(db: Executor, condition: string): Promise<void> {
  await write(
    db,
    `with first as materialized (
       select lane, min(position) as position from ${RECORDS} where state = 'delivered' and ${condition} group by lane
     ),
     rows_gone as (
       delete from exceptions using first where exceptions.lane = first.lane and exceptions.position >= first.position
     )
     delete from journal using first where journal.lane = first.lane and journal.head >= first.position`,
  );
  // Claims from before are the newest rows now.
  await freeLanes(db);
}

/** Lets deliveries wait longer for their next attempt. @param by an interval. @param condition over the columns of `RECORDS`. */
export async function delayRetries(db: Executor, by: string, condition = 'true'): Promise<void> {
  await write(
    db,
    `update exceptions set next_attempt_at = next_attempt_at + $1::interval, due_at = due_at + $1::interval
     where next_attempt_at is not null and (lane, position) in (select lane, position from ${RECORDS} where ${condition})`,
    [by],
  );
}

/** Gives all that a subscriber was given to another name, which an earlier release called it by. */
export async function renameLanes(db: Executor, from: string, to: string): Promise<void> {
  await write(db, 'update lanes set subscriber = $2 where subscriber = $1', [from, to]);
  await write(db, 'update audiences set subscribers = array_replace(subscribers, $1, $2)', [from, to]);
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
    `with stream as (insert into streams (topic, slot) values ($1, 0) returning id),
     lane as (
       insert into lanes (stream, topic, slot, subscriber) select id, $1, 0, $2 from stream returning id
     ),
     free as (insert into journal (lane, number, head, at) select id, 0, 0, now() from lane),
     audience as (insert into audiences select id, 1, array[$2] from stream where $3::int > 0),
     event as (
       insert into events (id, topic, payload, version, producer, subscribers, ordering_key, correlation_id, created_at)
       select gen_random_uuid(), $1, '{}', 1, $2, array[$2], '', '', clock_timestamp() from generate_series(1, $3::int)
       returning id, seq
     )
     insert into log (stream, position, event_id, bytes, version, ordering_key)
     select stream.id, row_number() over (order by seq), event.id, 2, 1, '' from event, stream`,
    [topic, subscriber, waiting],
  );
}

/** Repeats each dead letter so many times, at places of which the log has nothing. */
export async function repeatDeadLetters(db: Executor, times: number): Promise<void> {
  await write(
    db,
    `insert into exceptions
     select (jsonb_populate_record(exceptions, jsonb_build_object('position', position + number * 1000))).*
     from exceptions, generate_series(1, $1::int) as number where dead_lettered_at is not null`,
    [times],
  );
}

async function write(db: Executor, text: string, values: readonly unknown[] = []): Promise<void> {
  await run(db, { text, values });
}
