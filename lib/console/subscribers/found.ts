import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { INCIDENT, WORST_FIRST } from '../incidents/incident.ts';
import type { FoundIncident } from '../incidents/incident.ts';
import { actFields, SKIPPED_TOGETHER, STANDS_FOR_ACT } from '../kit/acts.ts';
import { field, instant, instantSql, jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { HELD, HELD_LANES } from '../held-lanes/held-lane.ts';
import type { FoundHeldLane } from '../held-lanes/held-lane.ts';

export const actionFields = {
  at: instant('acted.at'),
  action: field(z.string(), 'action', 'For example `replay`, `pause`, `resume`, `retry`, `skip`.'),
  operator: field(z.string(), 'operator'),
  topic: field(shape.topic.nullable(), 'topic', 'Null: all topics, or several.'),
  ...actFields,
  replayId: field(z.uuid().nullable(), 'replay_id'),
  reason: field(z.string().nullable(), 'reason'),
};

/** Of what still needs something, by topic. */
export const leftFields = {
  topic: field(shape.topic, 'topic'),
  waiting: field(shape.count, 'waiting'),
  deadLettered: field(shape.count, 'dead_lettered'),
};

/** The statement's result. Numbers for times are epoch milliseconds. */
export interface Found {
  readonly generatedAt: string;
  /** When the first interval begins. */
  readonly from: number;
  /** Topics with deliveries to the subscriber. */
  readonly topics: readonly string[];
  readonly left: readonly Row<typeof leftFields>[];
  /** Those that are not closed. */
  readonly incidents: readonly FoundIncident[];
  readonly held: readonly FoundHeldLane[];
  readonly periods: readonly FoundPeriod[];
  readonly actions: readonly Row<typeof actionFields>[];
}

/** An hour or a day. */
export interface FoundPeriod {
  readonly starts_at: number;
  readonly delivered: number;
  readonly failed: number;
  readonly dead_lettered: number;
  readonly replays_delivered: number;
  readonly replays_dead_lettered: number;
  readonly delivered_in: readonly number[];
  readonly handled_in: readonly number[];
  readonly backlog_age_ms: number | null;
}

interface Asked {
  readonly subscriber: string;
  /** Empty: all topics. */
  readonly topic: string;
  /** The subscriber's topics in the catalog. */
  readonly listed: readonly string[];
  readonly everyMs: number;
  readonly number: number;
}

/** Queries what is known of a subscriber in one statement. @param now overrides the database's clock in tests. */
export async function findHealth(
  db: Database,
  { subscriber, topic, listed, everyMs, number }: Asked,
  now: Date | undefined,
): Promise<Found> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: HEALTH,
    values: [subscriber, topic, listed.join(' '), everyMs, number, now?.toISOString() ?? null],
  });
  return row!.found;
}

const LISTED_ACTIONS = 100;

/** More are on the page of incidents. */
export const INCIDENTS = 20;

// Hours are never older than three days, and days never newer than two, so that none is counted twice. Replays of earlier
// releases have no recipients: such a replay concerns the subscriber if its request names it, or nobody. A reveal only
// reads.
const HEALTH = `
  with clock as materialized (
    select now, to_timestamp((floor(extract(epoch from now) * 1000 / $4::float8) - $5::int + 1) * $4::float8 / 1000)
      as from_at
    from (select coalesce($6::text::timestamptz, clock_timestamp()) as now) as read
  ),
  period as (
    select extract(epoch from starts_at) * 1000 as starts_at, delivered, failed, dead_lettered, replays_delivered,
      replays_dead_lettered, delivered_in, handled_in, backlog_age_ms
    from clock, subscriber_health
    where subscriber = $1::text and topic = $2::text and period in ('hour', 'day') and starts_at >= from_at
  ),
  known as (
    select topic, pending + failing as waiting, dead_lettered from subscription_counts where subscriber = $1::text
  ),
  subscription as materialized (
    select topic, $1::text as subscriber, waiting from known where waiting > 0
  ),
  ${HELD},
  act as (
    select at, action, operator, topic, delivery_id, null::uuid as replay_id, reason,
      ${SKIPPED_TOGETHER} as deliveries
    from clock, operator_actions
    where at >= from_at and subscriber = $1::text and (topic = $2::text or topic is null or $2::text = '')
      and action <> 'reveal' and ${STANDS_FOR_ACT}
    order by at desc limit ${LISTED_ACTIONS}
  ),
  replay as (
    select requested_at as at, 'replay' as action, requested_by as operator, topic, null::text as delivery_id,
      id as replay_id, reason, null::int as deliveries
    from clock, replays
    where requested_at >= from_at and case
      when recipients is not null then recipients @> jsonb_build_array(
        jsonb_strip_nulls(jsonb_build_object('subscriber', $1::text, 'topic', nullif($2::text, '')))
      )
      when topic = $2::text or $2::text = '' then coalesce(request ->> 'subscriber', $1::text) = $1::text
        and topic = any (string_to_array($3::text, ' '))
    end
    order by requested_at desc limit ${LISTED_ACTIONS}
  ),
  acted as (
    select * from act union all select * from replay order by at desc limit ${LISTED_ACTIONS}
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'from', extract(epoch from clock.from_at) * 1000,
    'topics', (select coalesce(json_agg(topic), '[]') from known),
    'left', (
      select coalesce(json_agg(${jsonOf(leftFields)} order by topic), '[]')
      from known where waiting > 0 or dead_lettered > 0
    ),
    'incidents', (
      select coalesce(json_agg(${INCIDENT} order by ${WORST_FIRST}), '[]') from (
        select * from incidents where closed_at is null and subscriber = $1::text order by ${WORST_FIRST} limit ${INCIDENTS}
      ) as incidents
    ),
    'held', ${HELD_LANES},
    'periods', (select coalesce(json_agg(period), '[]') from period),
    'actions', (select coalesce(json_agg(${jsonOf(actionFields)} order by at desc), '[]') from acted)
  ) as found
  from clock`;
