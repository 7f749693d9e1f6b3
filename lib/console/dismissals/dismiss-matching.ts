import { beginDismissal, dismissDeadLetters } from '../../bus/deliveries/operations/dismiss.ts';
import type { Dismissal, Dismissed } from '../../bus/deliveries/operations/dismiss.ts';
import {
  CLOCK_AND_WINDOW,
  containing,
  deliveriesOfIds,
  windowValues,
} from '../../bus/deliveries/operations/replay-matching.ts';
import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import type { ChosenDeliveries } from '../../bus/deliveries/operations/replay-matching.ts';
import { CountChanged } from '../../bus/deliveries/refusals.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantSql as iso } from '../kit/fields.ts';

/** The dead letters of one subscription that match. */
interface MatchingSubscription {
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
  /** How many of them an operator skipped. */
  readonly skipped: number;
  /** Other dead letters of the subscription. */
  readonly others: number;
  /** How many of them halt their lane. */
  readonly halting: number;
  /** When the oldest and the newest died, in ISO 8601. */
  readonly firstAt: string;
  readonly lastAt: string;
}

export interface MatchingDeadLetters {
  readonly generatedAt: string;
  /** The window. All three are to the microsecond; without a beginning it is `-infinity`. */
  readonly since: string;
  readonly until: string;
  readonly matched: number;
  /** Dead letters that do not match. */
  readonly others: number;
  /** Ordered by topic and subscriber. */
  readonly subscriptions: readonly MatchingSubscription[];
}

/**
 * Finds the dead letters of a request, and changes nothing.
 */
export async function findDeadLetters(db: Database, asked: ChosenDeliveries): Promise<MatchingDeadLetters> {
  const { topic = null, subscriber: to = null, group: key = null, q, deliveryIds: ids } = asked;
  const [row] = await run<{ found: MatchingDeadLetters }>(driverOf(db), {
    text: ids ? FIND.chosen : FIND.filtered,
    values: [topic, to, key, ...windowValues(asked), ids ? JSON.stringify(ids) : null, q || null, null, null],
  });
  return row!.found;
}

export interface MatchingDismissed extends Dismissed {
  readonly matched: number;
  /** The `dismissed_at` of all, to the microsecond. */
  readonly dismissedAt: string;
}

/**
 * Dismisses the dead letters of a request, one subscription after the other, in chunks as `dismiss` does. Each
 * subscription has its record in the operators' log.
 *
 * @returns how many it dismissed, and how many still match because there was no time for them: the same request with
 *   that number as `expectedCount` continues.
 * @throws CountChanged when another number matches; nothing was dismissed. The driver's error; earlier chunks stay done.
 */
export async function dismissMatching(
  db: Database,
  asked: ChosenDeliveries,
  how: Dismissal,
): Promise<MatchingDismissed> {
  const found = await findDeadLetters(db, asked);
  const { matched, since: from, until: to } = found;
  if (asked.expectedCount !== undefined && asked.expectedCount !== matched)
    throw new CountChanged(asked.expectedCount, matched, 'dismiss');
  const { deliveryIds, group, q } = asked;
  const which = { deliveryIds, group, words: q || undefined, since: from, until: to };
  let dismissed = 0;
  for (const { topic, subscriber } of found.subscriptions)
    dismissed += await dismissDeadLetters(
      db,
      { topic, subscriber, ...which },
      { ...beginDismissal(how), at: found.generatedAt },
    );
  const { matched: left } = await findDeadLetters(db, { ...asked, until: to });
  // Another operator took all of them meanwhile.
  if (dismissed === 0 && left < matched) throw new CountChanged(matched, left, 'dismiss');
  return { matched, dismissed, left, dismissedAt: found.generatedAt };
}

const exact = (sql: string) =>
  `case when isfinite(${sql}) then to_char(${sql} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      else ${sql}::text end`;

/** @param matching the CTE `matching` with key, topic, subscriber, count, halting, first_at and last_at. */
const statement = (matching: string) => `
  with ${CLOCK_AND_WINDOW},
  ${matching},
  subscription as materialized (
    select topic, subscriber, sum(count)::float8 as count, coalesce(sum(count) filter (where key in (
        select key from error_groups where (kind, message) = ('${SKIPPED.kind}', '${SKIPPED.message}')
      )), 0)::float8 as skipped, sum(halting)::float8 as halting, min(first_at) as first_at,
      max(last_at) as last_at
    from matching group by topic, subscriber
  )
  select json_build_object(
    'generatedAt', ${exact('clock.now')}, 'since', ${exact('span.since')}, 'until', ${exact('span.until')},
    'matched', (select coalesce(sum(count), 0) from subscription),
    'others', (select count(*) from exceptions where dead_lettered_at is not null)
      - (select coalesce(sum(count), 0) from subscription),
    'subscriptions', (
      select coalesce(json_agg(json_build_object('topic', topic, 'subscriber', subscriber, 'count', count, 'skipped', skipped,
        'halting', halting, 'firstAt', ${iso('first_at')}, 'lastAt', ${iso('last_at')},
        'others', (
          select dead_lettered from subscription_counts
          where subscription_counts.topic = subscription.topic and subscription_counts.subscriber = subscription.subscriber
        ) - count) order by topic, subscriber), '[]')
      from subscription
    )
  ) as found
  from clock, span`;

const FIND = {
  filtered: statement(`matching as materialized (
    select key, topic, subscriber, counted.* from span, error_groups, lateral (
      select min(dead_lettered_at) as first_at, max(dead_lettered_at) as last_at, count(*) as count,
        count(*) filter (where is_open) as halting
      from exceptions where error_group = key and dead_lettered_at between span.since and span.until
    ) as counted
    where count > 0
      and ($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or key = any (string_to_array($3::text, ','))) and ${containing('$7::text')}
      and $6::text is null and $8::text is null
  )`),
  chosen: statement(`matching as materialized (
    select error_group as key, lanes.topic, lanes.subscriber, min(dead_lettered_at) as first_at,
      max(dead_lettered_at) as last_at, count(*) as count, count(*) filter (where is_open) as halting
    from span, ${deliveriesOfIds('$6')}
    where dead_lettered_at <= span.until and $1::text is null and $2::text is null and $3::text is null
      and $7::text is null and $8::text is null
    group by error_group, lanes.topic, lanes.subscriber
  )`),
};
