import pg from 'pg';
import { expect, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { LaneOutcome, Settled } from '../../lib/bus/deliveries/settle.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { cancelTimer, emit } from '../../lib/bus/outbox/emit.ts';
import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import type { RelayOptions, RelayReport } from '../../lib/bus/relay/relay.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { createDatabase } from './postgres.ts';

/** The tests' clock, unless they move it. It is ahead of the real one, so that every emitted event is due. */
export const START = Date.parse('2031-05-04T10:00:00.000Z');

export interface Bus extends Connection {
  readonly url: string;
  /** Empties all tables, also those that a test made. */
  readonly reset: () => Promise<void>;
}

/** Opens a new database. @param serverUrl the server's URL, which the global setup provides as `postgresUrl`. */
export async function openBus(serverUrl: string): Promise<Bus> {
  const url = await createDatabase(serverUrl);
  const connection = await connect(url);
  const health = HealthRecorder.of(connection.db);
  const reset = async () => {
    // What the test before has gathered must not be written during the next one.
    await health.write();
    await rows(connection.db, EMPTY_ALL_TABLES);
  };
  return { ...connection, url, reset };
}

/**
 * Empties each table that takes up room, past the triggers of append-only tables. Each table has its own transaction,
 * so that there is no deadlock with the transaction of a handler that a test gave up.
 * The row of `last_pass` is made by a migration, the catalog is published by it, and a file's grants are the file's.
 */
const EMPTY_ALL_TABLES = `do $$
  declare filled text;
  begin
    for filled in
      select oid::regclass::text from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
        and relname not in ('last_pass', 'catalog_topics', 'role_grants')
    loop
      set local session_replication_role = replica;
      set local synchronous_commit = off;
      execute 'truncate ' || filled;
      commit;
    end loop;
    update last_pass set at = null where at is not null;
  end
$$`;

/**
 * Runs a statement. A truncation passes the triggers of append-only tables, which takes a superuser.
 *
 * @returns its rows; instants as they should be read must be selected as `text` or `float8`.
 */
export async function rows<Row>(db: Database, text: string, values: readonly unknown[] = []): Promise<Row[]> {
  return await run<Row>(driverOf(db), {
    text: text.startsWith('truncate') ? unhindered(text) : text,
    values,
  });
}

/** A statement past the triggers of append-only tables, which takes a superuser. */
export const unhindered = (statement: string) =>
  `do $$ begin set local session_replication_role = replica; ${statement}; end $$`;

/** Delivers what is due with the clock at `START`, giving up after 45 real seconds, unless told otherwise. */
export async function drain(
  db: Database,
  subscribers: readonly AttachedSubscriber[],
  options: Partial<RelayOptions> = {},
): Promise<RelayReport> {
  return await relay({ db, subscribers, until: Date.now() + 45_000, now: START, ...options });
}

/** Settles outcomes as a relay does whose time is up. */
export async function settle(db: Database, outcomes: readonly LaneOutcome[]): Promise<Settled> {
  const { settled } = await takeTurn(db, { ...IDLE, outcomes });
  return settled!;
}

/** Gives places to the events that no open transaction holds back. */
export async function placeEvents(db: Database): Promise<void> {
  await takeTurn(db, { ...IDLE, isLooking: true, topics: [], maxEvents: 1000 });
}

/** A turn that does nothing. */
export const IDLE = {
  outcomes: [],
  continued: [],
  behind: null,
  topics: null,
  subscriptions: new Map(),
  maxLanes: 0,
  share: null,
  maxDeliveries: 0,
  maxEvents: 0,
  isLooking: false,
  awaited: [],
  clockMs: 0,
  now: null,
};

/**
 * Delivers what is due by the database's own clock. By the clock of this process, a delivery that was just replayed
 * could be due a microsecond later than `Date.now()`.
 */
export async function drainLive(
  db: Database,
  subscribers: readonly AttachedSubscriber[],
): Promise<RelayReport> {
  return await relay({ db, subscribers, until: Date.now() + 45_000 });
}

/** Emits in a transaction of its own. */
export async function emitAlone<Name extends TopicName>(
  db: Database,
  ...event: [topic: Name, payload: PayloadInput<Name>, options?: EmitOptions]
): Promise<{ id: string }> {
  return await db.transaction(async (tx) => await emit(tx, ...event));
}

/** Cancels a timer in a transaction of its own. */
export async function cancelAlone(db: Database, topic: TopicName, timerKey: string): Promise<boolean> {
  return await db.transaction(async (tx) => await cancelTimer(tx, topic, timerKey));
}

/** Makes a valid payload: the catalog's example with these fields. */
export function payloadOf<Name extends TopicName>(topic: Name, fields: object = {}): PayloadInput<Name> {
  return { ...catalog[topic].example, ...fields } as PayloadInput<Name>;
}

/** The whole numbers of this range, both ends included. */
export const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** Makes a payment that is known by its number, which is its amount. */
export const payment = (number: number) => payloadOf('payment.captured', { amountMinor: number });

/** Emits payments numbered `from` to `to`, in one transaction. @returns their ids in order. */
export async function emitPayments(
  db: Database,
  from: number,
  to: number,
  options: EmitOptions = {},
): Promise<string[]> {
  return await db.transaction(async (tx) => {
    const ids: string[] = [];
    for (let number = from; number <= to; number += 1) {
      ids.push((await emit(tx, 'payment.captured', payment(number), options)).id);
    }
    return ids;
  });
}

export async function storeBacklog(db: Database, topic: TopicName, count: number, lanes = 0): Promise<void> {
  await rows(
    db,
    `with event as (
       insert into events (id, topic, payload, version, producer, subscribers, ordering_key, correlation_id, created_at)
       select gen_random_uuid(), $1::text, $2::text::jsonb || jsonb_build_object('amountMinor', number), 1, 'payments',
         $3::text[], case when $5::int = 0 then '' else 'key ' || number % $5::int end, '', clock_timestamp()
       from generate_series(1, $4::int) as number
       returning *
     )
     insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
     select topic, created_at, seq, id, ordering_key, version, subscribers, octet_length(payload::text) from event`,
    [topic, JSON.stringify(catalog[topic].example), [...catalog[topic].subscribers], count, lanes],
  );
}

/** A transaction on a connection of its own, which the test ends when it likes. */
/** The sessions of this database that wait for a lock. The server has those of other tests too. */
export const WAITING = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;

export interface OpenTransaction {
  readonly client: pg.Client;
  emit<Name extends TopicName>(
    topic: Name,
    payload: PayloadInput<Name>,
    options?: EmitOptions,
  ): Promise<string>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export async function openTransaction(url: string): Promise<OpenTransaction> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('begin');
  const end = async (how: 'commit' | 'rollback') => {
    await client.query(how);
    await client.end();
  };
  return {
    client,
    emit: async (topic, payload, options) => (await emit(client, topic, payload, options)).id,
    commit: () => end('commit'),
    rollback: () => end('rollback'),
  };
}

/** The worst of the states of each event's deliveries, oldest first. */
export async function eventStates(db: Database): Promise<string[]> {
  const found = await rows<{ state: string }>(
    db,
    `select coalesce((select max(case when dismissed_at is null then state else 'delivered' end)::text from deliveries where event_id = events.id),
       case when exists (select from awaiting where event_id = events.id) and subscribers <> '{}' then 'pending' else 'delivered' end) as state
     from events order by created_at, seq`,
  );
  return found.map(({ state }) => state);
}

/** The ids of a topic's events in the order that subscribers are promised. */
export async function idsInOrder(db: Database, topic: TopicName, orderingKey = ''): Promise<string[]> {
  const found = await rows<{ id: string }>(
    db,
    'select id::text from events where topic = $1 and ordering_key = $2 order by created_at, seq',
    [topic, orderingKey],
  );
  return found.map(({ id }) => id);
}

const CONTRADICTIONS = `
  select 'hole in stream ' || stream || ' at ' || position + 1 as what
  from (select stream, position, lead(position) over (partition by stream order by position) as next from log) as place
  -- Behind the heads of all lanes events are pruned.
  where next <> position + 1 and exists (select from lane_heads where lane_heads.stream = place.stream and head < next - 1)
  union all
  select 'event without a place ' || id from events
  where not exists (select from log where event_id = id) and not exists (select from awaiting where event_id = id)
  union all
  select 'place without an event ' || event_id from log where event_id is not null and not exists (select from events where id = event_id)
  union all
  select 'exception beyond the head of lane ' || lane from exceptions
  where position > (select head from journal where journal.lane = exceptions.lane order by head desc, number desc limit 1)
  union all
  select 'nobody looks at ' || lane || ' ' || ordering_key from exceptions as first
  where is_open and not is_held and due_at is null and state in ('pending', 'failing') and not exists (
    select from exceptions as earlier
    where earlier.lane = first.lane and earlier.ordering_key = first.ordering_key and earlier.is_open and earlier.position < first.position
  )
  union all
  select 'out of order in stream ' || log.stream || ' at ' || log.position from log join events on id = event_id
    join log as next on next.stream = log.stream and next.position = log.position + 1 join events as later on later.id = next.event_id
  where (later.created_at, later.seq) < (events.created_at, events.seq)`;

/**
 * Looks for broken invariants.
 *
 * @returns one line for each; none when the invariants hold.
 */
export async function contradictions(db: Database): Promise<string[]> {
  const found = await db.transaction(async (tx) => {
    // Statistics that were taken while a burst was being placed say that there are no events.
    await run(tx, { text: 'set local enable_nestloop = off', values: [] });
    return await run<{ what: string }>(tx, { text: CONTRADICTIONS, values: [] });
  });
  return found.map(({ what }) => what);
}

/** Counts how often a connection is taken while `body` runs: for a statement that runs alone, or for a transaction. */
export async function statementsDuring(body: () => Promise<unknown>): Promise<number> {
  const taken = vi.spyOn(pg.Pool.prototype, 'connect');
  try {
    await body();
    return taken.mock.calls.length;
  } finally {
    taken.mockRestore();
  }
}

/** Runs `body` on connections of its own, which are closed afterwards. */
export async function onConnectionsOf(url: string, body: (db: Database) => Promise<unknown>): Promise<void> {
  const { db, close } = await connect(url);
  try {
    await body(db);
  } finally {
    await close();
  }
}

/** Counts the rows of a table that were read by connections that have ended; open ones have not reported all of theirs. */
export async function rowsRead(url: string, table: string): Promise<number> {
  const { db, close } = await connect(url);
  const others =
    "select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
  await expect.poll(() => rows(db, others)).toEqual([]);
  const [found] = await rows<{ read: number }>(
    db,
    'select (seq_tup_read + idx_tup_fetch)::float8 as read from pg_stat_user_tables where relname = $1',
    [table],
  );
  await close();
  return found!.read;
}

/** A database that a process uses which dies after so many transactions and statements that run alone. */
export function dyingAfter(steps: number, db: Database): Database {
  let taken = 0;
  return new Proxy(db, {
    get(living, name) {
      if ((name === 'transaction' || name === '$client') && (taken += 1) > steps) throw new Error('died');
      return Reflect.get(living, name) as unknown;
    },
  });
}

/** A promise that the test settles. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
