import { topics } from '../../bus/catalog/catalog.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { MOST_EVENTS } from './post.ts';
import type { Recorded, Refused } from './post.ts';

/** An event of the outbox that the bus refused for good, and about which nothing was decided yet. */
export interface SetAside extends Refused {
  readonly refusedAt: Date;
}

/** Lists the events that are set aside, oldest first: each waits for `retry` or `discard`, and its order behind it. */
export async function setAside(db: Executor): Promise<SetAside[]> {
  const found = await run<Refused & { refusedAtMs: number }>(db, { text: LIST, values: [] });
  return found.map(({ refusedAtMs, ...refused }) => ({ ...refused, refusedAt: new Date(refusedAtMs) }));
}

const LIST = `
  select topic, id, code, reason, (extract(epoch from refused_at) * 1000)::float8 as "refusedAtMs"
  from postbud_outbox_refused join postbud_outbox using (place, recorded_at, topic, id)
  where decided_at is null
  order by place`;

/** An event by its topic and its id at its source. */
type Named = Pick<Refused, 'topic' | 'id'>;

/**
 * Has an event that is set aside sent again by the next pass, and what waits behind it after it: the cause is gone, for
 * example because the bus has this version of the payload now.
 *
 * @param because is kept with the refusal.
 * @returns whether it was set aside.
 */
export async function retry(db: Executor, { topic, id }: Named, because: string): Promise<boolean> {
  return (await run(db, { text: RETRY, values: [topic, id, required(because)] })).length > 0;
}

const RETRY = `
  update postbud_outbox_refused set decision = 'retry', decided_because = $3::text, decided_at = clock_timestamp()
  where topic = $1::text and id = $2::text and decided_at is null
  returning 1`;

/**
 * Takes an event that is set aside out of the outbox: the bus will never have it, and what waits behind it goes on. It is
 * kept beside its refusal.
 *
 * @param because is kept with it.
 * @returns whether it was set aside.
 */
export async function discard(db: Executor, { topic, id }: Named, because: string): Promise<boolean> {
  return (await run(db, { text: DISCARD, values: [topic, id, required(because)] })).length > 0;
}

// Both or none of two that are called at once find the refusal undecided: the first locks its row.
const DISCARD = `
  with refused as (
    update postbud_outbox_refused as refused
    set decision = 'discard', decided_because = $3::text, decided_at = clock_timestamp(), event = waiting.event
    from postbud_outbox as waiting
    where refused.topic = $1::text and refused.id = $2::text and decided_at is null
      and (waiting.place, waiting.recorded_at) = (refused.place, refused.recorded_at)
    returning refused.place
  )
  delete from postbud_outbox where place in (select place from refused) returning 1`;

function required(because: string): string {
  if (typeof because === 'string' && because.trim() !== '') return because;
  throw new TypeError("because: expected a reason, for example 'recorded for the wrong booking'");
}

/** Sets an event aside, unless it has left the outbox or another forwarder did. */
export async function putAside(
  db: Executor,
  { place, topic, id, code, reason }: Recorded & Refused,
): Promise<void> {
  await run(db, { text: PUT_ASIDE, values: [place, topic, id, code, reason] });
}

const PUT_ASIDE = `
  insert into postbud_outbox_refused (place, recorded_at, topic, id, code, reason)
  select place, recorded_at, topic, id, $4::text, $5::text from postbud_outbox
  where place = $1::bigint and topic = $2::text and id = $3::text
  on conflict (place, recorded_at) do update set code = excluded.code, reason = excluded.reason,
    refused_at = excluded.refused_at, decision = null, decided_because = null, decided_at = null
  where postbud_outbox_refused.decision = 'retry'`;

/** By topic, the field that is its ordering key. */
const orderedBy = JSON.stringify(
  Object.fromEntries(topics().map(([name, topic]) => [name, topic.orderedBy])),
);

/**
 * Reads the first events up to a place that may be sent, as many as one request takes: those that are not set aside, nor
 * behind one that is.
 *
 * Behind one are the events of its topic with the same ordering key. So are those of the same timer, whose cancellation has no
 * key; also where the timer is not set aside itself, but behind one that is.
 *
 * @param hasRefusals false where the service has not made that table: nothing is set aside then.
 */
export async function nextUpTo(db: Executor, place: string, hasRefusals: boolean): Promise<Recorded[]> {
  const statement = hasRefusals
    ? { text: NEXT, values: [place, orderedBy] }
    : { text: FIRST, values: [place] };
  return await run<Recorded>(db, statement);
}

const UP_TO =
  'select place::text, topic, id, event::text from postbud_outbox as waiting where place <= $1::bigint';
const IN_ORDER = `order by waiting.place limit ${MOST_EVENTS}`;
const FIRST = `${UP_TO} ${IN_ORDER}`;

const keyOf = (row: string) =>
  `coalesce(${row}.event ->> 'orderingkey', ${row}.event -> 'data' ->> ($2::text::jsonb ->> ${row}.topic), '')`;

// With `not in`, which Postgres hashes whatever it expects: much is set aside where a service was deployed before the bus.
// It needs no place, since what was before an event in its order has gone when that is set aside.
const NEXT = `
  with aside as materialized (
    select waiting.topic, ${keyOf('waiting')} as key, waiting.event ->> 'timerkey' as timer
    from postbud_outbox_refused as refused join postbud_outbox as waiting using (place, recorded_at)
    where refused.decided_at is null
  ),
  waiting_timers as materialized (
    select topic, timer from aside where timer is not null
    union all
    select topic, event ->> 'timerkey' from postbud_outbox as waiting
    where exists (select from aside) and event ? 'timerkey'
      and ((topic, ${keyOf('waiting')}) not in (select topic, key from aside)) is false
  )
  ${UP_TO} and (topic, ${keyOf('waiting')}) not in (select topic, key from aside)
    and (event ->> 'timerkey' is null or (topic, event ->> 'timerkey') not in (select topic, timer from waiting_timers))
  ${IN_ORDER}`;
