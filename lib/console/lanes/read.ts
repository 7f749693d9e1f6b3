import * as z from 'zod';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import { LANES_COUNTED } from '../../bus/deliveries/halts.ts';
import { sharedLanes } from '../../bus/deliveries/subscription.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { maskPersonalData, personalTexts } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../platform/masking/subject.ts';
import { instantOf } from '../../platform/time.ts';
import { gap, readGaps } from '../backfills/gaps.ts';
import { groupOfErrors } from '../dead-letters/fields.ts';
import { HALT, halts, haltsOf } from '../dead-letters/halts.ts';
import type { FoundHalt } from '../dead-letters/halts.ts';
import { readDeadLetters } from '../dead-letters/read.ts';
import * as shape from '../kit/shapes.ts';
import { readOverview, topicOverview } from '../overview/read.ts';
import type { TopicOverview } from '../overview/read.ts';

const heldLane = z
  .object({
    subscriber: z.string(),
    orderingKey: z.string(),
    deliveryId: z.string().meta({ description: 'The delivery that holds the lane.' }),
    eventId: z.uuid(),
    subject: z.string().nullable(),
    attempts: shape.count,
    nextAttemptAt: shape.instant,
    lastError: shape.lastError.nullable(),
    behind: shape.count.meta({ description: 'Deliveries that wait behind it.' }),
    isMoreBehind: z.boolean().meta({ description: 'Whether more deliveries wait than `behind` counts.' }),
  })
  .meta({ id: 'HeldLane', description: 'A lane whose first delivery waits for a retry.' });

const haltedLane = z
  .object({
    subscriber: z.string(),
    orderingKey: z.string(),
    deliveryId: z.string().meta({ description: 'The dead letter that halts the lane.' }),
    eventId: z.uuid(),
    subject: z.string().nullable(),
    lastError: shape.lastError.nullable(),
    ...halts.shape,
  })
  .meta({ id: 'HaltedLane', description: 'A lane that waits until a dead letter is replayed or dismissed.' });

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
    heldLanes: z.array(heldLane).max(50).meta({ description: 'Sorted by their next attempt.' }),
    haltedLanes: z.array(haltedLane).max(50).meta({ description: 'Those halted longest come first.' }),
    errors: z.array(groupOfErrors),
    events: z
      .array(
        z.object({
          eventId: z.uuid(),
          createdAt: shape.instant,
          subject: z.string().nullable(),
          orderingKey: z.string(),
          state: shape.state,
        }),
      )
      .max(10)
      .meta({ description: 'The newest events.' }),
    gaps: z.array(gap).meta({ description: 'Its subscribers that lack older events.' }),
  })
  .meta({ id: 'TopicView', description: 'The state of one topic.' });

export type TopicView = z.output<typeof topicView>;
export type HeldLane = z.output<typeof heldLane>;
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
  const shown = overview.topics.find((one) => one.topic === topic) ?? quiet(topic);
  return {
    generatedAt: overview.generatedAt,
    topic: shown,
    description,
    version,
    orderedBy,
    heldLanes: held.map((lane) => heldLaneOf(lane, shown)),
    haltedLanes: halted.map((lane) => haltedLaneOf(lane, topic)),
    errors: deadLetters.groups,
    gaps,
    events: events.map((event) => ({
      eventId: event.id,
      createdAt: instantOf(event.created_at),
      subject: event.payload === null ? null : subjectOf(topic, event.payload, event.version),
      orderingKey: event.ordering_key,
      state: event.state,
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
    awaitingFanOut: 0,
    heldBackSince: null,
    heldBackBy: null,
    hours: { delivered: none, deadLettered: none },
    subscribers: [],
  };
}

/** The statement's result. Times are epoch milliseconds. */
interface Found {
  readonly held: readonly FoundLane[];
  readonly halted: readonly FoundHaltedLane[];
  readonly events: readonly {
    readonly id: string;
    readonly created_at: number;
    /** Null if it is long. */
    readonly payload: unknown;
    readonly version: number;
    readonly ordering_key: string;
    readonly state: RecentEvent['state'];
  }[];
}

interface FoundLane {
  readonly id: string;
  readonly position: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly ordering_key: string;
  readonly event_id: string;
  readonly attempts: number;
  readonly due_at: number;
  readonly last: { readonly kind?: string; readonly message?: string } | null;
  readonly payload: unknown;
  readonly version: number;
  /** Null if it is the subscription's only lane, whose counts are known. */
  readonly behind: number | null;
}

interface FoundHaltedLane extends Pick<
  FoundLane,
  'id' | 'position' | 'subscriber' | 'ordering_key' | 'event_id' | 'last' | 'payload' | 'version'
> {
  readonly halts: FoundHalt;
}

function haltedLaneOf(found: FoundHaltedLane, topic: string): HaltedLane {
  const { payload, version, last } = found;
  const masked = (text: string) => maskPersonalData(text, personalTexts(topic, payload, version));
  return {
    subscriber: found.subscriber,
    orderingKey: found.ordering_key,
    deliveryId: `${found.id}-${found.position}`,
    eventId: found.event_id,
    subject: subjectOf(topic, payload, version),
    lastError:
      last?.kind === undefined ? null : { kind: masked(last.kind), message: masked(last.message ?? '') },
    ...haltsOf(found.halts)!,
  };
}

function heldLaneOf(found: FoundLane, { topic, subscribers }: TopicOverview): HeldLane {
  const { subscriber, payload, version, last, behind } = found;
  const masked = (text: string) => maskPersonalData(text, personalTexts(topic, payload, version));
  const of = subscribers.find((row) => row.subscriber === subscriber);
  const { pending = 0, failing = 1, outage = null } = of ?? {};
  const dueAt = instantOf(found.due_at);
  return {
    subscriber,
    orderingKey: found.ordering_key,
    deliveryId: `${found.id}-${found.position}`,
    eventId: found.event_id,
    subject: subjectOf(topic, payload, version),
    attempts: found.attempts,
    nextAttemptAt: outage !== null && outage.nextProbeAt > dueAt ? outage.nextProbeAt : dueAt,
    lastError:
      last?.kind === undefined ? null : { kind: masked(last.kind), message: masked(last.message ?? '') },
    behind: behind === null ? pending + failing - 1 : Math.min(behind, COUNTED_BEHIND),
    isMoreBehind: behind !== null && behind > COUNTED_BEHIND,
  };
}

const COUNTED_BEHIND = 10_000;
const LISTED_LANES = 50;
const LISTED_EVENTS = 10;
const LISTED_PAYLOAD_BYTES = 16 * 1024;

// An event has the same position in the lanes of all subscribers, so the lanes of one of them show the newest events.
const TOPIC = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  -- The soonest of each subscription, with its rows compared as the index has them: the planner would read the lanes of all
  -- keys in trouble.
  subscription as materialized (
    select distinct subscriber from backlog where topic = $1::text and subscriber <> ''
  ),
  soonest as materialized (
    select lane.* from clock, subscription, lateral (
      select * from lanes
      where (lanes.topic, lanes.subscriber, due_at) > ($1::text, subscription.subscriber, clock.now)
        and (lanes.topic, lanes.subscriber, due_at) < ($1::text, subscription.subscriber, 'infinity')
        and due_at is not null and lease_token is null
      order by lanes.topic, lanes.subscriber, due_at limit ${LISTED_LANES}
    ) as lane
    order by due_at limit ${LISTED_LANES}
  ),
  -- The limits keep the planner from joining whole tables.
  held as (
    select coalesce(lanes.home_id, lanes.id)::text as id, first.position::text as position, lanes.topic, subscriber,
      event.ordering_key, first.event_id, first.attempts, extract(epoch from due_at) * 1000 as due_at,
      (first.attempt_log -> -1) - 'answer' as last, payload, version,
      -- The counts of a subscription's only lane are known.
      case when exists (
        select from lanes as other where other.topic = lanes.topic and other.subscriber = lanes.subscriber
          and other.id <> lanes.id
      ) then (
        select count(*) - 1
        from postbud_next_2(lanes.id, home_id, slot, held_key, head, ${COUNTED_BEHIND + 2})
      ) end as behind
    from soonest as lanes, lateral postbud_next_2(lanes.id, home_id, slot, held_key, head, 1) as next, lateral (
        select deliveries.position, deliveries.event_id, deliveries.attempts, attempt_log from deliveries
        where lane_id = coalesce(home_id, lanes.id) and deliveries.position = next.position limit 1
      ) as first, lateral (
        select ordering_key, payload, events.version from events where events.id = first.event_id limit 1
      ) as event
  ),
  halted as (
    select dead.lane_id::text as id, dead.position::text as position, halts.subscriber, events.ordering_key,
      dead.event_id, (dead.attempt_log -> -1) - 'answer' as last, payload, version, halted_at, ${HALT} as halts
    from (
      select halt.* from subscription, lateral (
        select * from halts where topic = $1::text and halts.subscriber = subscription.subscriber
        limit ${LANES_COUNTED}
      ) as halt
      order by halted_at, lane_id, position limit ${LISTED_LANES}
    ) as halts join deliveries as dead on dead.lane_id = halts.lane_id and dead.position = halts.position
      join events on events.id = dead.event_id
    where dead.state = 'dead_lettered' and dead.dismissed_at is null
  ),
  longest_lane as materialized (
    -- The lanes of keys in trouble have no deliveries of their own.
    select id from (
      select min(subscriber) as subscriber from lanes where topic = $1::text
    ) as first, lateral (
      select id, tail from lanes
      where topic = $1::text and lanes.subscriber = first.subscriber and ordering_key is not null
      union all
      ${sharedLanes('id, tail', '$1::text', 'first.subscriber')}
    ) as lane order by tail desc limit ${LISTED_EVENTS}
  ),
  newest as materialized (
    select newest.* from longest_lane, lateral (
      select event_id, position, payload_bytes from deliveries where lane_id = longest_lane.id
      order by position desc limit ${LISTED_EVENTS}
    ) as newest order by position desc limit ${LISTED_EVENTS}
  ),
  event as (
    select id, extract(epoch from created_at) * 1000 as created_at, ordering_key, state, position,
      case when payload_bytes <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, version
    from newest join events on events.id = event_id
  )
  select json_build_object(
    'held', (select coalesce(json_agg(held order by due_at), '[]') from held),
    'halted', (select coalesce(json_agg(halted order by halted_at, id, position), '[]') from halted),
    'events', (select coalesce(json_agg(event order by position desc), '[]') from event)
  ) as found`;
