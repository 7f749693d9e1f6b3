import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import type { Database } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { MINUTE } from '../../platform/time.ts';
import { JOIN_PREPARED } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';
import { oldSnapshotOf } from '../overview/old-snapshot.ts';
import { OLDEST_SNAPSHOT } from '../overview/snapshot.ts';
import type { FoundSnapshot } from '../overview/snapshot.ts';
import { doubtfulSettings } from './settings.ts';

export const examination = z.object({
  checked: z.array(z.string()).meta({ description: 'The promises that were checked.' }),
  findings: z.array(
    z.object({
      promise: z.string(),
      what: z.string(),
      count: shape.count,
      examples: z.array(z.string()).max(5).meta({ description: 'Ids.' }),
    }),
  ),
  events: shape.count.meta({ description: 'How many of the newest events were checked.' }),
  settings: z.array(z.string()).meta({
    description:
      'What surrounds the bus: settings of the database that weaken a promise, or that other programs there must allow for, who holds an old snapshot, and a directory that nobody can sign in with.',
  }),
});

export type Examination = z.output<typeof examination>;

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
      const findings: Examination['findings'] = [];
      await run(tx, {
        text: "select set_config('statement_timeout', $1::text, true)",
        values: [`${longestMs}ms`],
      });
      const seen = await tx.$count(tx.select({ id: events.id }).from(events).limit(newest).as('seen'));
      for (const { promise, what, text } of CHECKS) {
        const [row] = await run<{ count: number; examples: string[] | null }>(tx, {
          text: `with ${COMMON}, wrong as (${text})
            select count(*)::int as count, (array_agg(example))[1:5] as examples from wrong`,
          values: [newest],
        });
        const { count, examples } = row!;
        if (count === 0) continue;
        findings.push({ promise, what: what[count === 1 ? 0 : 1], count, examples: examples ?? [] });
      }
      const checked = CHECKS.map(({ promise }) => promise);
      const [row] = await run<{ oldest: FoundSnapshot | null }>(tx, {
        text: `select (${OLDEST_SNAPSHOT}) as oldest`,
        values: [],
      });
      const held = oldSnapshotOf(row!.oldest);
      const settings = [...(await doubtfulSettings(tx)), ...(held === null ? [] : [held.text])];
      return { checked, findings, events: seen, settings };
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

interface Check {
  readonly promise: string;
  /** A broken promise in words, for one violation and for several. */
  readonly what: readonly [one: string, many: string];
  /** Selects `example`, an id as text, for each violation. */
  readonly text: string;
}

const CHECKS: readonly Check[] = [
  {
    promise: 'every event has one place in the order, or awaits it',
    what: [
      'event neither has a place nor awaits one, or has more than one',
      'events neither have a place nor await one, or have more than one',
    ],
    text: `select event.id::text as example from event
      left join (select event_id, count(*) as places from place group by event_id) as placed on event_id = event.id
      where coalesce(places, 0) + exists (select from awaiting where awaiting.event_id = event.id)::int <> 1`,
  },
  {
    promise: 'every event has a delivery for each subscriber it was emitted for',
    what: [
      'event lacks a delivery for a subscriber it was emitted for, or has one for another',
      'events lack a delivery for a subscriber they were emitted for, or have one for another',
    ],
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
    what: [
      'event lacks the delivery that a backfill should have written',
      'events lack the delivery that a backfill should have written',
    ],
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
    what: [
      'timer was released before its time, by a clock that was ahead',
      'timers were released before their time, by a clock that was ahead',
    ],
    text: `select id::text as example from event where due_at > clock_timestamp() + interval '10 seconds'`,
  },
  {
    promise: 'every place, and every exception, is that of its event',
    what: ['event has a record that contradicts it', 'events have records that contradict them'],
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
    what: [
      'event comes before one that was created earlier, or behind a gap',
      'events come before ones that were created earlier, or behind gaps',
    ],
    text: `select example from (
        select event_id::text as example, position - lag(position) over in_order as step,
          (created_at, seq) < lag((created_at, seq)) over in_order as is_early
        from place join events on events.id = event_id window in_order as (partition by stream order by position)
      ) as placed where is_early or step <> 1`,
  },
  {
    promise: 'no attempt began before the deliveries ahead in its lane ended',
    what: [
      'delivery began before one ahead in its lane ended',
      'deliveries began before one ahead in their lane ended',
    ],
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
    what: [
      'unfinished delivery was skipped by its lane, or no relay will ever look at it',
      'unfinished deliveries were skipped by their lanes, or no relay will ever look at them',
    ],
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
    what: [
      'lane has no journal, is ahead of its stream, or was written by two relays at a time',
      'lanes have no journal, are ahead of their stream, or were written by two relays at a time',
    ],
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
    what: ['dead letter has a group that is not there', 'dead letters have groups that are not there'],
    text: `select event_id || '.' || subscriber as example from exceptional
      where error_group is not null and not exists (select from error_groups where key = error_group)`,
  },
  {
    promise: 'nothing is set aside that nobody has repaired',
    what: [
      'row is set aside: npx postbud set-aside shows it, npx postbud repair repairs it',
      'rows are set aside: npx postbud set-aside shows them, npx postbud repair repairs each',
    ],
    text: `select 'set-aside ' || id as example from set_aside where repaired_at is null order by id`,
  },
  {
    promise: 'no time lies ahead of the database’s clock',
    what: [
      'event was recorded, or lane is leased, until a time that only a wrong clock explains',
      'events were recorded, or lanes are leased, until times that only a wrong clock explains',
    ],
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
    what: [
      'prepared transaction holds a topic back; end it with commit prepared or rollback prepared',
      'prepared transactions hold topics back; end them with commit prepared or rollback prepared',
    ],
    // A two-phase commit takes seconds. Of several topics it is one transaction.
    text: `select distinct gid as example from pg_locks ${JOIN_PREPARED}
      where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
        and pg_locks.database = (select oid from pg_database where datname = current_database())
        and prepared < clock_timestamp() - interval '5 seconds'`,
  },
  {
    promise: 'every provider that is asked for webhooks that never came has answered in the last 3 hours',
    what: [
      'provider has not answered for 3 hours when asked for webhooks that never came; the console’s Webhooks page says why',
      'providers have not answered for 3 hours when asked for webhooks that never came; the console’s Webhooks page says why',
    ],
    // A provider that has not been asked in this time is no longer asked: its key was removed, or no relay runs.
    text: `select provider as example from reconciliations, (
        select clock_timestamp() - interval '3 hours' as since
      ) as limits
      where next_at > since and greatest(succeeded_at, begun_at) < since`,
  },
];
