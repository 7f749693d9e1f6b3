import { events } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/database.ts';
import { run } from '../../platform/db/statement.ts';
import { MINUTE } from '../../platform/time.ts';
import { EMITTER_LOCKS } from '../outbox/emitter-locks.ts';
import { JOIN_PREPARED } from './prepared.ts';
import { OLDEST_SNAPSHOT } from './snapshot.ts';
import type { FoundSnapshot } from './snapshot.ts';

/** What breaks a promise. */
interface Finding {
  readonly promise: string;
  /** What breaks it, in the singular: `event`, `lane`. */
  readonly what: string;
  readonly count: number;
  /** Ids of the first five. */
  readonly examples: string[];
  /** Says what mends it, where an operator can. */
  readonly advice: string | null;
}

/** The result of checking that the bus kept its promises. */
export interface Examination {
  /** The promises that were checked. */
  readonly checked: string[];
  readonly findings: Finding[];
  /** How many of the newest events were checked. */
  readonly events: number;
  /** Settings of the database that weaken a promise, or that other programs there must allow for. */
  readonly settings: string[];
  readonly oldestSnapshot: FoundSnapshot | null;
}

/**
 * Checks that the bus kept its promises: nothing lost, streams and lanes in order, and records whose parts agree.
 *
 * Reads only, with one snapshot for each check, and only the newest events with their deliveries, and what is open.
 *
 * @param newest how many events to check.
 * @param longestMs the time after which a check is cancelled.
 * @throws the database's errors.
 */
export async function examine(db: Database, newest = 50_000, longestMs = MINUTE): Promise<Examination> {
  return await db.transaction(
    async (tx) => {
      const findings: Finding[] = [];
      await run(tx, {
        text: "select set_config('statement_timeout', $1::text, true)",
        values: [`${longestMs}ms`],
      });
      const seen = await tx.$count(tx.select({ id: events.id }).from(events).limit(newest).as('seen'));
      for (const { promise, what, advice = null, text } of CHECKS) {
        const [row] = await run<{ count: number; examples: string[] | null }>(tx, {
          text: `with ${COMMON}, wrong as (${text})
            select count(*)::int as count, (array_agg(example))[1:5] as examples from wrong`,
          values: [newest],
        });
        const { count, examples } = row!;
        if (count === 0) continue;
        findings.push({ promise, what, count, examples: examples ?? [], advice });
      }
      const checked = CHECKS.map(({ promise }) => promise);
      const [row] = await run<{ oldest: FoundSnapshot | null }>(tx, {
        text: `select (${OLDEST_SNAPSHOT}) as oldest`,
        values: [],
      });
      const doubts = await run<{ words: string }>(tx, { text: DOUBTS, values: [] });
      const settings = doubts.map(({ words }) => words);
      return { checked, findings, events: seen, settings, oldestSnapshot: row!.oldest };
    },
    { accessMode: 'read only' },
  );
}

// The range of the ids, which increase with time, finds the places of the newest events. What a check does not name is not read.
const COMMON = `
  event as materialized (
    select * from events order by id desc limit $1::int
  ),
  place as materialized (
    select * from log where event_id >= (select id from event order by id limit 1)
  ),
  delivery as materialized (
    select * from deliveries where event_id >= (select id from event order by id limit 1)
  ),
  -- Of each lane those of the newest events, and all that are open.
  exceptional as materialized (
    select exceptions.*, lanes.stream, head, leased_until, topic, subscriber
    from lane_heads as lanes join exceptions on lane = lanes.id left join (
      select stream, min(position) as position from place group by stream
    ) as first on first.stream = lanes.stream
    where is_open or exceptions.position >= first.position
  )`;

interface Check extends Pick<Finding, 'promise' | 'what'> {
  readonly advice?: string;
  /** Selects `example`, an id as text, for each violation. */
  readonly text: string;
}

const CHECKS: readonly Check[] = [
  {
    promise: 'every event has one place in the order, or awaits it',
    what: 'event',
    text: `select event.id::text as example from event
      left join (select event_id, count(*) as places from place group by event_id) as placed on event_id = event.id
      where coalesce(places, 0) + exists (select from awaiting where awaiting.event_id = event.id)::int <> 1`,
  },
  {
    promise: 'every event has a delivery for each subscriber it was emitted for',
    what: 'event',
    // A backfill gives it to others too. Of a subscriber that was retired, or has another name, there is none.
    text: `select event.id::text as example from event join place on event_id = event.id
        left join (
          select stream, array_agg(subscriber) as known from lanes group by stream
        ) as of_stream on of_stream.stream = place.stream
        left join (
          select event_id, array_agg(subscriber) as given from delivery where not backfilled group by event_id
        ) as of_event on of_event.event_id = event.id
      where exists (
        select unnest(subscribers) intersect select unnest(known) except select unnest(given)
      ) or exists (select unnest(given) except select unnest(subscribers)) and not exists (
        select from operator_actions where action in ('backfill', 'rename') and operator_actions.topic = event.topic
      )`,
  },
  {
    promise: 'every event that a backfill reached has its delivery',
    what: 'event',
    // What a stopped backfill left is not lost.
    text: `select event.id::text as example from event join place on event_id = event.id
        join backfills on backfills.topic = event.topic and created_at >= since and event.id <= reached
        join lanes on lanes.stream = place.stream and lanes.subscriber = backfills.subscriber
      where ended_at is not null
        and not exists (
          select from delivery where delivery.event_id = event.id and delivery.subscriber = backfills.subscriber
        )
        and not exists (
          select from operator_actions as stop where at = ended_at and action = 'stop_backfill'
            and stop.topic = backfills.topic and stop.subscriber = backfills.subscriber
        )`,
  },
  {
    promise: 'no timer was released before its time',
    what: 'timer',
    advice: 'A clock was ahead.',
    text: `select id::text as example from event where due_at > clock_timestamp() + interval '10 seconds'`,
  },
  {
    promise: 'every place, and every exception, is that of its event',
    what: 'event',
    text: `select event_id::text as example from place join streams on streams.id = stream left join events on events.id = event_id
      where (events.topic, events.ordering_key, events.version, slot > 0)
        is distinct from (streams.topic, place.ordering_key, place.version, place.ordering_key <> '')
      union
      select exceptional.event_id::text from exceptional
        left join log on log.stream = exceptional.stream and log.position = exceptional.position
      where (log.event_id, log.ordering_key) is distinct from (exceptional.event_id, exceptional.ordering_key)`,
  },
  {
    promise: 'events have their places in the order of creation',
    what: 'event',
    text: `select example from (
        select event_id::text as example, position - lag(position) over in_order as step,
          (created_at, seq) < lag((created_at, seq)) over in_order as is_early
        from place join events on events.id = event_id window in_order as (partition by stream order by position)
      ) as placed where is_early or step <> 1`,
  },
  {
    promise: 'no attempt began before the deliveries ahead in its lane ended',
    what: 'delivery',
    // A replay runs an older delivery after newer ones, which is not a violation; nor is what came before a backfill. The deliveries of a batch
    // begin one after the other and end together, after the same time: that is how they are known here, since only the relay
    // knows which were one batch. The journal has times in milliseconds.
    text: `select example from (
        select event_id || '.' || subscriber as example,
          state = 'delivered' and replays = 0 and not backfilled
          and attempted_at + interval '2 milliseconds' < lag(coalesce(delivered_at, dead_lettered_at)) over in_order
          and lag(replays) over in_order = 0 and (not lag(backfilled) over in_order or attempted_at >= (
            select begun_at from backfills
            where backfills.topic = delivery.topic and backfills.subscriber = delivery.subscriber order by requested_at desc limit 1
          ))
          and not coalesce(lag(state) over in_order = 'delivered'
            and attempted_at - lag(attempted_at) over in_order between interval '-2 milliseconds' and interval '1 second'
            and abs(duration_ms - lag(duration_ms) over in_order) <= 1, false) as is_early
        from delivery window in_order as (partition by lane, ordering_key order by position)
      ) as placed where is_early`,
  },
  {
    promise: 'no lane skipped an unfinished delivery or stopped at one',
    what: 'delivery',
    // Of each key a relay looks at the first. One that is in hand is that of whoever holds the lane.
    text: `select event_id || '.' || subscriber as example from exceptional as first
      where position > head or is_open and state in ('pending', 'failing')
        and case when is_held then leased_until is null else due_at is null and not exists (
          select from exceptions as earlier
          where earlier.lane = first.lane and earlier.ordering_key = first.ordering_key and earlier.is_open
            and earlier.position < first.position
        ) end`,
  },
  {
    promise: 'every lane has its journal, which one relay at a time wrote',
    what: 'lane',
    text: `select 'lane ' || lanes.id as example from lanes left join lane_heads using (id)
      where not coalesce(lane_heads.head <= lane_heads.tail, false) or exists (
        select from (
          select number <= lag(number) over (order by head, number) as is_double from (
            select head, number from journal where lane = lanes.id order by head desc, number desc limit 1000
          ) as newest
        ) as row where is_double
      )`,
  },
  {
    promise: 'every dead letter has the error of its group',
    what: 'dead letter',
    text: `select event_id || '.' || subscriber as example from exceptional
      where error_group is not null and not exists (select from error_groups where key = error_group)`,
  },
  {
    promise: 'nothing is set aside that nobody has repaired',
    what: 'row',
    advice: 'Their incident lists them: npx postbud incidents. npx postbud repair repairs each.',
    text: `select 'set-aside ' || id as example from set_aside where repaired_at is null order by id`,
  },
  {
    promise: 'no time lies ahead of the database’s clock',
    what: 'wrong time',
    // The longest lease is 80 seconds. A relay takes such times back when it next looks.
    text: `select id::text as example from event where created_at > clock_timestamp() + interval '10 seconds'
      union all
      select event_id::text from awaiting where created_at > clock_timestamp() + interval '10 seconds'
        and event_id not in (select id from event)
      union all
      select 'lane ' || id from lane_heads where leased_until > clock_timestamp() + interval '5 minutes'`,
  },
  {
    promise: 'no transaction that was prepared and never ended holds a topic back',
    what: 'prepared transaction',
    advice: 'End each with commit prepared or rollback prepared.',
    // A two-phase commit takes seconds. Of several topics it is one transaction.
    text: `select distinct gid as example from pg_locks ${JOIN_PREPARED}
      where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
        and pg_locks.database = (select oid from pg_database where datname = current_database())
        and prepared < clock_timestamp() - interval '5 seconds'`,
  },
  {
    promise: 'every provider that is asked for webhooks that never came has answered in the last 3 hours',
    what: 'provider',
    advice: 'The console’s Webhooks page says why.',
    // A provider that has not been asked in this time is no longer asked: its key was removed, or no relay runs.
    text: `select provider as example from reconciliations, (
        select clock_timestamp() - interval '3 hours' as since
      ) as limits
      where next_at > since and greatest(succeeded_at, begun_at) < since`,
  },
];

// Settings of the database that weaken a promise, or that other programs here must allow for.
const DOUBTS = `
  select 'Transactions are ' || isolation || ' by default. The event bus begins its own in READ COMMITTED; other programs '
    'must be ready to repeat theirs.' as words
  from current_setting('default_transaction_isolation') as isolation where isolation <> 'read committed'
  union all
  select 'synchronous_commit is off for ' || string_agg(who, ', ' order by who) || ': a crash of the server loses the last '
    'commits of other programs. Those of the event bus, and those with an event in them, are on disk.'
  from (
    select coalesce('the role ' || nullif(setrole, 0)::regrole, 'the database') as who
    from pg_db_role_setting
    where 'synchronous_commit=off' = any (setconfig)
      and setdatabase in (0, (select oid from pg_database where datname = current_database()))
    union
    -- That of the session: the statement itself waits for the disk.
    select 'the role ' || current_user from pg_settings where name = 'synchronous_commit' and reset_val = 'off'
  ) as hasty having count(*) > 0
  union all
  select count(*) || case when count(*) = 1 then ' replica' else ' replicas' end || ' without synchronous replication: '
    'promoting one loses the events that it had not received.'
  from pg_stat_replication where sync_state = 'async' having count(*) > 0
  union all
  select string_agg(topic, ', ' order by topic) || ': events wait until no producer’s transaction is open, because '
    || current_user || ' cannot see when those of other roles began. Grant it pg_read_all_stats.'
  from catalog_topics
  where exists (
    select from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
      and objid = (hashtext(topic)::bigint & 4294967295)::oid and pid is not null
      and database = (select oid from pg_database where datname = current_database())
      and (select xact_start from pg_stat_get_activity(pid)) is null
  ) and exists (select from awaiting where awaiting.topic = catalog_topics.topic limit 1)
  having count(*) > 0`;
