import { takeTurn } from '../../lib/bus/log/turn.ts';
import type { LaneOutcome, Settled } from '../../lib/bus/log/settle.ts';
import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { createCore } from './core.ts';

// tests/support/bus.ts for the core of release 2.0: what is not here is as it is there.

export * from '../support/bus.ts';

export async function openBus(serverUrl: string): Promise<Bus> {
  const url = await createCore(serverUrl);
  const connection = await connect(url);
  const health = HealthRecorder.of(connection.db);
  const reset = async () => {
    await health.write();
    await rows(connection.db, EMPTY_ALL_TABLES);
  };
  return { ...connection, url, reset };
}

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

/** Settles outcomes as a relay does whose time is up. */
export async function settle(db: Database, outcomes: readonly LaneOutcome[]): Promise<Settled> {
  const { settled } = await takeTurn(db, { ...IDLE, outcomes });
  return settled!;
}

/** Gives places to the events that no open transaction holds back. */
export async function fanOut(db: Database): Promise<void> {
  await takeTurn(db, { ...IDLE, isLooking: true, topics: [], maxEvents: 1000 });
}

export const IDLE = {
  outcomes: [],
  continued: [],
  topics: null,
  subscriptions: new Map(),
  maxLanes: 0,
  maxDeliveries: 0,
  maxEvents: 0,
  isLooking: false,
  awaited: [],
  clockMs: 0,
  now: null,
};

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

/** The worst of the states of each event's deliveries, oldest first. */
export async function eventStates(db: Database): Promise<string[]> {
  const found = await rows<{ state: string }>(
    db,
    `select coalesce((select max(state)::text from deliveries where event_id = events.id),
       case when exists (select from awaiting where event_id = events.id) and subscribers <> '{}' then 'pending' else 'delivered' end) as state
     from events order by created_at, seq`,
  );
  return found.map(({ state }) => state);
}

/**
 * Looks for broken invariants.
 *
 * @returns one line for each; none when the invariants hold.
 */
export async function contradictions(db: Database): Promise<string[]> {
  const found = await rows<{ what: string }>(
    db,
    `select 'hole in stream ' || stream as what from log group by stream having count(*) <> max(position) - min(position) + 1
     union all
     select 'event without a place ' || id from events
     where not exists (select from log where event_id = id) and not exists (select from awaiting where event_id = id)
     union all
     select 'place without an event ' || event_id from log where not exists (select from events where id = event_id)
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
     where (later.created_at, later.seq) < (events.created_at, events.seq)`,
  );
  return found.map(({ what }) => what);
}
