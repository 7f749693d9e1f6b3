import { ADD_TO_BACKLOG, NOTHING_SETTLED } from './tally.ts';
import { driverOf, run } from '../db/statement.ts';
import type { Database } from '../db/connect.ts';

/**
 * What a survey saw of the producers that are in the middle of a transaction (the quiet fence).
 *
 * `emit` takes a shared lock on its topic before it reads the clock. So an event created before `at` belongs to a
 * transaction that has ended, or to one of `emitters`, which were read after `at`.
 */
export interface Survey {
  /** The database's clock, ISO 8601 in UTC with microseconds: as text later ones are greater. */
  readonly at: string;
  /** Open transactions that hold a topic's emitter lock; `lock` is the hash of the topic's name. */
  readonly emitters: readonly { readonly lock: number; readonly transaction: string }[];
}

/** Up to when the events of the topics of one lock may be fanned out. */
export interface Opening {
  readonly lock: number;
  /** Null: wait. */
  readonly until: string | null;
}

/**
 * Remembers, topic by topic, which transactions must end before the events of a moment may be fanned out.
 *
 * It waits for exactly those, not for silence: a topic with a new emitter at every survey is never quiet.
 */
export class QuietFence {
  static readonly #fences = new WeakMap<object, QuietFence>();

  /** The fence of a database, which outlives one pass of the relay: transactions may be longer than that. */
  static of(db: object): QuietFence {
    const fence = this.#fences.get(db) ?? new QuietFence();
    this.#fences.set(db, fence);
    return fence;
  }

  readonly #waiting = new Map<number, { at: string; transactions: ReadonlySet<string> }>();

  /** Takes in a survey. @returns the topics with open emitters; all others are open up to the survey's `at`. */
  pass(survey: Survey): Opening[] {
    const open = new Map<number, Set<string>>();
    for (const { lock, transaction } of survey.emitters) {
      open.set(lock, (open.get(lock) ?? new Set()).add(transaction));
    }
    for (const [lock, { at }] of this.#waiting) {
      if (!open.has(lock) && at <= survey.at) this.#waiting.delete(lock);
    }
    return Array.from(open, ([lock, transactions]) => {
      const earlier = this.#waiting.get(lock);
      // Two relays of a process share a fence: a survey may come in after a later one, and then says nothing of it.
      if (earlier && earlier.at > survey.at) return { lock, until: null };
      if (earlier && ![...earlier.transactions].some((transaction) => transactions.has(transaction))) {
        this.#waiting.set(lock, { at: survey.at, transactions });
        return { lock, until: earlier.at };
      }
      if (!earlier) this.#waiting.set(lock, { at: survey.at, transactions });
      return { lock, until: null };
    });
  }
}

/** Events fanned out by one statement at most; three times as many deliveries keep one statement under 100 ms. */
const FAN_OUT_LIMIT = 3000;

/** Second advisory lock space: one fan-out at a time, so that positions are drawn in commit order. */
export const FAN_OUT_LOCK = 0x9058;

/** What a fan-out did. */
export interface FannedOut {
  readonly events: number;
  /** Whether there are events that do not say whom they are for: see `addressEvents`. */
  readonly hasUnaddressed: boolean;
}

/**
 * Writes one delivery for each subscriber that an event names, for events whose place in the order is certain, in
 * `(created_at, seq)` order.
 *
 * Goes by what each event says, and not by a catalog: the event may be of a release with other topics or subscribers.
 *
 * Runs after the survey that `openings` come from, so that its snapshot sees every event created before `at`. Another
 * relay may be fanning out: then this does nothing. Should the other one end between this statement's snapshot and
 * its lock, the rows that it took are gone (`delete` passes over them) and what is left comes later in the order.
 *
 * @param now overrides the database's clock in tests.
 */
export async function fanOut(
  db: Database,
  survey: Survey,
  openings: readonly Opening[],
  now: string | null,
): Promise<FannedOut> {
  const [row] = await run<FannedOut>(driverOf(db), {
    name: 'fan_out',
    text: FAN_OUT,
    values: [JSON.stringify(openings), survey.at, now],
  });
  return row!;
}

// The commit does not wait for the disk. What a crash takes back nobody was handed: the claim that hands a delivery out
// comes later in the log, and waits for all that is before it. The markers are there again then.
const FAN_OUT = `
  with recursive durability as materialized (
    select set_config('synchronous_commit', 'off', true)
  ),
  fan_out_lock as materialized (
    select pg_try_advisory_xact_lock(${FAN_OUT_LOCK}, 0) as is_held from durability
  ),
  awaiting as (
    -- From each topic to the next: few wait, and to ask for all of them costs more than to fan out one event.
    (select topic from awaiting_fan_out order by topic limit 1)
    union all
    select (
      select next.topic from awaiting_fan_out as next where next.topic > awaiting.topic order by next.topic limit 1
    )
    from awaiting where awaiting.topic is not null
  ),
  topic as materialized (
    select awaiting.topic, case when opening.lock is null then $2::text::timestamptz else opening.until end as until,
      -- Nothing overtakes an event that does not say whom it is for.
      coalesce((
        select created_at from awaiting_fan_out as unaddressed
        where unaddressed.topic = awaiting.topic and subscribers is null order by created_at limit 1
      ), 'infinity') as addressed_until
    from awaiting left join jsonb_to_recordset($1::text::jsonb) as opening(lock bigint, until timestamptz)
      on opening.lock = (hashtext(awaiting.topic)::bigint & 4294967295)
    where awaiting.topic is not null
    -- Another order each time, so that under a flood no topic is always last.
    order by random()
  ),
  next as materialized (
    -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read in vain.
    select waiting.id
    from fan_out_lock, topic, lateral (
      select ctid as id from awaiting_fan_out
      where topic = topic.topic and created_at < topic.until and created_at < topic.addressed_until
      order by created_at, seq limit ${FAN_OUT_LIMIT}
    ) as waiting
    where fan_out_lock.is_held
    limit ${FAN_OUT_LIMIT}
  ),
  picked as (
    -- By address, not by a join, which would read all that waits.
    delete from awaiting_fan_out where ctid = any (array(select id from next)) returning awaiting_fan_out.*
  ),
  placed as materialized (
    select *, nextval('delivery_positions') as position from (select * from picked order by created_at, seq) as in_order
  ),
  lengthened as materialized (
    select topic, subscriber, ordering_key, max(tail) as tail, min(first_at) as first_at
    from (
      select topic, subscribers, ordering_key, max(position) as tail, min(created_at) as first_at
      from placed group by topic, subscribers, ordering_key
    ) as addressed_alike, unnest(subscribers) as subscriber
    group by topic, subscriber, ordering_key
  ),
  known_lane as materialized (
    select id, topic, subscriber, ordering_key, lengthened.tail, first_at
    from lengthened join lanes using (topic, subscriber, ordering_key)
  ),
  new_lane as (
    -- Another relay may have made one since this statement began: then it is lengthened here.
    insert into lanes (topic, subscriber, ordering_key, tail, due_at)
    select topic, subscriber, ordering_key, tail, least(first_at, $3::text::timestamptz)
    from lengthened where (topic, subscriber, ordering_key) not in (
      select topic, subscriber, ordering_key from known_lane
    )
    order by topic, subscriber, ordering_key
    on conflict (topic, subscriber, ordering_key) do update
      set tail = excluded.tail, due_at = coalesce(lanes.due_at, excluded.due_at)
    returning id, topic, subscriber, ordering_key
  ),
  lane as materialized (
    select id, topic, subscriber, ordering_key from known_lane union all select * from new_lane
  ),
  delivery as (
    insert into deliveries (lane_id, position, event_id, payload_bytes)
    select lane.id, position, event_id, payload_bytes from placed join lane using (topic, ordering_key)
    where lane.subscriber = any (placed.subscribers)
    order by position, lane.id
    returning 1
  ),
  -- Only now, so that whoever settles deliveries of these lanes does not wait for the rows to be written. Sorted, as
  -- settling locks lanes: two statements that touch the same ones can't wait for each other in a ring.
  locked_lane as materialized (
    select lanes.id, known_lane.tail, first_at from lanes join known_lane on known_lane.id = lanes.id
    where (select count(*) from delivery) >= 0
    order by lanes.topic, lanes.subscriber, lanes.ordering_key for update of lanes
  ),
  lengthened_lane as (
    update lanes set tail = locked_lane.tail,
      due_at = coalesce(lanes.due_at, least(first_at, $3::text::timestamptz))
    from locked_lane where lanes.id = locked_lane.id
    returning 1
  ),
  backlog_change as materialized (
    select topic, subscriber, sum(events) as pending, 0 as failing, 0 as dead_lettered, ${NOTHING_SETTLED}
    from (select topic, subscribers, count(*) as events from placed group by topic, subscribers) as addressed_alike,
      unnest(subscribers || ''::text) as subscriber
    -- After the lanes: the order in which all statements lock.
    where (select count(*) from lengthened_lane) >= 0
    group by topic, subscriber
  ),
  added as (${ADD_TO_BACKLOG}
  )
  select (select count(*)::int from placed) as events,
    exists (select from topic where addressed_until < 'infinity') as "hasUnaddressed"`;
