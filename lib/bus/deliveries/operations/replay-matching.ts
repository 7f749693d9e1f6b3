import { msOf } from '../../../platform/time.ts';
import { topics } from '../../catalog/catalog.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { clock } from '../parts.ts';
import { refusingReplays } from '../subscription.ts';

/** Dead letters that an operator has chosen: by their ids, or of a filter and a window. Time spans are `24h`, `90m`, `7d`. */
export interface ChosenDeliveries {
  readonly topic?: string | undefined;
  readonly subscriber?: string | undefined;
  /** Only those of this error group, or of several with commas between them. */
  readonly group?: string | undefined;
  /** Only those whose error contains these words. */
  readonly q?: string | undefined;
  /** Only those that ended within this time span. Required unless there are `deliveryIds`. */
  readonly since?: string | undefined;
  /** The end of that window: a time span before now, or an instant in UTC. */
  readonly until?: string | undefined;
  readonly deliveryIds?: readonly string[] | undefined;
  /** Refuses the action unless exactly this many match. */
  readonly expectedCount?: number | undefined;
}

/**
 * The deliveries of a replay. `since` is required unless there are `deliveryIds`; so is `topic` for an incident, and where
 * more than dead letters are replayed.
 */
export interface ReplayRequest extends ChosenDeliveries {
  /** Only the dead letters of one incident, a UUID. */
  readonly incident?: string | undefined;
  /** By default dead letters that nobody dismissed. `all`: those and what was delivered. */
  readonly include?: 'dead_letters' | 'dismissed' | 'all' | undefined;
  /** Only this many, the oldest first. */
  readonly limit?: number | undefined;
  /** Puts back about this many deliveries a minute; by default all at once. */
  readonly perMinute?: number | undefined;
  readonly reason?: string | undefined;
  /** A UUID chosen by the caller. A second request with it replays nothing. */
  readonly replayId?: string | undefined;
}

/**
 * Gives the parameters $1 to $10 of `matchingOf`. The third is error groups, or the id of an incident; the last has the
 * words of the error, too.
 *
 * @param attached tells whose handlers refuse replays.
 * @param at the moment to match at, in Postgres's notation; by default the database's clock.
 */
export function matchingValues(
  asked: ReplayRequest,
  attached: readonly AttachedSubscriber[],
  at: string | null = null,
): unknown[] {
  const { topic, subscriber, group, q, incident, deliveryIds, include, limit } = asked;
  return [
    topic ?? null,
    subscriber ?? null,
    group ?? incident ?? null,
    ...windowValues(asked),
    deliveryIds ? JSON.stringify(deliveryIds) : null,
    include === 'all',
    limit ?? null,
    at,
    JSON.stringify({ listed: listedOf(topic), refusing: refusingReplays(attached), words: q || undefined }),
  ];
}

/** Gives the parameters $4 and $5 of `CLOCK_AND_WINDOW`. */
function windowValues({
  since,
  until,
}: Pick<ChosenDeliveries, 'since' | 'until'>): readonly [since: number | null, until: number | string] {
  const untilMs = until === undefined ? 0 : msOf(until);
  return [since === undefined ? null : msOf(since), until === undefined || untilMs > 0 ? untilMs : until];
}

/** Lists the subscriptions of a topic in the catalog; without a topic, all. */
function listedOf(wanted: string | undefined): string[] {
  return topics().flatMap(([topic, { subscribers }]) =>
    wanted === undefined || wanted === topic ? subscribers.map((subscriber) => `${topic} ${subscriber}`) : [],
  );
}

/** The CTEs `clock` and `span` of `matchingValues`. */
const CLOCK_AND_WINDOW = `${clock('$9')},
  -- "until" is a number of milliseconds before now, or an instant. Never name a parameter in a comment: PGlite's
  -- transactions would count it as one more.
  span as materialized (
    select coalesce(now - $4::float8 * interval '1 millisecond', '-infinity') as since,
      case when $5::text ~ '^[0-9]+$' then now - $5::text::float8 * interval '1 millisecond'
        else $5::text::timestamptz end as until
    from clock
  )`;

/** When a delivery ended: a dismissed one when it was dismissed. */
const ENDED_AT = 'coalesce(delivery.dead_lettered_at, delivery.dismissed_at, delivery.delivered_at)';

/** Selects the deliveries that may be replayed and ended in the window. */
const HAS_ENDED = `
      (delivery.state = 'dead_lettered' or ($7::boolean and delivery.state = 'delivered'))
      and ${ENDED_AT} between span.since and span.until`;

/**
 * Gives the CTEs `clock`, `span`, `found` and `matching`, which find the deliveries of a request. `matching` has lane,
 * position, event_id, topic, subscriber, error_group, is_open, ended_at and is_dismissed, of those that a replay may put back, in the
 * order of their events; `found` also has whether the catalog lists the subscriber (is_listed) and whether its handler
 * refuses replays (refuses). `matchingValues` gives the parameters.
 */
export function matchingOf({ deliveryIds, include = 'dead_letters' }: ReplayRequest): string {
  return MATCHING[deliveryIds ? 'chosen' : include];
}

const matching = (from: string, where: string) => `${CLOCK_AND_WINDOW},
  found as materialized (
    select delivery.lane, delivery.position, delivery.event_id, lanes.topic, lanes.subscriber, delivery.error_group,
      delivery.is_open, ${ENDED_AT} as ended_at, delivery.dismissed_at is not null as is_dismissed,
      $10::text::jsonb -> 'listed' ? (lanes.topic || ' ' || lanes.subscriber) as is_listed,
      $10::text::jsonb -> 'refusing' ? (lanes.topic || ' ' || lanes.subscriber) as refuses
    from span, ${from}
    where ${where}
  ),
  matching as materialized (
    select * from found where is_listed and not refuses order by event_id, lane limit $8::int
  )`;

/** Whether the error of a group contains words. @param words their SQL; null stands for any error. */
export const containing = (words: string) =>
  `(${words} is null or position(lower(${words}) in lower(kind || ' ' || message)) > 0)`;

/**
 * Reads deliveries by their ids: the rows of `delivery`, and their lanes. Each is read by itself, whatever the planner thinks
 * of their number.
 *
 * @param ids a JSON array as text.
 */
export const deliveriesOfIds = (ids: string) => `(
      select distinct left(id, 36)::uuid as event_id, substr(id, 38) as subscriber
      from jsonb_array_elements_text(${ids}::text::jsonb) as id
    ) as chosen cross join lateral (
      select stream, log.position from log where log.event_id = chosen.event_id limit 1
    ) as place join lanes on lanes.stream = place.stream and lanes.subscriber = chosen.subscriber cross join lateral (
      select * from deliveries where deliveries.lane = lanes.id and deliveries.position = place.position offset 0
    ) as delivery`;

/** Each way goes through its own index. */
const MATCHING = {
  chosen: matching(
    deliveriesOfIds('$6'),
    `($1::text is null or lanes.topic = $1::text) and ($2::text is null or lanes.subscriber = $2::text)
      and ($3::text is null or delivery.error_group = any (string_to_array($3::text, ','))) and ${HAS_ENDED}`,
  ),
  dead_letters: matching(
    // The offset has each group read through its index, however many groups match.
    `error_groups cross join lateral (
      select * from exceptions where error_group = key and dead_lettered_at between span.since and span.until offset 0
    ) as delivery join lanes on lanes.id = delivery.lane`,
    `($1::text is null or error_groups.topic = $1::text) and ($2::text is null or error_groups.subscriber = $2::text)
      and ($3::text is null or key = any (string_to_array($3::text, ',')) or key = (
        select incidents.error_group from incidents where id = case when length($3::text) = 36 then $3::text::uuid end
      ))
      and ${containing("$10::text::jsonb ->> 'words'")} and $6::text is null and not $7::boolean`,
  ),
  dismissed: matching(
    'exceptions as delivery join lanes on lanes.id = delivery.lane',
    `lanes.topic = $1::text and ($2::text is null or lanes.subscriber = $2::text) and $3::text is null
      and $6::text is null and not $7::boolean and delivery.dismissed_at between span.since and span.until`,
  ),
  all: matching(
    // Of the log only the part that each lane's head passed in the window: what ended before it was settled, or was settled
    // late, is sorted out one by one.
    `lanes cross join lateral (
      select postbud_head_at_1(lanes.id, span.since) as first, postbud_head_at_1(lanes.id, span.until + interval '5 minutes') as last
    ) as passed cross join lateral (
      select * from deliveries
      where deliveries.lane = lanes.id and deliveries.position > passed.first and deliveries.position <= passed.last
      union all
      select * from deliveries
      where deliveries.lane = lanes.id and deliveries.position in (
        select exceptions.position from exceptions
        where exceptions.lane = lanes.id and (exceptions.position <= passed.first or exceptions.position > passed.last)
          and coalesce(dead_lettered_at, delivered_at) between span.since and span.until
      )
    ) as delivery`,
    `lanes.topic = $1::text and ($2::text is null or lanes.subscriber = $2::text)
      and ($3::text is null or delivery.error_group = any (string_to_array($3::text, ','))) and $6::text is null
      and delivery.dismissed_at is null and ${HAS_ENDED}`,
  ),
};
