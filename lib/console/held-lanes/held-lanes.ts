import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { HALTING, waitingBehind } from '../../components/incidents/halts.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { visibleName } from '../../platform/visible.ts';
import { firstOfLaneForms } from '../kit/actions.ts';
import { byReplay, dismisses, replays } from '../kit/doc.ts';
import type { Act, Block } from '../kit/doc.ts';
import {
  below,
  inConsole,
  errorPhrase,
  link,
  mono,
  say,
  strong,
  subscriberPhrase,
  when,
} from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { computed, field, instantOrNull, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { allowedAttempts, maxAttemptsOf } from '../kit/handling.ts';
import { deadLetterPath, eventPath, topicPath } from '../kit/links.ts';
import { LISTED_PAYLOAD_BYTES, listedOf } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import { until, attemptsWords, count, shortId } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';

const heldFields = {
  topic: field(shape.topic, 'topic'),
  subscriber: field(z.string(), 'subscriber'),
  orderingKey: field(z.string(), 'ordering_key'),
  deliveryId: field(
    z.string().describe('The delivery that holds the lane.'),
    "event_id || '.' || subscriber",
  ),
  eventId: field(z.uuid(), 'event_id'),
  subject: computed(z.string().nullable()),
  attempts: field(shape.count.describe('Failed attempts so far.'), 'attempts'),
  maxAttempts: computed(allowedAttempts),
  attemptedAt: instantOrNull('attempted_at', 'The last attempt, or try.'),
  nextAttemptAt: instantOrNull('next_attempt_at', 'Null for a dead letter.'),
  deadLetteredAt: instantOrNull(
    'dead_lettered_at',
    'Of a dead letter that halts the lane, until it is replayed or dismissed: it is not attempted.',
  ),
  waitsFor: field(
    z.enum(['pause', 'outage']).nullable(),
    'waits_for',
    'Whose end it waits for before its next attempt: of a pause, or of an outage of its subscriber.',
  ),
  lastError: computed(shape.lastError.nullable()),
  behind: field(shape.count.describe('Deliveries that wait behind it.'), 'behind'),
  isMoreBehind: field(
    z.boolean().describe('Whether more deliveries wait than `behind` counts.'),
    'is_more_behind',
  ),
};
export const heldLane = z.object(shapesOf(heldFields)).meta({
  id: 'HeldLane',
  description: 'A lane whose first delivery waits for a retry, or is a dead letter that halts it.',
});
export type HeldLane = z.output<typeof heldLane>;

/** What the statement reads of one. */
export interface FoundHeldLane extends Row<typeof heldFields>, BesideListed {}

/** @param attached tells how many attempts a delivery has. */
export function heldLaneOf(found: FoundHeldLane, attached: readonly AttachedSubscriber[]): HeldLane {
  const { topic, subscriber } = found;
  return { ...listedOf(topic, found), maxAttempts: maxAttemptsOf(topic, subscriber, attached) };
}

/**
 * Reads the lanes of a topic or of a subscriber whose first delivery waits for a retry, by their next attempt, then those
 * that a dead letter halts.
 *
 * @param attached tells how many attempts a delivery has. @param now overrides the database's clock in tests.
 */
export async function readHeldLanes(
  db: Database,
  { topic, subscriber }: { readonly topic?: string; readonly subscriber?: string },
  attached: readonly AttachedSubscriber[],
  now?: Date,
): Promise<HeldLane[]> {
  const values = [topic ?? null, subscriber ?? null, now?.toISOString() ?? null];
  const [row] = await run<{ held: readonly FoundHeldLane[] }>(driverOf(db), { text: OF_PAGE, values });
  return row!.held.map((lane) => heldLaneOf(lane, attached));
}

/** Lanes that a page lists. */
export const LISTED_LANES = 50;

/** Nobody acts on a greater number in another way, and each is counted. */
const COUNTED_BEHIND = 1000;

/** Of a row `held` of `exceptions`. One that was the first before a replay put an earlier one back still has its time. */
const IS_FIRST = `not exists (
          select from exceptions as earlier
          where earlier.lane = held.lane and earlier.ordering_key = held.ordering_key and earlier.is_open
            and earlier.position < held.position
        )`;

/**
 * The CTE `first`: the deliveries that hold lanes of `subscription` (topic, subscriber), or keys in them, and wait for their next
 * attempt, the soonest first; then the dead letters that halt them.
 */
const FIRST = `
  first as materialized (
    (
      select topic, subscriber, lane.stream, lane.slot, lane.head, lane.tail, waiting.*
      from clock, subscription join lane_heads as lane using (topic, subscriber), lateral (
        select * from exceptions as held
        where held.lane = lane.id and due_at > clock.now and ${IS_FIRST}
        order by due_at limit ${LISTED_LANES}
      ) as waiting
      order by due_at limit ${LISTED_LANES}
    )
    union all
    (
      select * from subscription join (${HALTING}) as held using (topic, subscriber)
      where ${IS_FIRST} order by dead_lettered_at limit ${LISTED_LANES}
    )
    order by due_at, dead_lettered_at limit ${LISTED_LANES}
  )`;

/** The CTE `held`: what is to be said of rows of `first`, which are exceptions with their topic, subscriber, stream and slot. */
export const HELD_FIRST = `
  held as (
    select first.topic, first.subscriber, first.ordering_key, first.event_id, first.attempts, first.attempted_at, first.dead_lettered_at,
      -- An operator's action may come after it.
      (
        jsonb_path_query_array(first.attempt_log, '$[*] ? (@.outcome == "failed" || @.outcome == "waited")') -> -1
      ) - 'answer' as last,
      case when log.bytes <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, log.version,
      case
        when exists (
          select from pauses where pauses.subscriber = first.subscriber and pauses.topic in ('', first.topic)
        ) then 'pause'
        when exists (select from outages where outages.subscriber = first.subscriber) then 'outage'
      end as waits_for,
      -- In an outage, not before the next probe. What a relay has in hand is being attempted now.
      case when first.dead_lettered_at is null then greatest(coalesce(first.due_at, clock.now), (
        select next_probe_at from outages where outages.subscriber = first.subscriber
      )) end as next_attempt_at,
      case when slot > 0 then least(number, ${COUNTED_BEHIND}) else number + (
        select count(*) from awaiting where awaiting.topic = first.topic and first.subscriber = any (awaiting.subscribers)
      ) end as behind,
      slot > 0 and number > ${COUNTED_BEHIND} as is_more_behind
    from clock, first join log using (stream, position) join events on events.id = first.event_id, lateral (
      select ${waitingBehind('first', `case when first.slot > 0 then ${COUNTED_BEHIND + 2} end`)}
        - (first.dead_lettered_at is null)::int as number
    ) as behind
  )`;

const BESIDE_HELD = { payload: 'payload', version: 'version', last: 'last' };

/** The rows of `held` as JSON: by their next attempt, then dead letters. */
export const HELD_LANES = `(
      select coalesce(json_agg(${jsonOf(heldFields, BESIDE_HELD)} order by next_attempt_at, dead_lettered_at), '[]') from held
    )`;

const OF_PAGE = `
  with clock as materialized (
    select coalesce($3::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select distinct topic, subscriber from lanes
    where ($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
  ),
  ${FIRST},
  ${HELD_FIRST}
  select ${HELD_LANES} as held`;

interface Around {
  /** Of those that are listed. */
  readonly title?: string;
  /** In whose log it is what operators do with them. */
  readonly incidentId?: string;
}

/** Lanes with what holds them, and what can be done with that. */
export function heldLanesBlock(
  lanes: readonly HeldLane[],
  now: string,
  { title = 'Held lanes', incidentId }: Around = {},
): Block {
  return {
    id: 'held',
    title,
    hint: inConsole(
      'A lane is a subscriber’s deliveries in order. While its first one fails, or is a dead letter that halts it, the others wait behind it.',
    ),
    list: heldLaneList(lanes, now),
    acts: (lane: HeldLane) => heldLaneActs(lane, incidentId),
  };
}

function heldLaneList(rows: readonly HeldLane[], now: string): List<HeldLane> {
  return {
    name: 'Held lanes',
    columns: [
      { label: 'Lane', isRowHeader: true, cell: laneName },
      { label: 'Held by', cell: (lane) => heldBy(lane, now) },
      {
        label: 'Last error',
        look: 'message',
        cell: ({ lastError }) => (lastError === null ? 'The handler asked to wait.' : errorPhrase(lastError)),
      },
      {
        label: 'Behind it',
        tone: 'num',
        cell: ({ behind, isMoreBehind }) => `${isMoreBehind ? 'over ' : ''}${count(behind)}`,
      },
      { label: 'Next attempt', look: 'nowrap', cell: (lane) => nextWords(lane, now) },
    ],
    rows,
    idOf: ({ deliveryId }) => deliveryId,
  };
}

/** Names a lane by its subscription, and below it by its ordering key. */
function laneName({ topic, subscriber, orderingKey }: HeldLane): Phrase {
  const key = orderingKey === '' ? 'whole topic' : say`key ${mono(visibleName(orderingKey))}`;
  return say`${strong(subscriberPhrase(subscriber))} on ${link(topicPath(topic), topic)}${below(key, ', ')}`;
}

/** The delivery, or the dead letter that halts the lane. */
function heldBy(lane: HeldLane, now: string): Phrase {
  const { deliveryId, subscriber, eventId, subject, attempts, maxAttempts, attemptedAt: at } = lane;
  const { deadLetteredAt: since } = lane;
  const held =
    since === null
      ? link(`${eventPath(eventId)}#to-${subscriber}`, shortId(eventId), 'mono nowrap')
      : link(deadLetterPath(deliveryId), `dead letter ${shortId(eventId)}`);
  const about =
    since === null
      ? say`${attemptsWords(attempts, maxAttempts)}${at !== null && say`, last tried ${when(at, now)}`}`
      : say`since ${when(since, now)}`;
  return say`${held}${below(say`${subject !== null && `${subject}, `}${about}`, ', ')}`;
}

function nextWords({ waitsFor, subscriber, nextAttemptAt }: HeldLane, now: string): string {
  if (nextAttemptAt === null) return 'when replayed';
  if (waitsFor === 'pause') return 'after the pause';
  return waitsFor === 'outage' ? `when ${subscriber} answers again` : until(nextAttemptAt, now);
}

/** What can be done with the delivery that holds a lane. */
function heldLaneActs(lane: HeldLane, incidentId?: string): readonly Act[] {
  const { topic, subscriber, orderingKey, deliveryId, deadLetteredAt, attempts: failures } = lane;
  const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
  if (deadLetteredAt === null)
    return [byReplay((context) => firstOfLaneForms({ ...lane, failures, incidentId }, of, context))];
  return [
    replays({ topic, subscriber }, of, { deliveryIds: deliveryId }),
    dismisses(deliveryId, of, { incident: incidentId }),
  ];
}
