import { isDeepStrictEqual } from 'node:util';

import type { PastAttempt } from '../../../../drizzle/schema.ts';
import type { Transaction } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';

/** An event, or a timer, as it is stored. */
export interface StoredEvent {
  readonly id: string;
  readonly topic: string;
  readonly version: number;
  readonly payload: unknown;
  readonly ordering_key: string;
  readonly dedupe_key: string | null;
  readonly correlation_id: string | null;
  /** Of a timer. */
  readonly timer_key: string | null;
  /** Whether deliveries that are not made, or a timer, depend on its ordering key, so that it has to stay. */
  readonly is_bound: boolean;
}

/** What an event is overwritten with. */
export interface OverwrittenEvent extends Pick<
  StoredEvent,
  'id' | 'payload' | 'dedupe_key' | 'correlation_id'
> {
  /** Whether one of these differs. */
  readonly isChanged: boolean;
  /** Takes the place of its ordering key, with a number behind it; null where that stays. */
  readonly pseudonym: string | null;
}

/**
 * Overwrites events and timers, and the attempts of the events' deliveries. Ids, order, counts and states stay.
 *
 * @param overwritten must give the same pseudonym for all events of a key, so that these stay in one order.
 * @param overwrittenAttempt is told the event of its delivery, unless somebody has deleted that by hand.
 * @returns what the events became, the timers behind them, and how many deliveries have other attempts than before.
 */
export async function overwriteEvents<Overwritten extends OverwrittenEvent>(
  tx: Transaction,
  ids: readonly string[],
  overwritten: (event: StoredEvent) => Overwritten,
  overwrittenAttempt: (entry: PastAttempt, event: Overwritten | undefined) => PastAttempt,
): Promise<{ readonly events: readonly Overwritten[]; readonly deliveries: number }> {
  const asked = JSON.stringify(ids);
  // In the order of locks.ts: timers, lanes, exceptions, events. A timer that is released before its lock is an event after
  // it. A delivery that gets its place from here on is handed over overwritten, or its relay is waited for.
  const foundTimers = await run<StoredEvent>(tx, { text: LOCK_TIMERS, values: [asked] });
  const places = await run<Place>(tx, { text: PLACES, values: [asked] });
  const placed = JSON.stringify(places);
  await run(tx, { text: LOCK_LANES, values: [placed] });
  const deliveries = await run<FoundDelivery>(tx, { text: EXCEPTIONS, values: [placed] });
  const foundEvents = await run<StoredEvent>(tx, { text: LOCK_EVENTS, values: [asked] });

  const events = foundEvents.map(overwritten);
  const timers = foundTimers.map(overwritten);
  const eventOf = new Map(events.map((event) => [event.id, event]));
  const changedLogs = deliveries.flatMap(({ event_id: eventId, attempt_log: log, ...place }) => {
    const attempts = log.map((entry) => overwrittenAttempt(entry, eventOf.get(eventId)));
    return isDeepStrictEqual(attempts, log) ? [] : [{ ...place, attempt_log: attempts }];
  });
  const rekeyed = events.filter(({ pseudonym }) => pseudonym !== null);
  await run(tx, { text: WRITE_ATTEMPTS, values: [JSON.stringify(changedLogs)] });
  await run(tx, { text: WRITE_EVENTS, values: [JSON.stringify(events.filter(isChanged))] });
  await run(tx, { text: WRITE_TIMERS, values: [JSON.stringify(timers.filter(isChanged))] });
  await run(tx, { text: WRITE_KEYS, values: [placed, JSON.stringify(rekeyed)] });
  return { events: [...events, ...timers], deliveries: changedLogs.length };
}

const isChanged = (event: OverwrittenEvent) => event.isChanged;

interface Place {
  readonly stream: number;
  readonly position: string;
  readonly event_id: string;
}

interface FoundDelivery {
  readonly lane: number;
  readonly position: string;
  readonly event_id: string;
  readonly attempt_log: readonly PastAttempt[];
}

const IDS = `(select value::uuid as id from jsonb_array_elements_text($1::jsonb) as value)`;

// One event after the other, so that each reads its own block ranges only.
const PLACES = `
  select stream, position::text, event.id::text as event_id
  from ${IDS} as event, lateral (
    select stream, position from log where event_id = event.id offset 0
  ) as placed`;

const PLACED = `jsonb_to_recordset($1::jsonb) as placed(stream int, position bigint, event_id uuid)`;

const LOCK_LANES = `
  select postbud_lock_lanes_2(array(select id from lanes where stream in (select stream from ${PLACED})))`;

const EXCEPTIONS = `
  select lane, exceptions.position::text, exceptions.event_id::text, attempt_log
  from ${PLACED} join lanes using (stream) join exceptions on lane = lanes.id and exceptions.position = placed.position
  where attempt_log is not null order by lane, exceptions.position`;

const LOCK_EVENTS = `
  select id::text, topic, version, payload, ordering_key, dedupe_key, correlation_id, null as timer_key,
    not exists (select from log where event_id = events.id)
      or exists (
        select from lanes join exceptions on lane = lanes.id
        where lanes.topic = events.topic and exceptions.ordering_key = events.ordering_key and is_open
      )
      or exists (select from deliveries where event_id = events.id and is_open) as is_bound
  from events where id in (select id from ${IDS} as event) order by id for update`;

// Its producer moves and cancels it by its key, and it is released by its ordering key.
const LOCK_TIMERS = `
  select id::text, topic, version, payload, ordering_key, dedupe_key, correlation_id, timer_key,
    true as is_bound
  from timers where id in (select id from ${IDS} as event) order by id for update`;

const WRITE_ATTEMPTS = `
  update exceptions set attempt_log = written.attempt_log
  from jsonb_to_recordset($1::jsonb) as written(lane int, position bigint, attempt_log jsonb)
  where exceptions.lane = written.lane and exceptions.position = written.position`;

const WRITTEN = `
  with written as materialized (
    select * from jsonb_to_recordset($1::jsonb)
      as written(id uuid, payload jsonb, dedupe_key text, correlation_id text)
  )`;

const WRITE_EVENTS = `${WRITTEN}
  update events set payload = written.payload, dedupe_key = written.dedupe_key,
    correlation_id = written.correlation_id, erased_at = clock_timestamp()
  from written where events.id = written.id`;

const WRITE_TIMERS = `${WRITTEN},
  used as (
    update timer_dedupe_keys set dedupe_key = written.dedupe_key
    from written where timer_id = written.id and timer_dedupe_keys.dedupe_key <> written.dedupe_key
  )
  update timers set payload = written.payload, dedupe_key = written.dedupe_key,
    correlation_id = written.correlation_id, erased_at = clock_timestamp()
  from written where timers.id = written.id`;

const WRITE_KEYS = `
  with rekeyed as materialized (
    -- Of the same stream.
    select id, (
      select pseudonym || ' ' || number from generate_series(0, 999) as number
      where postbud_slot(pseudonym || ' ' || number) = postbud_slot(ordering_key) order by number limit 1
    ) as pseudonym
    from jsonb_to_recordset($2::jsonb) as rekeyed(id uuid, pseudonym text) join events using (id)
  ),
  place as (
    update log set ordering_key = pseudonym from ${PLACED} join rekeyed on rekeyed.id = placed.event_id
    where log.stream = placed.stream and log.position = placed.position
  ),
  exception as (
    update exceptions set ordering_key = pseudonym
    from ${PLACED} join rekeyed on rekeyed.id = placed.event_id join lanes using (stream)
    where exceptions.lane = lanes.id and exceptions.position = placed.position
  )
  update events set ordering_key = pseudonym, erased_at = clock_timestamp() from rekeyed where events.id = rekeyed.id`;
