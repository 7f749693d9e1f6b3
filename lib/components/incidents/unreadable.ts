import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { run } from '../../platform/db/statement.ts';
import { MINUTE } from '../../platform/time.ts';
import type { Failure } from './failures.ts';

/** While one release replaces another, deliveries wait for the newer one for some seconds. */
const PATIENCE_MS = 1 * MINUTE;

/** Lanes of a subscription that are read; more say no more. */
const LANES = 2000;

/** Deliveries that are counted in the lane of a key. */
const COUNTED = 100;

/**
 * Reads the subscriptions with deliveries whose payloads are of a version that nobody reads: no running relay, or the
 * component elsewhere, which answers so. They use up no attempts, so nothing else tells of them.
 *
 * @param now overrides the database's clock in tests.
 */
export async function findUnreadable(tx: Transaction, now?: Date): Promise<readonly Failure[]> {
  const found = await run<Found>(tx, { text: UNREADABLE, values: [now?.toISOString() ?? null] });
  return found.map(({ topic, subscriber, version, is_elsewhere: isElsewhere, ...of }): Failure => {
    const remedy = isElsewhere
      ? `install a newer postbud package where ${subscriber} runs`
      : 'no running relay reads it: deploy a release that does';
    const message = `${topic} is version ${version}; ${remedy}`;
    return { topic, subscriber, kind: NEWER_VERSION, message, halted: 0, dead: 0, ...of };
  });
}

interface Found {
  readonly topic: string;
  readonly subscriber: string;
  readonly version: number;
  readonly is_elsewhere: boolean;
  readonly lanes: number;
  readonly waiting: number;
  readonly since: string;
}

// A relay that cannot read a lane's next delivery leaves it due, for one that can. A component elsewhere asks to wait; its
// lane, or that of the key, waits for the next time. What an operator or an outage holds is reported as that.
const UNREADABLE = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, sum(pending) + sum(failing) as waiting from backlog where subscriber <> '' and not exists (
      select from pauses where pauses.subscriber = backlog.subscriber and pauses.topic in ('', backlog.topic)
    ) and not exists (
      select from outages where outages.subscriber = backlog.subscriber and recovered_at is null
    )
    group by topic, subscriber having sum(pending) + sum(failing) > 0
  ),
  unread as (
    select subscription.topic, subscription.subscriber, lane.version, false as is_elsewhere, lane.since,
      case when ordering_key = '' then waiting end as all_waiting, lane.id, home_id, slot, held_key, head
    from clock, subscription, lateral (
      select *, waits_for_version as version, due_at as since from (
        select * from lanes
        where (lanes.topic, lanes.subscriber, due_at) >= (subscription.topic, subscription.subscriber, '-infinity')
          and (lanes.topic, lanes.subscriber, due_at) <= (subscription.topic, subscription.subscriber,
            clock.now - ${PATIENCE_MS} * interval '1 millisecond')
          and due_at is not null and lease_token is null
        order by lanes.topic, lanes.subscriber, due_at limit ${LANES}
      ) as longest_due where waits_for_version is not null
    ) as lane
  ),
  refused as (
    select subscription.topic, subscription.subscriber, events.version, true as is_elsewhere, first.since,
      case when lane.ordering_key = '' then waiting end as all_waiting, lane.id, home_id, slot, held_key, head
    from clock, subscription, lateral (
      (
        select * from (${leasedHomeLanes('subscription.topic', 'subscription.subscriber')}
        ) as leased where slot is null and waits_for_version is null
      )
      union all
      (
        select * from lanes
        -- Rows are compared as the index has them: the planner would read the lanes of all keys in trouble.
        where (lanes.topic, lanes.subscriber, due_at) >= (subscription.topic, subscription.subscriber, '-infinity')
          and (lanes.topic, lanes.subscriber, due_at) < (subscription.topic, subscription.subscriber, 'infinity')
          and due_at is not null and (home_id is not null or slot is null) and waits_for_version is null
        order by lanes.topic, lanes.subscriber, due_at limit ${LANES}
      )
    ) as lane, lateral (
      select deliveries.event_id, (
        select min((entry ->> 'at')::timestamptz) from jsonb_array_elements(attempt_log) as entry
        where entry ->> 'kind' = '${NEWER_VERSION}'
      ) as since
      from postbud_next_2(lane.id, home_id, slot, held_key, lane.head, 1) as next, lateral (
        -- The limit keeps the planner from joining whole tables.
        select event_id, attempt_log from deliveries
        where lane_id = coalesce(home_id, lane.id) and deliveries.position = next.position limit 1
      ) as deliveries
      where attempt_log -> -1 ->> 'kind' = '${NEWER_VERSION}'
    ) as first join events on events.id = first.event_id
    where first.since <= clock.now - ${PATIENCE_MS} * interval '1 millisecond'
  )
  select topic, subscriber, max(version)::int as version, bool_or(is_elsewhere) as is_elsewhere, count(*)::int as lanes,
    sum(coalesce(all_waiting, (
      select count(*) from postbud_next_2(found.id, home_id, slot, held_key, head, ${COUNTED})
    )))::int as waiting, min(since)::text as since
  from (select * from unread union all select * from refused) as found
  group by topic, subscriber`;
