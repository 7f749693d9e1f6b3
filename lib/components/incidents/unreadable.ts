import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { MINUTE } from '../../platform/time.ts';
import type { Failure } from './failure.ts';

// Subscriptions with deliveries whose payloads are of a version that nobody reads: no running relay, or the component
// elsewhere, which answers so. They use up no attempts, so nothing else tells of them.

/** A row of `UNREADABLE`. */
export interface Unreadable {
  readonly topic: string;
  readonly subscriber: string;
  readonly version: number;
  readonly isElsewhere: boolean;
  readonly lanes: number;
  readonly waiting: number;
  readonly since: string;
}

export function unreadableFailure({ version, isElsewhere, ...of }: Unreadable): Failure {
  const remedy = isElsewhere
    ? `install a newer postbud package where ${of.subscriber} runs`
    : 'no running relay reads it: deploy a release that does';
  const message = `${of.topic} is version ${version}; ${remedy}`;
  return { kind: NEWER_VERSION, group: '', message, halted: 0, dead: 0, ...of };
}

/** While one release replaces another, deliveries wait for the newer one for some seconds. */
const PATIENCE_MS = 1 * MINUTE;

/** Lanes of a subscription that are read; more say no more. */
const LANES = 2000;

/** Deliveries that are counted in the lane of a key. */
const COUNTED = 100;

/**
 * The parts of the statement of failures that find them, behind its `clock`, `open` and `head_of_lane`.
 *
 * A relay that cannot read a lane's next delivery leaves it due, for one that can. A component elsewhere asks to wait; its
 * lane, or that of the key, waits for the next time. What an operator or an outage holds is reported as that.
 */
export const UNREADABLE = `listening as materialized (
    select * from open where not exists (
      select from pauses where pauses.subscriber = open.subscriber and pauses.topic in ('', open.topic)
    ) and not exists (
      select from outages where outages.subscriber = open.subscriber and recovered_at is null
    )
  ),
  unread as (
    select listening.topic, listening.subscriber, lane.version, false as is_elsewhere, lane.since,
      case when ordering_key = '' then waiting else (
        select count(*) from postbud_next_2(lane.id, home_id, slot, held_key, head, ${COUNTED})
      ) end as waiting
    from clock, listening, lateral (
      select *, waits_for_version as version, due_at as since from (
        select * from lanes
        where (lanes.topic, lanes.subscriber, due_at) >= (listening.topic, listening.subscriber, '-infinity')
          and (lanes.topic, lanes.subscriber, due_at) <= (listening.topic, listening.subscriber,
            clock.now - ${PATIENCE_MS} * interval '1 millisecond')
          and due_at is not null and lease_token is null
        order by lanes.topic, lanes.subscriber, due_at limit ${LANES}
      ) as longest_due where waits_for_version is not null
    ) as lane
  ),
  refused as (
    select first.topic, first.subscriber, events.version, true as is_elsewhere, first.since, first.waiting
    from clock, (
      select head_of_lane.*, (
        select min((entry ->> 'at')::timestamptz) from jsonb_array_elements(attempt_log) as entry
        where entry ->> 'kind' = '${NEWER_VERSION}'
      ) as since
      from head_of_lane where attempt_log -> -1 ->> 'kind' = '${NEWER_VERSION}'
    ) as first join listening using (topic, subscriber), lateral (
      -- The limit keeps the planner from joining whole tables.
      select version from events where id = event_id limit 1
    ) as events
    where first.since <= clock.now - ${PATIENCE_MS} * interval '1 millisecond'
  ),
  unreadable as (
    select topic, subscriber, max(version) as version, bool_or(is_elsewhere) as "isElsewhere", count(*) as lanes,
      round(sum(waiting)) as waiting, min(since)::text as since
    from (select * from unread union all select * from refused) as found
    group by topic, subscriber
  )`;
