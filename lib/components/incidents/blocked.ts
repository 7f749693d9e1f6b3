import { errorGroupOf, restGroupOf } from '../../bus/deliveries/error-group.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { MINUTE } from '../../platform/time.ts';
import type { Failure } from './failure.ts';

// Lanes that wait for the next attempt of their first delivery, by the error group of its last failure.

/** A row of `BLOCKED`: the lanes of a subscription whose last error is of one group, or was a moment ago. */
export interface Blocked {
  readonly topic: string;
  readonly subscriber: string;
  /** Empty where an older release recorded the failure; `rest` where there are too many. */
  readonly group: string;
  readonly lanes: number;
  readonly waiting: number;
  readonly since: string;
  readonly lingers: boolean;
  /** As thrown, like the kind. */
  readonly kind: string;
  readonly message: string;
  /** Of the event that failed last, to know its personal data. */
  readonly payload: unknown;
  readonly version: number;
}

/** No list shows a longer message. */
const MESSAGE_LIMIT = 500;

export function blockedFailure({ payload, version, group, ...of }: Blocked): Failure {
  const { topic, subscriber } = of;
  const texts = personalTexts(topic, payload, version);
  const [kind, message] = [maskPersonalData(of.kind, texts), maskPersonalData(of.message, texts)];
  const rest = group === REST ? restGroupOf(topic, subscriber, kind) : null;
  const shown = (text: string) => text.slice(0, MESSAGE_LIMIT).toWellFormed();
  return {
    ...of,
    group: rest?.key ?? (group || errorGroupOf(topic, subscriber, kind, message).key),
    kind: shown(kind),
    message: shown(rest?.message ?? message),
    halted: 0,
    dead: 0,
  };
}

/**
 * So long an error stays the incident that it was while the same deliveries fail with another: one that alternates with it
 * would close and open an incident at each attempt.
 */
const LINGERS_MS = 15 * MINUTE;

/**
 * As many errors of a subscription are incidents of their own, the same number as of its groups of dead letters: a subscriber
 * that answers in other words each time would open one for each lane. The first ones stay, and of new ones those that block
 * the most lanes; the rest of a kind is one.
 */
const MOST_ERRORS = 100;

const REST = 'rest';

/** Finds each error of the present round of the first deliveries; behind `head_of_lane`. */
export const FAILED = `failed as materialized (
    select topic, subscriber, waiting, event_id, attempted_at, coalesce(kind, '') as kind,
      coalesce(error_group, '') as error_group, coalesce(message, '') as message, coalesce(since, attempted_at) as since,
      coalesce(until, attempted_at) as until, coalesce(is_last, true) as is_last
    from head_of_lane left join lateral (
      select kind, error_group, min(at) as since, max(at) as until,
        (array_agg(message order by number desc))[1] as message, max(number) = max(max(number)) over () as is_last
      from (
        select number, entry ->> 'kind' as kind, entry ->> 'group' as error_group, entry ->> 'message' as message,
          (entry ->> 'at')::timestamptz as at, max(number) filter (where entry ->> 'attempt' = '1') over () as first_of_round
        -- An operator's retry, or a wait that the handler asked for, may come after the last of them.
        from jsonb_path_query(attempt_log, '$[*] ? (@.outcome == "failed")') with ordinality as logged(entry, number)
      ) as attempt
      where number >= coalesce(first_of_round, 0)
      group by kind, error_group
    ) as error on true
  )`;

/** Adds them up; behind `failed` and `absent`, which are the outage's. */
export const BLOCKED = `own_error as materialized (
    select topic, subscriber, kind, error_group, count(*) filter (where is_last) as lanes,
      coalesce(sum(waiting) filter (where is_last), 0) as waiting, min(since) as since, max(until) as until,
      (array_agg(event_id order by until desc))[1] as event_id, (array_agg(message order by until desc))[1] as message
    from failed where not exists (
      select from absent where absent.event_id = failed.event_id and absent.subscriber = failed.subscriber
    )
    group by topic, subscriber, kind, error_group
  ),
  known_error as materialized (
    select topic, subscriber, error_group from incidents where closed_at is null and error_group <> ''
    union
    select topic, subscriber, key from error_groups where exists (select from exceptions where error_group = key)
  ),
  known_count as materialized (
    select topic, subscriber, count(*) as known from known_error group by topic, subscriber
  ),
  ranked as (
    select *, row_number() over (
      partition by topic, subscriber, is_known order by lanes desc, error_group
    ) + coalesce(known, 0) as place
    from (
      -- Not a join: the planner would compare each with each.
      select *, (topic, subscriber, error_group) in (
        select topic, subscriber, error_group from known_error
      ) as is_known
      from own_error left join known_count using (topic, subscriber)
    ) as counted
  ),
  blocked as (
    select topic, subscriber, kind, error_group, sum(lanes) as lanes, round(sum(waiting)) as waiting,
      min(since)::text as since, max(until) > max(now) - ${LINGERS_MS} * interval '1 millisecond' as lingers,
      (array_agg(event_id order by until desc))[1] as event_id, (array_agg(message order by until desc))[1] as message
    from (
      select clock.now, topic, subscriber, kind, lanes, waiting, since, until, event_id, message,
        case when is_known or error_group = '' or place <= ${MOST_ERRORS} then error_group else '${REST}' end as error_group
      from clock, ranked where is_known or lanes > 0
    ) as bounded
    group by topic, subscriber, kind, error_group
  )`;
