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
export function windowValues({
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
export const CLOCK_AND_WINDOW = `${clock('$9')},
  -- "until" is a number of milliseconds before now, or an instant. Never name a parameter in a comment: PGlite's
  -- transactions would count it as one more.
  span as materialized (
    select coalesce(now - $4::float8 * interval '1 millisecond', '-infinity') as since,
      case when $5::text ~ '^[0-9]+$' then now - $5::text::float8 * interval '1 millisecond'
        else $5::text::timestamptz end as until
    from clock
  )`;

/** Selects the deliveries that may be replayed and ended in the window. A dismissed one ended when it was dismissed. */
const HAS_ENDED = `
      (state = 'dead_lettered' or ($7::boolean and state = 'delivered'))
      and coalesce(dead_lettered_at, dismissed_at, delivered_at) between span.since and span.until`;

/**
 * Gives the CTEs `clock`, `span`, `found` and `matching`, which find the deliveries of a request. `matching` has lane_id,
 * position, replays, error_group, event_id and ended_at, of those that a replay may put back, the oldest first; `found` also
 * has the lane's topic and subscriber, whether the catalog lists them (is_listed) and whether the handler refuses replays
 * (refuses). `matchingValues` gives the parameters.
 */
export function matchingOf({ deliveryIds, include = 'dead_letters' }: ReplayRequest): string {
  return MATCHING[deliveryIds ? 'chosen' : include];
}

const matching = (endedAt: string, from: string, where: string) => `${CLOCK_AND_WINDOW},
  found as materialized (
    select lane_id, position, deliveries.replays, error_group, event_id, ${endedAt} as ended_at, topic, subscriber,
      $10::text::jsonb -> 'listed' ? (topic || ' ' || subscriber) as is_listed,
      $10::text::jsonb -> 'refusing' ? (topic || ' ' || subscriber) as refuses
    from span, ${from}
    where ${where}
  ),
  matching as materialized (
    select lane_id, position, replays, error_group, event_id, ended_at from found where is_listed and not refuses
    -- Positions of several topics do not compare.
    order by case when $1::text is null and $6::text is null then ended_at end, position, lane_id limit $8::int
  )`;

/** Whether the error of a group contains words. @param words their SQL; null stands for any error. */
export const containing = (words: string) =>
  `(${words} is null or position(lower(${words}) in lower(kind || ' ' || message)) > 0)`;

/** Each way goes through its own index. */
const MATCHING = {
  chosen: matching(
    'coalesce(dead_lettered_at, dismissed_at, delivered_at)',
    `(select distinct id from jsonb_array_elements_text($6::text::jsonb) as id) as chosen
      join deliveries on lane_id = split_part(id, '-', 1)::bigint and position = split_part(id, '-', 2)::bigint
      join lanes on lanes.id = lane_id`,
    `($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or error_group = any (string_to_array($3::text, ','))) and ${HAS_ENDED}`,
  ),
  dead_letters: matching(
    'dead_lettered_at',
    // The offset has each group read through its index, however many groups match.
    `error_groups cross join lateral (
      select * from deliveries where error_group = key and dead_lettered_at between span.since and span.until offset 0
    ) as deliveries`,
    `dead_lettered > 0 and ($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or key = any (string_to_array($3::text, ',')) or key = (
        select incidents.error_group from incidents where id = case when length($3::text) = 36 then $3::text::uuid end
      ))
      and ${containing("$10::text::jsonb ->> 'words'")} and $6::text is null and not $7::boolean`,
  ),
  dismissed: matching(
    'dismissed_at',
    'deliveries join lanes on lanes.id = lane_id',
    `topic = $1::text and ($2::text is null or subscriber = $2::text) and $3::text is null
      and $6::text is null and not $7::boolean and dismissed_at between span.since and span.until`,
  ),
  all: matching(
    'coalesce(dead_lettered_at, delivered_at)',
    'lanes join deliveries on lane_id = lanes.id',
    `topic = $1::text and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or error_group = any (string_to_array($3::text, ','))) and $6::text is null
      and dismissed_at is null and ${HAS_ENDED}`,
  ),
};
