import { ADD_TO_BACKLOG, NOTHING_SETTLED } from '../backlog/tally.ts';
import { catalog } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
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
const FAN_OUT_LOCK = 0x9058;

/**
 * Writes one delivery per subscriber for events whose place in the order is certain, in `(created_at, seq)` order.
 *
 * Runs after the survey that `openings` come from, so that its snapshot sees every event created before `at`. Another
 * relay may be fanning out: then this does nothing. Should the other one end between this statement's snapshot and
 * its lock, the rows that it took are gone (`delete` passes over them) and what is left comes later in the order.
 *
 * @param now overrides the database's clock in tests.
 * @returns how many events were fanned out.
 */
export async function fanOut(
  db: Database,
  survey: Survey,
  openings: readonly Opening[],
  now: string | null,
): Promise<number> {
  const [row] = await run<{ events: number }>(driverOf(db), {
    name: 'fan_out',
    text: FAN_OUT,
    values: [TOPICS, JSON.stringify(openings), survey.at, now],
  });
  return row!.events;
}

const TOPICS = JSON.stringify(
  Object.entries<Topic>(catalog).map(([topic, { subscribers }]) => ({ topic, subscribers })),
);

// A topic that this release does not know stays where it is, for a relay of the release that emitted it.
//
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
    select known.topic, known.subscribers, jsonb_array_length(known.subscribers)::smallint as open,
      case when opening.lock is null then $3::text::timestamptz else opening.until end as until
    from awaiting join jsonb_to_recordset($1::text::jsonb) as known(topic text, subscribers jsonb) using (topic)
    left join jsonb_to_recordset($2::text::jsonb) as opening(lock bigint, until timestamptz)
      on opening.lock = (hashtext(known.topic)::bigint & 4294967295)
    -- Another order each time, so that under a flood no topic is always last.
    order by random()
  ),
  next as materialized (
    -- Each topic in its own order; between topics there is none, so that nothing need be sorted or read in vain.
    select waiting.id
    from fan_out_lock, topic, lateral (
      select ctid as id from awaiting_fan_out
      where topic = topic.topic and created_at < topic.until
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
    select topic, subscriber, ordering_key, tail, first_at
    from (
      select topic, ordering_key, max(position) as tail, min(created_at) as first_at
      from placed group by topic, ordering_key
    ) as lane_of_topic
      join topic using (topic), jsonb_array_elements_text(topic.subscribers) as subscriber
  ),
  known_lane as materialized (
    select id, topic, subscriber, ordering_key, lengthened.tail, first_at
    from lengthened join lanes using (topic, subscriber, ordering_key)
  ),
  new_lane as (
    -- Another relay may have made one since this statement began: then it is lengthened here.
    insert into lanes (topic, subscriber, ordering_key, tail, due_at)
    select topic, subscriber, ordering_key, tail, least(first_at, $4::text::timestamptz)
    from lengthened where (topic, subscriber, ordering_key) not in (
      select topic, subscriber, ordering_key from known_lane
    )
    order by topic, subscriber, ordering_key
    on conflict (topic, subscriber, ordering_key) do update
      set tail = excluded.tail, due_at = coalesce(lanes.due_at, excluded.due_at)
    returning id, topic, ordering_key
  ),
  lane as materialized (
    select id, topic, ordering_key from known_lane union all select * from new_lane
  ),
  delivery as (
    insert into deliveries (lane_id, position, event_id, payload_bytes)
    select lane.id, position, event_id, payload_bytes from placed join lane using (topic, ordering_key)
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
      due_at = coalesce(lanes.due_at, least(first_at, $4::text::timestamptz))
    from locked_lane where lanes.id = locked_lane.id
    returning 1
  ),
  backlog_change as materialized (
    select topic, subscriber, events as pending, 0 as failing, 0 as dead_lettered, ${NOTHING_SETTLED}
    from (select topic, count(*) as events from placed group by topic) as fanned_out
      join topic using (topic), jsonb_array_elements_text(topic.subscribers || '""') as subscriber
    -- After the lanes: the order in which all statements lock.
    where (select count(*) from lengthened_lane) >= 0
  ),
  added as (${ADD_TO_BACKLOG}
  ),
  miscounted as materialized (
    -- Emitted by a release whose catalog had another number of subscribers.
    select event_id, topic.open from placed join topic using (topic) where placed.open <> topic.open
  ),
  recounted as (
    update events set open = miscounted.open from miscounted
    where events.id = miscounted.event_id and events.id = any (array(select event_id from miscounted))
  )
  select count(*)::int as events from placed`;
