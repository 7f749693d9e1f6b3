import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SUBSCRIPTIONS } from '../overview/found.ts';
import { OLDEST_SNAPSHOT } from '../overview/snapshot.ts';
import type { FoundSnapshot } from '../overview/snapshot.ts';
import type { FoundTimes } from './times.ts';

/** Facts that the overview does not have. */
export interface Others {
  readonly lanes: readonly {
    readonly topic: string;
    readonly subscriber: string;
    readonly blocked: number;
  }[];
  readonly outcomes: readonly {
    readonly topic: string;
    readonly subscriber: string;
    readonly delivered: number;
    readonly failed: number;
    readonly dead_lettered: number;
  }[];
  readonly rejections: readonly {
    readonly provider: string;
    readonly reason: string;
    readonly count: number;
  }[];
  readonly edge: readonly { readonly source: string; readonly outcome: string; readonly count: number }[];
  readonly setAside: readonly {
    readonly provider: string;
    readonly waiting: number;
    readonly unclaimed: number;
  }[];
  readonly reconciliations: readonly {
    readonly provider: string;
    readonly found: number;
    readonly failures: number;
    readonly ms: number;
  }[];
  readonly times: readonly FoundTimes[];
  readonly outages: readonly { readonly subscriber: string; readonly ms: number; readonly probes: number }[];
  readonly backlogAges: readonly { readonly subscriber: string; readonly ms: number }[];
  readonly oldestSnapshot: FoundSnapshot | null;
}

export async function findOthers(db: Database, now: Date | undefined): Promise<Others> {
  const [row] = await run<{ found: Others }>(driverOf(db), {
    text: OTHERS,
    values: [SUBSCRIPTIONS, now?.toISOString() ?? null],
  });
  return row!.found;
}

// The first delivery of a lane that waits, or of a key, is due later.
const OTHERS = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  lane as (
    select lanes.topic, lanes.subscriber, sum(waiting.number) as blocked
    from clock, jsonb_to_recordset($1::text::jsonb) as subscription(topic text, subscriber text)
      join lanes using (topic, subscriber), lateral (
        select count(*) as number from (
          select from exceptions where lane = lanes.id and due_at > clock.now limit ${LANES_COUNTED}
        ) as first
      ) as waiting
    group by lanes.topic, lanes.subscriber
  ),
  outcome as (
    select topic, subscriber, delivered_total as delivered, failed_total as failed,
      dead_lettered_total as dead_lettered
    from subscription_counts
  ),
  rejection as (
    select provider, reason, count from clock, webhook_rejections
    where day = (clock.now at time zone 'utc')::date
  ),
  edge as (
    select source, outcome, count from clock, edge_counts
    where day = (clock.now at time zone 'utc')::date
  ),
  set_aside as (
    select provider, count(*) filter (where unclaimed_at is null) as waiting, count(unclaimed_at) as unclaimed
    from webhooks_set_aside group by provider
  ),
  -- One that has not been taken up for an hour was turned off.
  reconciliation as (
    select provider, found, failures,
      greatest(0, extract(epoch from clock.now - greatest(succeeded_at, begun_at)) * 1000) as ms
    from clock, reconciliations where next_at > clock.now - interval '1 hour'
  ),
  times as (
    select subscriber, delivered_in, delivered_ms, handled_in, handled_ms from subscriber_health
    where period = 'total' and starts_at = 'epoch' and topic = ''
  ),
  backlog_age as (
    select subscriber, backlog_age_ms as ms from subscriber_health
    where period = 'hour' and starts_at = (select date_trunc('hour', clock.now, 'UTC') from clock) and topic = ''
      and backlog_age_ms is not null
  )
  select json_build_object(
    'lanes', (select coalesce(json_agg(lane), '[]') from lane where blocked > 0),
    'outcomes', (select coalesce(json_agg(outcome), '[]') from outcome),
    'rejections', (select coalesce(json_agg(rejection), '[]') from rejection),
    'edge', (select coalesce(json_agg(edge), '[]') from edge),
    'setAside', (select coalesce(json_agg(set_aside), '[]') from set_aside),
    'reconciliations', (select coalesce(json_agg(reconciliation), '[]') from reconciliation),
    'outages', (
      select coalesce(json_agg(json_build_object('subscriber', subscriber, 'probes', probes,
        'ms', greatest(0, extract(epoch from clock.now - opened_at) * 1000))), '[]')
      from clock, outages
    ),
    'times', (select coalesce(json_agg(times), '[]') from times),
    'backlogAges', (select coalesce(json_agg(backlog_age), '[]') from backlog_age),
    'oldestSnapshot', (${OLDEST_SNAPSHOT})
  ) as found`;
