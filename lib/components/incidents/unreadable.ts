import { topics } from '../../bus/catalog/catalog.ts';
import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { MINUTE } from '../../platform/time.ts';
import type { Failure } from './failure.ts';
import { LANES_COUNTED, waitingBehind } from './halts.ts';

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

/** Deliveries that are counted behind one that waits. */
const COUNTED = 100;

/** The newest payload versions that this release reads, by topic. */
export const VERSIONS = Object.fromEntries(topics().map(([topic, { version }]) => [topic, version]));

/**
 * The parts of the statement of failures that find them, behind its `clock`. `$3` has `VERSIONS`.
 *
 * A relay that cannot read a lane's next delivery leaves it for one that can. A component elsewhere asks to wait; its
 * delivery waits for the next time. What an operator or an outage holds is reported as that.
 */
export const UNREADABLE = `listening as materialized (
    select lane_heads.*, ($3::text::jsonb ->> lane_heads.topic)::int as known from lane_heads where not exists (
      select from pauses where pauses.subscriber = lane_heads.subscriber and pauses.topic in ('', lane_heads.topic)
    ) and not exists (
      select from outages where outages.subscriber = lane_heads.subscriber
    )
  ),
  -- Those in the log, beyond the head: nothing comes after them.
  unread as (
    select lane.topic, lane.subscriber, place.version, false as is_elsewhere, greatest(lane.at, created_at) as since,
      postbud_beyond_head_1(lane.stream, lane.subscriber, lane.head, lane.tail) as waiting
    from clock, listening as lane cross join lateral (
        select postbud_find_next_1(lane.stream, lane.subscriber, lane.head, lane.tail) as position
      ) as next join log as place on place.stream = lane.stream and place.position = next.position
      join events on events.id = place.event_id
    where lane.tail > lane.head and place.version > known and coalesce(lane.leased_until <= clock.now, true)
      and greatest(lane.at, created_at) <= clock.now - ${PATIENCE_MS} * interval '1 millisecond'
      and (lane.slot > 0 or not exists (select from exceptions where lane = lane.id and is_open limit 1))
  ),
  -- Exceptions that come first in their lane or of their key; those that wait for their next attempt are due last.
  waiting_first as materialized (
    select lane.topic, lane.subscriber, lane.stream, lane.slot, lane.head, lane.tail, lane.leased_until, lane.known, first.*, place.version
    from listening as lane cross join lateral (
        select * from exceptions where lane = lane.id and due_at is not null order by lane desc, due_at desc limit ${LANES_COUNTED}
      ) as first join log as place on place.stream = lane.stream and place.position = first.position
    where place.version > known or attempt_log -> -1 ->> 'kind' = '${NEWER_VERSION}'
  ),
  refused as (
    select topic, subscriber, version, is_elsewhere, since, ${waitingBehind('waiting_first', COUNTED)} as waiting
    from clock, waiting_first, lateral (
      select min((entry ->> 'at')::timestamptz) as refused_at from jsonb_array_elements(attempt_log) as entry
      where entry ->> 'kind' = '${NEWER_VERSION}'
    ) as answer, lateral (
      select refused_at is not null as is_elsewhere, coalesce(refused_at, due_at) as since
    ) as said
    where since <= clock.now - ${PATIENCE_MS} * interval '1 millisecond'
      and (is_elsewhere or coalesce(leased_until <= clock.now, true))
  ),
  unreadable as (
    select topic, subscriber, max(version) as version, bool_or(is_elsewhere) as "isElsewhere", count(*) as lanes,
      round(sum(waiting)) as waiting, min(since)::text as since
    from (select * from unread union all select * from refused) as found
    group by topic, subscriber
  )`;
