import type { Database } from '../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { ABSENT_KINDS } from './outage.ts';
import { clock, logged } from './parts.ts';
import { recounted } from './recount.ts';
import type { Subscription } from './subscription.ts';

/** Lanes of one transaction, which takes about 50 ms. */
const CHUNK = 1000;

/**
 * An outage counts from the first failure since its subscriber answered last. A settlement that has answers too counts no
 * failure where some were known: those of the same claim are older than the first that is counted, by some seconds, or by
 * a handler's time limit. Where none was known it counts them, so that an outage is known before their retries.
 * Less than the shortest wait for a retry, so that no lane is given back an attempt before these.
 */
const SLACK_MS = 30 * SECOND;

/** The outages of attached subscribers, as they were before anything was given back. */
interface GivenBack {
  /** When the next probe of each subscriber in an outage is due, in epoch milliseconds. */
  readonly nextProbes: ReadonlyMap<string, number>;
  /** Those that are over, also of subscribers that do not wait in one any more. */
  readonly over: readonly OutageOver[];
}

/** An outage that is over; its subscriber may have another one since. */
interface OutageOver {
  readonly subscriber: string;
  /** In microseconds since the epoch: as exact as in the database. */
  readonly opened_at: string;
}

/**
 * Gives back the attempts that failed because nobody was there, before the outage of their subscriber was known or while it
 * opened. A delivery is then as it was before them, and due, so that it can probe; its log keeps the attempts and says that
 * they are not counted. Doing it again changes nothing. What a relay has in hand is left to the next call.
 *
 * @param subscriptions their subscribers are given back theirs, in all topics, where they wait in an outage.
 * @param now overrides the database's clock in tests; ISO 8601.
 */
export async function giveBack(
  db: Database,
  subscriptions: ReadonlyMap<string, Subscription>,
  now: string | null = null,
): Promise<GivenBack> {
  const attached = [...subscriptions.values()];
  const names = new Set(attached.map(({ subscriber }) => subscriber.name));
  const found = await run<OutageOver & { next_probe_at: number; is_over: boolean }>(driverOf(db), {
    text: OUTAGES,
    values: [[...names].join(' '), now],
  });
  const known = new Set(found.map(({ subscriber }) => subscriber));
  const waiting = attached.filter(({ subscriber: { outage, name } }) => outage === 'wait' && known.has(name));
  const of = [...new Set(waiting.map(({ subscriber }) => subscriber.name))].join(' ');
  for (let last: string | null = '0'; last !== null && waiting.length > 0;)
    last = await giveBackAfter(db, last, of, now);
  const open = found.filter(({ is_over: isOver }) => !isOver);
  return {
    nextProbes: new Map(open.map(({ subscriber, next_probe_at: at }) => [subscriber, at])),
    over: found.filter(({ is_over: isOver }) => isOver),
  };
}

/** @returns the id of the last lane that it looked at; null after the last of all. */
async function giveBackAfter(
  db: Database,
  after: string,
  of: string,
  now: string | null,
): Promise<string | null> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const locked = await run<{ id: string }>(tx, { text: LOCK, values: [of, after] });
    const ids = locked.map(({ id }) => id);
    if (ids.length > 0) {
      const values = [`{${ids.join(',')}}`, JSON.stringify(ABSENT_KINDS), SLACK_MS, now];
      await run(tx, { text: GIVE_BACK, values });
    }
    return ids.length < CHUNK ? null : ids.at(-1)!;
  });
}

// One that has been over for a day is of a subscriber that is attached nowhere: nobody else would forget it.
const OUTAGES = `
  select subscriber, (extract(epoch from opened_at) * 1000000)::bigint::text as opened_at,
    (extract(epoch from next_probe_at) * 1000)::float8 as next_probe_at, recovered_at is not null as is_over
  from outages
  where subscriber = any (string_to_array($1::text, ' '))
    or recovered_at < coalesce($2::text::timestamptz, clock_timestamp()) - interval '1 day'`;

// Of all topics, also those that only another release attaches: the outage is of the subscriber, and ends for all of them. A
// delivery fails in a lane of a whole topic, or in the lane of its own key.
const LOCK = `
  select id::text as id from lanes
  where subscriber = any (string_to_array($1::text, ' ')) and id > $2::text::bigint and due_at < 'infinity'
    and lease_token is null and (home_id is not null or slot is null)
  order by id limit ${CHUNK} for update`;

const NOT_COUNTED = `format('%s not counted: %s was not there',
          case when burnt.attempts = 1 then '1 attempt' else burnt.attempts || ' attempts' end, subscriber)`;

// The attempts are counted from the last one that was no fault of the outage. The death of a relay says neither.
const GIVE_BACK = `
  with ${clock('$4')},
  first as materialized (
    select lanes.id, lanes.topic, lanes.subscriber, coalesce(home_id, lanes.id) as home, next.position,
      coalesce(began_at, opened_at) - $3::float8 * interval '1 millisecond' as since
    from lanes join outages using (subscriber), lateral (
      select position, attempts from postbud_next_2(lanes.id, home_id, slot, held_key, head, 1) limit 1
    ) as next
    where lanes.id = any ($1::text::bigint[]) and next.attempts > 0
  ),
  burnt as materialized (
    select first.*, least(attempts, (
      with entry as materialized (
        select number, entry ->> 'outcome' as outcome,
          entry ->> 'outcome' = 'failed' and $2::text::jsonb ? (entry ->> 'kind')
            and (entry ->> 'at')::timestamptz >= since as is_absence,
          entry ->> 'kind' = 'lease_expired' as is_lapse
        from jsonb_array_elements(attempt_log) with ordinality as logged(entry, number)
      )
      select count(*) from entry where is_absence and number > coalesce((
        select max(number) from entry
        where outcome in ('replayed', 'returned') or outcome = 'failed' and not is_absence and not is_lapse
      ), 0)
    )) as attempts
    from first join deliveries on lane_id = home and deliveries.position = first.position
    where state = 'failing'
  ),
  given_back as (
    update deliveries set attempts = deliveries.attempts - burnt.attempts,
      state = case when deliveries.attempts = burnt.attempts then 'pending' else 'failing' end::delivery_state,
      next_attempt_at = least(next_attempt_at, clock.now),
      attempt_log = ${logged('returned', { by: `'postbud'`, reason: NOT_COUNTED })}
    from clock, burnt
    where lane_id = home and deliveries.position = burnt.position and burnt.attempts > 0
    returning burnt.id, topic, subscriber, event_id, (deliveries.state = 'pending')::int as healed
  ),
  due as (
    update lanes set due_at = least(due_at, clock.now) from clock, given_back where lanes.id = given_back.id
  ),
  changed as materialized (
    select event_id, topic, subscriber, null::text as error_group, 0 as open, -healed as failing, 0 as dead
    from given_back where healed > 0
  ),${recounted('(select now from clock)')}
  select count(done) from counted`;
