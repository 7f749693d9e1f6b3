import * as z from 'zod';

import { FAILING, HALTING, waitingBehind } from '../../components/incidents/halts.ts';
import { isReplayOf } from '../../components/incidents/replay-of.ts';
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
  since: instant('dead_lettered_at'),
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
  payload: `case when bytes <= ${LISTED_PAYLOAD_BYTES} then payload end`,
};

/** The last failed attempt of a delivery: an operator's action may come after it. */
const LAST_FAILURE = `(
      select entry from jsonb_array_elements(attempt_log) with ordinality as log(entry, number)
      where entry ->> 'outcome' = 'failed' order by number desc limit 1
    )`;

// One that a relay has in hand is being attempted now. A lane whose error has no incident of its own, because an older release
// recorded it or there are too many, is shown by those of its kind. A replay belongs to the incident when it names it or its
// error; one that names neither, for what it put back of its error, see `isReplayOf`.
export const DETAIL = `
  with incident as materialized (
    select * from incidents where id = $1::text::uuid
  ),
  open_group as materialized (
    select incidents.error_group from incident join incidents using (topic, subscriber) where incidents.closed_at is null
  ),
  blocking as materialized (
    select *, ${LAST_FAILURE} as last
    from (
      -- A lane may have several; the first one blocks it.
      select distinct on (lane, ordering_key) failing.*
      from incident join (${FAILING}) as failing using (topic, subscriber)
      where incident.state = 'happening'
      order by lane, ordering_key, position
    ) as first
  ),
  lane as (
    select blocking.*, log.bytes, payload, log.version, coalesce(blocking.due_at, now()) as next_look_at,
      ${waitingBehind('blocking', 100)} as waiting
    from (
      select * from blocking
      where last ->> 'group' = (select error_group from incident)
        or last ->> 'kind' = (select kind from incident) and not exists (
          select from open_group where open_group.error_group = last ->> 'group'
        )
      order by due_at limit $2::int
    ) as blocking join log using (stream, position) join events on events.id = blocking.event_id
  ),
  halt as (
    select first_halt.*, log.bytes, payload, log.version, ${LAST_FAILURE} as last, ${waitingBehind('first_halt', 100)} as waiting
    from (
      select * from (
        select distinct on (lane, ordering_key) halting.*
        from incident join (${HALTING}) as halting using (topic, subscriber, error_group)
        where incident.state = 'happening'
        order by lane, ordering_key, position
      ) as first order by dead_lettered_at limit 20
    ) as first_halt join log using (stream, position) join events on events.id = first_halt.event_id
  ),
  topic as (
    select subscription_counts.topic, pending + subscription_counts.failing as waiting
    from incident join subscription_counts on incident.topic = '' and incident.closed_at is null
      and subscription_counts.subscriber = incident.subscriber
    where pending + subscription_counts.failing > 0 order by 2 desc, 1 limit 20
  ),
  dead_letter as (
    select dead.*, log.bytes, payload, log.version, ${LAST_FAILURE} as last
    from (
      select lanes.stream, lanes.subscriber, letter.* from incident, lateral (
        select * from exceptions where exceptions.error_group = incident.error_group order by dead_lettered_at desc limit 10
      ) as letter join lanes on lanes.id = letter.lane
    ) as dead join log using (stream, position) join events on events.id = dead.event_id
  ),
  dismissed as (
    select count(*) from exceptions
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
          select of_subscriber as subscriber, exceptions.event_id, exceptions.state, log.bytes, ${LAST_FAILURE} as last, payload, log.version
          from exceptions join lanes on lanes.id = lane join log using (stream, position) join events on events.id = exceptions.event_id
          where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
            and exceptions.state in ('failing', 'dead_lettered')
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
      from exceptions join lanes on lanes.id = lane
      where replayed_at in (select at from replay_instants where replay_id = own_replay.id)
        and (lanes.topic, lanes.subscriber) = (of_topic, of_subscriber)
        and ${isReplayOf('incident', 'own_replay')}
    ) as counted, lateral (
      select exists (select from paced_replays where replay_id = own_replay.id) as is_paced, (
        select count(*) from paced_replays, exceptions
        where replay_id = own_replay.id and ended_at is null and exceptions.error_group = incident.error_group
          and dead_lettered_at <= own_replay.requested_at
      ) as waiting
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
    'halts', (select coalesce(json_agg(${jsonOf(haltFields, BESIDE)} order by dead_lettered_at), '[]') from halt),
    'topics', (select coalesce(json_agg(${jsonOf(topicFields)} order by waiting desc), '[]') from topic),
    'deadLetters', (
      select coalesce(json_agg(${jsonOf(letterFields, BESIDE)} order by dead_lettered_at desc), '[]') from dead_letter
    ),
    'groups', (
      select coalesce(json_agg(${jsonOf(groupFields)}), '[]') from error_groups, lateral (
        select count(*) as dead_lettered from exceptions where exceptions.error_group = key
      ) as letters
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
