import { LANES_COUNTED, halting, waitingBehind } from '../../bus/deliveries/halts.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import type { State } from '../kit/shapes.ts';
import { INCIDENT } from './incident.ts';
import type { FoundIncident } from './incident.ts';

/** The statement's result. Times are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly incident: FoundIncident;
  readonly lanes: readonly (FoundDelivery & {
    readonly ordering_key: string;
    readonly attempts: number;
    /** Now, of a lane that is being attempted. */
    readonly next_look_at: number;
    readonly waiting: number;
  })[];
  readonly halts: readonly (FoundDelivery & {
    readonly ordering_key: string;
    readonly halted_at: number;
    readonly waiting: number;
  })[];
  /** Of an outage. */
  readonly topics: readonly { readonly topic: string; readonly waiting: number }[];
  readonly dead_letters: readonly (FoundDelivery & { readonly dead_lettered_at: number })[];
  readonly groups: readonly { readonly group: string; readonly message: string; readonly count: number }[];
  readonly dismissed: number;
  readonly replays: readonly FoundReplay[];
  readonly others: readonly FoundIncident[];
  readonly actions: readonly {
    readonly at: number;
    readonly operator: string;
    readonly action: string;
    readonly delivery_id: string | null;
    readonly reason: string | null;
  }[];
}

export interface FoundDelivery {
  readonly id: string;
  readonly event_id: string;
  /** Null if it is long. */
  readonly payload: unknown;
  readonly version: number;
  /** The last failed attempt. */
  readonly last: { readonly kind?: string; readonly message?: string } | null;
}

export interface FoundReplay {
  readonly id: string;
  readonly requested_at: number;
  readonly requested_by: string;
  readonly replayed: number;
  /** Deliveries that a paced one has not put back yet. */
  readonly left: number;
  readonly delivered: number;
  readonly pending: number;
  readonly failing: number;
  readonly dead_lettered: number;
  readonly last_delivered_at: number | null;
  readonly failed_again: readonly (FoundDelivery & { readonly state: State })[];
}

const LISTED_PAYLOAD_BYTES = 16 * 1024;

/** The last failed attempt of a delivery: an operator's action may come after it. */
const LAST_FAILURE = `(
      select entry from jsonb_array_elements(attempt_log) with ordinality as log(entry, number)
      where entry ->> 'outcome' = 'failed' order by number desc limit 1
    )`;

/** The columns of `FoundDelivery`, of \`deliveries\` joined with \`events\`. */
const DELIVERY = `'id', lane_id || '-' || position, 'event_id', event_id, 'version', version, 'last', last,
        'payload', case when payload_bytes <= ${LISTED_PAYLOAD_BYTES} then payload end`;

// A leased lane is being attempted now, whenever its lease ends. A replay belongs to the incident when it names it, or when it covers its subscription without naming another error. One
// of chosen deliveries may be of any error.
export const DETAIL = `
  with incident as materialized (
    select * from incidents where id = $1::text::uuid
  ),
  lane as (
    select head_of_lane.*, payload, version, ordering_key from (
      select coalesce(home_id, lanes.id) as lane_id, next.position, event_id, attempts, next.count as waiting,
        payload_bytes, case when lease_token is null then due_at else least(due_at, leased_until, now()) end
          as next_look_at, ${LAST_FAILURE} as last, incident.kind
      from incident cross join lateral (
        (
          select * from (${leasedHomeLanes('incident.topic', 'incident.subscriber')}
          ) as leased where slot is null and incident.state = 'happening'
        )
        union all
        (
          -- Rows are compared as the index has them: the planner would read the lanes of all keys in trouble.
          select * from lanes
          where (lanes.topic, lanes.subscriber, due_at) >= (incident.topic, incident.subscriber, '-infinity')
            and (lanes.topic, lanes.subscriber, due_at) < (incident.topic, incident.subscriber, 'infinity')
            and due_at is not null and (home_id is not null or slot is null) and incident.state = 'happening'
          order by lanes.topic, lanes.subscriber, due_at limit ${LANES_COUNTED}
        )
      ) as lanes cross join lateral (
        select min(position) as position, count(*)
        from postbud_next_2(lanes.id, home_id, slot, held_key, lanes.head, 100)
      ) as next cross join lateral (
        -- The limits keep the planner from joining whole tables.
        select lane_id, event_id, attempts, payload_bytes, attempt_log, state from deliveries
        where lane_id = coalesce(home_id, lanes.id) and deliveries.position = next.position limit 1
      ) as deliveries
      where deliveries.state = 'failing'
    ) as head_of_lane cross join lateral (
      select payload, version, ordering_key from events where id = event_id limit 1
    ) as event
    where last ->> 'kind' = kind
    limit 20
  ),
  halt as (
    select head_of_lane.*, payload, version, ordering_key from (
      select deliveries.lane_id, deliveries.position, deliveries.event_id, payload_bytes, halted_at, incident.kind,
        ${LAST_FAILURE} as last, ${waitingBehind('first_halt', 100)} as waiting
      from incident, (
        select distinct on (lane_id, lane_key) halting.* from (${halting(LANES_COUNTED)}) as halting
          join error_groups on error_groups.key = error_group, incident
        where incident.state = 'happening' and error_groups.kind = incident.kind
          and (halting.topic, halting.subscriber) = (incident.topic, incident.subscriber)
        order by lane_id, lane_key, position
      ) as first_halt cross join lateral (
        select deliveries.* from deliveries
        where (deliveries.lane_id, deliveries.position) = (first_halt.lane_id, first_halt.position) limit 1
      ) as deliveries
      order by halted_at limit 20
    ) as head_of_lane join events on events.id = event_id
  ),
  topic as (
    select backlog.topic, sum(pending) + sum(failing) as waiting
    from incident join backlog on incident.topic = '' and incident.closed_at is null
      and backlog.subscriber = incident.subscriber
    group by backlog.topic having sum(pending) + sum(failing) > 0 order by 2 desc, 1 limit 20
  ),
  own_group as materialized (
    select key as "group", error_groups.message, dead_lettered as count
    from incident join error_groups using (topic, subscriber, kind) where dead_lettered > 0
    order by dead_lettered desc, key limit 10
  ),
  dead_letter as (
    select lane_id, position, event_id, payload_bytes, dead_lettered_at, ${LAST_FAILURE} as last, payload, version
    from (
      select dead.* from own_group, lateral (
        select * from deliveries where error_group = own_group."group" order by dead_lettered_at desc limit 10
      ) as dead order by dead_lettered_at desc limit 10
    ) as deliveries join events on events.id = event_id
  ),
  dismissed as (
    select count(*) from deliveries
    where dismissed_at in (select at from operator_actions where incident_id = $1::text::uuid)
  ),
  own_replay as materialized (
    select replays.*, incident.topic as of_topic, incident.subscriber as of_subscriber
    from incident, replays
    where requested_at between opened_at and coalesce(closed_at, 'infinity')
      and case
        when request ? 'incident' then request ->> 'incident' = $1::text
        when request ? 'group' then exists (
          select from error_groups where key = request ->> 'group' and error_groups.kind = incident.kind
            and error_groups.topic = incident.topic and error_groups.subscriber = incident.subscriber
        )
        else replays.topic = incident.topic
          and coalesce(request ->> 'subscriber', incident.subscriber) = incident.subscriber
      end
    order by requested_at desc, replays.id desc limit 3
  ),
  progress as (
    select own_replay.id, requested_at, requested_by, counted.*,
      case when request ->> 'subscriber' = of_subscriber and not is_paced then own_replay.replayed
        else counted.total end as whole, pace.waiting, (
        select coalesce(json_agg(json_build_object(${DELIVERY}, 'state', state)), '[]') from (
          select lane_id, position, event_id, deliveries.state, payload_bytes, ${LAST_FAILURE} as last, payload, version
          from deliveries join lanes on lanes.id = lane_id join events on events.id = event_id
          where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
            and deliveries.state in ('failing', 'dead_lettered')
            and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
            and counted.failing + counted.dead_lettered > 0
          limit 10
        ) as failed_again
      ) as failed_again
    from own_replay, lateral (
      select count(*) as total, count(*) filter (where state = 'delivered') as delivered,
        count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
        count(*) filter (where state = 'dead_lettered') as dead_lettered, max(delivered_at) as last_delivered_at
      from deliveries join lanes on lanes.id = lane_id
      where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
        and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
    ) as counted, lateral (
      select count(*) as waiting, exists (select from paced_replays where replay_id = own_replay.id) as is_paced
      from planned_replays join lanes on lanes.id = lane_id
      where replay_id = own_replay.id and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
    ) as pace
  ),
  other as (
    -- An outage concerns each of its subscriber's topics.
    select incidents.* from incident join incidents using (subscriber)
    where incidents.topic in ('', incident.topic) and incidents.closed_at is null and incidents.id <> incident.id order by incidents.state limit 10
  ),
  action as (
    select at, operator, action, delivery_id, reason from operator_actions where incident_id = $1::text::uuid
    order by at desc limit 20
  )
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'incident', ${INCIDENT},
    'lanes', (
      select coalesce(json_agg(json_build_object(${DELIVERY}, 'ordering_key', ordering_key, 'attempts', attempts,
        'next_look_at', extract(epoch from next_look_at) * 1000, 'waiting', waiting) order by next_look_at), '[]') from lane
    ),
    'halts', (
      select coalesce(json_agg(json_build_object(${DELIVERY}, 'ordering_key', ordering_key,
        'halted_at', extract(epoch from halted_at) * 1000, 'waiting', waiting) order by halted_at), '[]') from halt
    ),
    'topics', (
      select coalesce(json_agg(json_build_object('topic', topic, 'waiting', waiting) order by waiting desc), '[]')
      from topic
    ),
    'dead_letters', (
      select coalesce(json_agg(json_build_object(${DELIVERY},
        'dead_lettered_at', extract(epoch from dead_lettered_at) * 1000) order by dead_lettered_at desc), '[]')
      from dead_letter
    ),
    'groups', (select coalesce(json_agg(own_group), '[]') from own_group),
    'dismissed', (select count from dismissed),
    'replays', (
      select coalesce(json_agg(json_build_object('id', id, 'requested_at', extract(epoch from requested_at) * 1000,
        'requested_by', requested_by, 'replayed', whole, 'left', waiting, 'delivered', delivered, 'pending', pending,
        'failing', failing, 'dead_lettered', dead_lettered,
        'last_delivered_at', extract(epoch from last_delivered_at) * 1000, 'failed_again', failed_again)
        order by requested_at desc), '[]') from progress
    ),
    'others', (select coalesce(json_agg(${INCIDENT} order by state), '[]') from other as incidents),
    'actions', (
      select coalesce(json_agg(json_build_object('at', extract(epoch from at) * 1000, 'operator', operator,
        'action', action, 'delivery_id', delivery_id, 'reason', reason) order by at desc), '[]') from action
    )) as found
  from incident as incidents`;
