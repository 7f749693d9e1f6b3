import * as z from 'zod';

import { LANES_COUNTED, HALTING_COUNTED, waitingBehind } from '../../components/incidents/halts.ts';
import { isReplayOf } from '../../components/incidents/replay-of.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { actFields, SKIPPED_TOGETHER, STANDS_FOR_ACT } from '../kit/acts.ts';
import { computed, field, instant, instantOrNull, instantSql, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { allowedAttempts } from '../kit/handling.ts';
import { BESIDE_LISTED, listedFields } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import * as shape from '../kit/shapes.ts';
import { INCIDENT } from './incident.ts';
import type { FoundIncident } from './incident.ts';

const laneFields = {
  ...listedFields,
  orderingKey: field(z.string(), 'ordering_key'),
  attempts: field(shape.count, 'attempts'),
  maxAttempts: computed(allowedAttempts),
  nextAttemptAt: instant('next_look_at'),
  waiting: field(
    shape.count.meta({ description: 'Deliveries in the lane; at most 100 are counted.' }),
    'waiting',
  ),
};
export const blockedLane = z.object(shapesOf(laneFields)).meta({ id: 'BlockedLane' });

const haltFields = {
  ...listedFields,
  orderingKey: field(z.string(), 'ordering_key'),
  since: instant('halted_at'),
  waiting: field(
    shape.count.meta({ description: 'Deliveries behind it; at most 100 are counted.' }),
    'waiting',
  ),
};
export const haltingDeadLetter = z
  .object(shapesOf(haltFields))
  .meta({ id: 'HaltingDeadLetter', description: 'A dead letter that halts its lane.' });

const topicFields = { topic: field(shape.topic, 'topic'), waiting: field(shape.count, 'waiting') };
export const waitingTopic = z.object(shapesOf(topicFields));

const letterFields = { ...listedFields, deadLetteredAt: instant('dead_lettered_at') };
export const owedDeadLetter = z.object(shapesOf(letterFields)).meta({ id: 'OwedDeadLetter' });

const groupFields = {
  group: field(shape.errorGroup, 'key'),
  message: field(z.string(), 'message'),
  count: field(shape.count, 'dead_lettered'),
};
export const owedGroup = z.object(shapesOf(groupFields));

const failedFields = { ...listedFields, state: field(shape.state, 'state') };

const replayFields = {
  replayId: field(z.uuid(), 'id'),
  requestedAt: instant('requested_at'),
  requestedBy: field(z.string(), 'requested_by'),
  replayed: field(
    shape.count.meta({ description: 'Deliveries of this subscription that were re-queued.' }),
    'whole',
  ),
  left: field(
    shape.count.meta({ description: 'Deliveries that a paced replay has not put back yet.' }),
    'waiting',
  ),
  delivered: field(shape.count, 'delivered'),
  pending: field(shape.count, 'pending'),
  failing: field(shape.count, 'failing'),
  deadLettered: field(shape.count, 'dead_lettered'),
  confirmedAt: instantOrNull(
    'case when whole > 0 and waiting = 0 and delivered >= whole then last_delivered_at end',
    'When the last one was delivered, once all of them are.',
  ),
  failedAgain: computed(
    z
      .array(z.object(shapesOf(failedFields)))
      .max(10)
      .meta({ description: 'Some of those that failed again.' }),
  ),
};
export const incidentReplay = z
  .object(shapesOf(replayFields))
  .meta({ id: 'IncidentReplay', description: 'A replay since the incident began, as far as it has come.' });

const actionFields = {
  at: instant('at'),
  operator: field(z.string(), 'operator'),
  action: field(z.string(), 'action'),
  ...actFields,
  reason: field(z.string().nullable(), 'reason'),
};
export const incidentAction = z.object(shapesOf(actionFields));

/** The statement's result. */
export interface Found {
  readonly generatedAt: string;
  readonly incident: FoundIncident;
  readonly lanes: readonly (Row<typeof laneFields> & BesideListed)[];
  readonly halts: readonly (Row<typeof haltFields> & BesideListed)[];
  /** Of an outage. */
  readonly topics: Row<typeof topicFields>[];
  readonly deadLetters: readonly (Row<typeof letterFields> & BesideListed)[];
  readonly groups: Row<typeof groupFields>[];
  readonly dismissed: number;
  readonly replays: readonly FoundReplay[];
  readonly others: readonly FoundIncident[];
  readonly actions: Row<typeof actionFields>[];
}

interface FoundReplay extends Row<typeof replayFields> {
  readonly failedAgain: readonly (Row<typeof failedFields> & BesideListed)[];
}

const LISTED_PAYLOAD_BYTES = 16 * 1024;
const BESIDE = {
  ...BESIDE_LISTED,
  payload: `case when payload_bytes <= ${LISTED_PAYLOAD_BYTES} then payload end`,
};

/** The last failed attempt of a delivery: an operator's action may come after it. */
const LAST_FAILURE = `(
      select entry from jsonb_array_elements(attempt_log) with ordinality as log(entry, number)
      where entry ->> 'outcome' = 'failed' order by number desc limit 1
    )`;

// A leased lane is being attempted now, whenever its lease ends. A lane whose error has no incident of its own, because an
// older release recorded it or there are too many, is shown by those of its kind. A replay belongs to the incident when it
// names it or its error; one that names neither, for what it put back of its error, see `isReplayOf`.
export const DETAIL = `
  with incident as materialized (
    select * from incidents where id = $1::text::uuid
  ),
  open_group as materialized (
    select incidents.error_group from incident join incidents using (topic, subscriber) where incidents.closed_at is null
  ),
  lane as (
    select head_of_lane.*, payload, version, ordering_key from (
      select coalesce(home_id, lanes.id) as lane_id, next.position, event_id, attempts, next.count as waiting,
        payload_bytes, case when lease_token is null then due_at else least(due_at, leased_until, now()) end
          as next_look_at, ${LAST_FAILURE} as last, incident.kind, incident.error_group
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
    where last ->> 'group' = error_group or last ->> 'kind' = kind and not exists (
      select from open_group where open_group.error_group = last ->> 'group'
    )
    limit $2::int
  ),
  halt as (
    select head_of_lane.*, payload, version, ordering_key from (
      select deliveries.lane_id, deliveries.position, deliveries.event_id, payload_bytes, halted_at, incident.kind,
        ${LAST_FAILURE} as last, ${waitingBehind('first_halt', 100)} as waiting
      from incident, (
        select distinct on (lane_id, lane_key) halting.* from (${HALTING_COUNTED}) as halting, incident
        where incident.state = 'happening' and halting.error_group = incident.error_group
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
  dead_letter as (
    select lane_id, position, event_id, payload_bytes, dead_lettered_at, ${LAST_FAILURE} as last, payload, version
    from (
      select dead.* from incident, lateral (
        select * from deliveries where deliveries.error_group = incident.error_group order by dead_lettered_at desc limit 10
      ) as dead
    ) as deliveries join events on events.id = event_id
  ),
  dismissed as (
    select count(*) from deliveries
    where dismissed_at in (select at from operator_actions where incident_id = $1::text::uuid)
  ),
  own_replay as materialized (
    select replays.*, incident.topic as of_topic, incident.subscriber as of_subscriber,
      request ? 'incident' or request ->> 'group' is not distinct from incident.error_group as is_named
    from incident, replays
    where requested_at between opened_at and coalesce(closed_at, 'infinity')
      and case
        when request ? 'incident' then request ->> 'incident' = $1::text
        when request ? 'group' then incident.error_group = any (string_to_array(request ->> 'group', ','))
        when replays.topic is null then not request ? 'deliveryIds' and recipients @> jsonb_build_array(
          jsonb_build_object('topic', incident.topic, 'subscriber', incident.subscriber)
        )
        else replays.topic = incident.topic
          and coalesce(request ->> 'subscriber', incident.subscriber) = incident.subscriber
      end
    order by requested_at desc, replays.id desc limit 3
  ),
  progress as (
    select own_replay.id, requested_at, requested_by, counted.*,
      case when is_named and request ->> 'subscriber' = of_subscriber and own_replay.topic is not null and not is_paced then own_replay.replayed
        else counted.total end as whole, pace.waiting, (
        select coalesce(json_agg(${jsonOf(failedFields, BESIDE)}), '[]') from (
          select lane_id, position, event_id, deliveries.state, payload_bytes, ${LAST_FAILURE} as last, payload, version
          from deliveries join lanes on lanes.id = lane_id join events on events.id = event_id
          where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
            and deliveries.state in ('failing', 'dead_lettered')
            and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
            and ${isReplayOf('incident', 'own_replay')}
            and counted.failing + counted.dead_lettered > 0
          limit 10
        ) as failed_again
      ) as failed_again
    from incident, own_replay, lateral (
      select count(*) as total, count(*) filter (where state = 'delivered') as delivered,
        count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
        count(*) filter (where state = 'dead_lettered') as dead_lettered, max(delivered_at) as last_delivered_at
      from deliveries join lanes on lanes.id = lane_id
      where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
        and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
        and ${isReplayOf('incident', 'own_replay')}
    ) as counted, lateral (
      select count(*) as waiting, exists (select from paced_replays where replay_id = own_replay.id) as is_paced
      from planned_replays join lanes on lanes.id = lane_id
      where replay_id = own_replay.id and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
        and (is_named or exists (
          select from deliveries as dead
          where (dead.lane_id, dead.position) = (planned_replays.lane_id, planned_replays.position)
            and dead.error_group = incident.error_group
        ))
    ) as pace
    where is_named or counted.total + pace.waiting > 0
  ),
  other as (
    -- The bus itself has no story.
    select incidents.* from incident join incidents using (subscriber)
    where subscriber <> '' and incidents.closed_at is null and incidents.id <> incident.id
    order by incidents.state, incidents.opened_at, incidents.id limit 10
  ),
  action as (
    select at, operator, action, delivery_id, reason, ${SKIPPED_TOGETHER} as deliveries
    from operator_actions where incident_id = $1::text::uuid and ${STANDS_FOR_ACT}
    order by at desc limit 20
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock_timestamp()')},
    'incident', ${INCIDENT},
    'lanes', (
      select coalesce(json_agg(${jsonOf(laneFields, BESIDE)} order by next_look_at), '[]') from lane
    ),
    'halts', (select coalesce(json_agg(${jsonOf(haltFields, BESIDE)} order by halted_at), '[]') from halt),
    'topics', (select coalesce(json_agg(${jsonOf(topicFields)} order by waiting desc), '[]') from topic),
    'deadLetters', (
      select coalesce(json_agg(${jsonOf(letterFields, BESIDE)} order by dead_lettered_at desc), '[]') from dead_letter
    ),
    'groups', (
      select coalesce(json_agg(${jsonOf(groupFields)}), '[]') from error_groups
      where key = incidents.error_group and dead_lettered > 0
    ),
    'dismissed', (select count from dismissed),
    'replays', (
      select coalesce(json_agg(${jsonOf(replayFields, { failedAgain: 'failed_again' })} order by requested_at desc), '[]')
      from progress
    ),
    'others', (select coalesce(json_agg(${INCIDENT} order by opened_at, id), '[]') from other as incidents),
    'actions', (select coalesce(json_agg(${jsonOf(actionFields)} order by at desc), '[]') from action)
  ) as found
  from incident as incidents`;
