import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
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
 * Checks that the bus kept its promises: nothing lost, lanes in order, states that agree with each other.
 *
 * Reads only, with one snapshot for each check, and only the newest events with their deliveries, and the counts.
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

// The range of the ids, which increase with time, finds the deliveries of the newest events.
const COMMON = `
  event as materialized (
    select * from events order by id desc limit $1::int
  ),
  delivery as materialized (
    select deliveries.*, home.topic as lane_topic, home.subscriber, lane.head,
      lane.due_at is null and lane.lease_token is null as is_asleep
    from deliveries join lanes as home on home.id = lane_id
      left join lanes as of_key on of_key.home_id = home.id and of_key.held_key = lane_key
      join lanes as lane on lane.id = coalesce(of_key.id, home.id)
    where event_id >= (select id from event order by id limit 1)
  ),
  truth as materialized (
    select event_id, count(*) as total, count(*) filter (where state in ('pending', 'failing')) as open,
      count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered' and dismissed_at is null) as dead_lettered,
      -- A dismissed dead letter no longer counts.
      max(case when dismissed_at is null then state else 'delivered' end) as worst,
      array_agg(subscriber) as subscribers, min(position) as position
    from delivery group by event_id
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
    promise: 'every event waits for fan-out or is fanned out',
    what: [
      'event neither waits for fan-out nor has deliveries, or does both',
      'events neither wait for fan-out nor have deliveries, or do both',
    ],
    text: `select event.id::text as example from event left join truth on event_id = event.id
      where (event_id is null) = not exists (select from awaiting_fan_out where event_id = event.id)`,
  },
  {
    promise: 'every event has a delivery for each subscriber it was emitted for',
    what: [
      'event lacks a delivery for a subscriber it was emitted for, or has one for another',
      'events lack a delivery for a subscriber they were emitted for, or have one for another',
    ],
    text: `select event.id::text as example from event join truth on event_id = event.id
      where not (event.subscribers @> truth.subscribers and truth.subscribers @> event.subscribers)`,
  },
  {
    promise: 'every event that a backfill reached has its delivery',
    what: [
      'event lacks the delivery that a backfill should have written',
      'events lack the delivery that a backfill should have written',
    ],
    // What a stopped backfill left is not lost, and a subscriber with another name has its deliveries under that.
    text: `select event.id::text as example from event join truth on event_id = event.id, backfills
      where event.topic = backfills.topic and created_at >= since and truth.position <= until
        and ended_at is not null and renamed_from is null
        and not truth.subscribers @> array[backfills.subscriber]
        and not exists (
          select from operator_actions as stop where at = ended_at and action = 'stop_backfill'
            and stop.topic = backfills.topic and stop.subscriber = backfills.subscriber
        )
        and not exists (
          select from backfills as later
          where later.topic = backfills.topic and later.renamed_from = backfills.subscriber
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
    promise: 'no event has two deliveries for one subscriber',
    what: ['event has two deliveries for one subscriber', 'events have two deliveries for one subscriber'],
    text: `select event_id::text as example from delivery group by event_id, subscriber having count(*) > 1`,
  },
  {
    promise: 'every delivery has its event',
    what: ['delivery has no event', 'deliveries have no event'],
    text: `select lane_id || '-' || position as example from delivery
      where not exists (select from events where id = event_id)`,
  },
  {
    promise: 'the state and counters of every event match its deliveries',
    what: [
      'event has a state or counters that contradict its deliveries',
      'events have a state or counters that contradict their deliveries',
    ],
    text: `select event.id::text as example from event join truth on event_id = event.id
      where (event.open, event.failing, event.dead_lettered, event.state)
        is distinct from (truth.open, truth.failing, truth.dead_lettered, worst)`,
  },
  {
    promise: 'lanes are in the order of creation',
    what: [
      'delivery precedes that of an earlier event in its lane',
      'deliveries precede that of an earlier event in their lane',
    ],
    text: `select example from (
        select lane_id || '-' || position as example, (created_at, seq) <
          lag((created_at, seq)) over (partition by lane_id order by position) as is_early
        from delivery join event on event.id = event_id
      ) as placed where is_early`,
  },
  {
    promise: 'no attempt began before the deliveries ahead in its lane ended',
    what: [
      'delivery began before one ahead in its lane ended',
      'deliveries began before one ahead in their lane ended',
    ],
    // A replay runs an older delivery after newer ones, which is not a violation. Nor is a backfill of events that are
    // older than what relays had claimed before it began. The deliveries of a batch begin one after the other and end
    // together, after the same time: that is how they are known here, since only the relay knows which were one batch.
    text: `select example from (
        select lane_id || '-' || position as example, lane_topic, subscriber, attempted_at,
          state = 'delivered' and replays = 0
          and attempted_at + interval '1 millisecond' < lag(coalesce(delivered_at, dead_lettered_at)) over in_order
          and lag(replays) over in_order = 0
          and not coalesce(lag(state) over in_order = 'delivered'
            and attempted_at - lag(attempted_at) over in_order between interval '-1 millisecond' and interval '1 second'
            and abs(duration_ms - lag(duration_ms) over in_order) <= 1, false) as is_early,
          lag(case when backfilled then attempt_log end) over in_order as log_ahead
        from delivery window in_order as (partition by lane_id, lane_key order by position)
      ) as placed where is_early and not exists (
        select from backfills, jsonb_array_elements(log_ahead) as entry
        where backfills.topic = lane_topic and backfills.subscriber = placed.subscriber
          and attempted_at < begun_at and entry ->> 'outcome' = 'backfilled'
          and begun_at <= (entry ->> 'at')::timestamptz
      )`,
  },
  {
    promise: 'no lane skipped an unfinished delivery or stopped at one',
    what: [
      'unfinished delivery was skipped by its lane, or its lane will never be claimed again',
      'unfinished deliveries were skipped by their lane, or their lane will never be claimed again',
    ],
    text: `select lane_id || '-' || position as example from delivery
      where state in ('pending', 'failing') and (position <= head or is_asleep)`,
  },
  {
    promise: 'every stopped lane has a known cause: a dead letter that halts it, or a backfill',
    what: [
      'lane is due at no time, but no dead letter halts it and no backfill is under way',
      'lanes are due at no time, but no dead letter halts them and no backfill is under way',
    ],
    text: `select 'lane ' || id as example from lanes
      where due_at = 'infinity' and coalesce(postbud_front_1(
        topic, subscriber, coalesce(home_id, id), nullif(held_key, '')) > head, true)`,
  },
  {
    promise: 'every dead letter that halts a lane is there',
    what: [
      'halt names a delivery that does not exist, so that nobody can end it',
      'halts name deliveries that do not exist, so that nobody can end them',
    ],
    text: `select halts.lane_id || '-' || halts.position as example from halts
      where not exists (
        select from deliveries where deliveries.lane_id = halts.lane_id and deliveries.position = halts.position
      )`,
  },
  {
    promise: 'operator counts are exact',
    what: ['operator count disagrees with the rows', 'operator counts disagree with the rows'],
    text: `select topic || ' ' || subscriber as example from (
        select topic, subscriber, count(*) filter (where state = 'pending') as pending,
          count(*) filter (where state = 'failing') as failing
        from lanes, lateral (
          select state from deliveries
          where lane_id = lanes.id and state in ('pending', 'failing')
            and position > least(head, (select min(own.head) from lanes as own where own.home_id = lanes.id))
        ) as open where home_id is null and topic <> '${SMOKE_TEST.topic}' group by topic, subscriber
      ) as counted full join (
        select topic, subscriber, sum(pending) as pending, sum(failing) as failing from backlog
        where subscriber <> '' group by topic, subscriber having sum(pending) <> 0 or sum(failing) <> 0
      ) as kept using (topic, subscriber)
      where (counted.pending, counted.failing) is distinct from (kept.pending, kept.failing)
      union all
      select coalesce(key, error_group) from error_groups full join (
        select error_group, count(*) as count from deliveries where error_group is not null group by error_group
      ) as counted on error_group = key
      where coalesce(count, 0) <> coalesce(dead_lettered, 0)`,
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
      select event_id::text from awaiting_fan_out where created_at > clock_timestamp() + interval '10 seconds'
        and event_id not in (select id from event)
      union all
      select 'lane ' || id from lanes
      where lease_token is not null and coalesce(due_at, leased_until) > clock_timestamp() + interval '5 minutes'`,
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
