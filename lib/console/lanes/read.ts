import * as z from 'zod';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { HALTING } from '../../components/incidents/halts.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { gap, readGaps } from '../backfills/gaps.ts';
import { groupOfErrors } from '../dead-letters/fields.ts';
import { HALT, halts, haltsOf } from '../deliveries/halts.ts';
import type { FoundHalt } from '../deliveries/halts.ts';
import { readDeadLetters } from '../dead-letters/read.ts';
import { HELD, HELD_LANES, LISTED_LANES, heldLane, heldLaneOf } from '../held-lanes/held-lane.ts';
import type { FoundHeldLane } from '../held-lanes/held-lane.ts';
import { computed, field, instant, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { BESIDE_LISTED, listedFields, listedOf } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import * as shape from '../kit/shapes.ts';
import { readOverview, topicOverview } from '../overview/read.ts';
import type { TopicOverview } from '../overview/read.ts';

const haltedFields = {
  subscriber: field(z.string(), 'subscriber'),
  orderingKey: field(z.string(), 'ordering_key'),
  ...listedFields,
  deliveryId: field(
    z.string().meta({ description: 'The dead letter that halts the lane.' }),
    listedFields.deliveryId.sql,
  ),
};
const haltedLane = z
  .object({ ...shapesOf(haltedFields), ...halts.shape })
  .meta({ id: 'HaltedLane', description: 'A lane that waits until a dead letter is replayed or dismissed.' });

const eventFields = {
  eventId: field(z.uuid(), 'id'),
  createdAt: instant('created_at'),
  subject: computed(z.string().nullable()),
  orderingKey: field(z.string(), 'ordering_key'),
  state: field(shape.state, 'state'),
};

export const topicView = z
  .object({
    generatedAt: shape.instant,
    topic: topicOverview,
    description: z.string(),
    version: z
      .int()
      .positive()
      .nullable()
      .meta({ description: 'Null if the catalog does not have the topic.' }),
    orderedBy: shape.orderedBy,
    heldLanes: z.array(heldLane).max(LISTED_LANES).meta({ description: 'Sorted by their next attempt.' }),
    haltedLanes: z.array(haltedLane).max(50).meta({ description: 'Those halted longest come first.' }),
    errors: z.array(groupOfErrors),
    events: z
      .array(z.object(shapesOf(eventFields)))
      .max(10)
      .meta({ description: 'The newest events.' }),
    gaps: z.array(gap).meta({ description: 'Its subscribers that lack older events.' }),
  })
  .meta({ id: 'TopicView', description: 'The state of one topic.' });

export type TopicView = z.output<typeof topicView>;
export type HaltedLane = z.output<typeof haltedLane>;
export type RecentEvent = TopicView['events'][number];

/**
 * Reads one topic.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readTopic(
  db: Database,
  attached: readonly AttachedSubscriber[],
  topic: string,
  now?: Date,
): Promise<TopicView> {
  const [overview, deadLetters, gaps, [row]] = await Promise.all([
    readOverview(db, attached, now),
    readDeadLetters(db, { topic, limit: 1 }, now),
    readGaps(db, rowOf(topic)?.subscribers.map((subscriber) => ({ topic, subscriber })) ?? []),
    run<{ found: Found }>(driverOf(db), { text: TOPIC, values: [topic, now?.toISOString() ?? null] }),
  ]);
  const { description, version, orderedBy = null } = rowOf(topic) ?? UNLISTED;
  const { held, halted, events } = row!.found;
  return {
    generatedAt: overview.generatedAt,
    topic: overview.topics.find((one) => one.topic === topic) ?? quiet(topic),
    description,
    version,
    orderedBy,
    heldLanes: held.map((lane) => heldLaneOf(lane, attached)),
    haltedLanes: halted.map(({ halts: halt, ...lane }) => ({ ...listedOf(topic, lane), ...haltsOf(halt)! })),
    errors: deadLetters.groups,
    gaps,
    events: events.map(({ payload, version: written, ...event }) => ({
      ...event,
      subject: payload === null ? null : subjectOf(topic, payload, written),
    })),
  };
}

function rowOf(topic: string): Topic | null {
  return isTopicName(topic) ? catalog[topic] : null;
}

const UNLISTED = {
  description:
    'This release’s catalog does not have the topic: another release emitted its events. They wait for a release with a handler for them.',
  version: null,
  orderedBy: undefined,
};

/** A topic that the catalog does not have and that has no unfinished events. */
function quiet(topic: string): TopicOverview {
  const none = Array.from({ length: 24 }, () => 0);
  return {
    topic,
    producer: '',
    inCatalog: false,
    pending: 0,
    failing: 0,
    deadLettered: 0,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    awaitingPlace: 0,
    heldBackSince: null,
    heldBackBy: null,
    hours: { delivered: none, deadLettered: none },
    subscribers: [],
  };
}

/** The statement's result. */
interface Found {
  readonly held: readonly FoundHeldLane[];
  readonly halted: readonly (Row<typeof haltedFields> & BesideListed & { readonly halts: FoundHalt })[];
  readonly events: readonly (Row<typeof eventFields> & Omit<BesideListed, 'last'>)[];
}

const LISTED_EVENTS = 10;
const LISTED_PAYLOAD_BYTES = 16 * 1024;

const TOPIC = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select distinct topic, subscriber from lanes where topic = $1::text
  ),
  ${HELD},
  halted as (
    select halts.subscriber, halts.ordering_key, halts.event_id, (halts.attempt_log -> -1) - 'answer' as last, payload, version,
      dead_lettered_at, lane, position, ${HALT} as halts
    from (
      select * from (
        -- A lane may have several; the first one halts it.
        select distinct on (lane, ordering_key) * from (${HALTING}) as halting where topic = $1::text
        order by lane, ordering_key, position
      ) as first order by dead_lettered_at, lane, position limit ${LISTED_LANES}
    ) as halts join events on events.id = halts.event_id
  ),
  event as (
    select events.id, created_at, seq, events.ordering_key, case when bytes <= ${LISTED_PAYLOAD_BYTES} then payload end as payload,
      events.version, coalesce((
        select max(state) from lanes as lane join deliveries on deliveries.lane = lane.id and deliveries.position = newest.position
        where lane.stream = newest.stream
      ), 'delivered') as state
    from streams, lateral (
      select * from log where log.stream = streams.id order by log.position desc limit ${LISTED_EVENTS}
    ) as newest join events on events.id = newest.event_id
    where streams.topic = $1::text
    order by created_at desc, seq desc limit ${LISTED_EVENTS}
  )
  select json_build_object(
    'held', ${HELD_LANES},
    'halted', (
      select coalesce(json_agg(${jsonOf(haltedFields, { ...BESIDE_LISTED, halts: 'halts' })}
        order by dead_lettered_at, lane, position), '[]')
      from halted
    ),
    'events', (
      select coalesce(json_agg(${jsonOf(eventFields, { payload: 'payload', version: 'version' })} order by created_at desc, seq desc), '[]')
      from event
    )
  ) as found`;
