import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { leasedHomeLanes } from '../../platform/db/leased-home-lanes.ts';
import { run } from '../../platform/db/statement.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { DAY } from '../../platform/time.ts';
import { BLOCKED, FAILED, blockedFailure } from './blocked.ts';
import type { Blocked } from './blocked.ts';
import { EDGE_FAILURES, edgeWords } from './edge-failures.ts';
import type { EdgeFailure } from './edge-failures.ts';
import type { Failure } from './failure.ts';
import { LANES_COUNTED, HALTING_COUNTED, waitingBehind } from './halts.ts';
import { headOf } from './head-of-lane.ts';
import { UNREADABLE, unreadableFailure } from './unreadable.ts';
import type { Unreadable } from './unreadable.ts';

/**
 * Reads the outages, the lanes that a failing delivery blocks, a dead letter halts or nobody can read, the error groups with
 * dead letters, what the bus set aside, a chat that fails, and days' budgets that come to their end.
 *
 * What fails because nobody is there belongs to the outage once there is one, also until it has been tried again after it.
 *
 * @param now overrides the database's clock in tests.
 */
export async function findFailures(tx: Transaction, now?: Date): Promise<readonly Failure[]> {
  const values = [JSON.stringify(ABSENT_KINDS), now?.toISOString() ?? null];
  const [row] = await run<{ found: Found }>(tx, { text: FAILURES, values });
  const { blocked, halted, dead, outages, unreadable, aside, edge } = row!.found;
  const failures = new Map<string, Failure>();
  for (const failure of [
    ...outages.map(outageFailure),
    ...blocked.map(blockedFailure),
    ...unreadable.map(unreadableFailure),
    ...halted.map((halt) => ({ ...halt, halted: halt.lanes, dead: 0 })),
    ...dead.map((of) => ({ ...NO_LANES, ...of })),
    ...aside.map((of) => ({ ...NO_LANES, ...of, group: '', subscriber: '', message: ASIDE[of.kind] })),
    ...edge.map(edgeFailure),
  ]) {
    const key = JSON.stringify([failure.topic, failure.subscriber, failure.kind, failure.group]);
    const earlier = failures.get(key);
    const blockedSince = failure.lanes > 0 ? failure.since : null;
    failures.set(key, earlier ? together(earlier, failure) : { ...failure, blockedSince });
  }
  return [...failures.values()];
}

/** The statement's result. Instants are in Postgres's notation. */
interface Found {
  readonly blocked: readonly Blocked[];
  readonly halted: readonly Omit<Failure, 'halted' | 'dead'>[];
  readonly outages: readonly Outage[];
  readonly unreadable: readonly Unreadable[];
  /** What the bus set aside and nobody has repaired. */
  readonly aside: readonly {
    readonly topic: string;
    readonly kind: keyof typeof ASIDE;
    readonly dead: number;
    readonly since: string;
  }[];
  readonly edge: readonly EdgeFailure[];
  readonly dead: readonly Omit<Failure, keyof typeof NO_LANES>[];
}

type Outage = Omit<Failure, 'topic' | 'group' | 'halted' | 'dead'>;

function edgeFailure({ kind, outcome, since }: EdgeFailure): Failure {
  const message = edgeWords(kind)?.message(outcome) ?? '';
  return { ...NO_LANES, topic: '', subscriber: '', kind, group: '', message, dead: 0, since };
}

/** The kinds of incidents of the bus itself, which have no subscriber, and their messages. */
const ASIDE = {
  strange_row: 'a row that should not exist: it has no event, or cannot be fanned out',
  clock_was_ahead: 'times lay in the future, which only a wrong clock explains',
} as const;

const NO_LANES = { lanes: 0, halted: 0, waiting: 0 };

/** What a component answers is kept without personal data; any other message may hold that of an event not known here. */
function outageFailure({ message, ...of }: Outage): Failure {
  const silent = silence(of.kind);
  const said = message.startsWith(`${silent}: `) ? maskPersonalData(message, []) : silent;
  return { ...of, topic: '', group: '', halted: 0, dead: 0, message: said };
}

/** Says how nobody answers. */
function silence(kind: string): string {
  const status = /^http_(\d{3})$/.exec(kind)?.[1];
  if (status !== undefined) return `the subscriber answered ${status}`;
  return kind === 'timeout' ? 'the subscriber did not answer in time' : 'the subscriber cannot be reached';
}

/** Adds up two failures of one error. The first one's message is the newer: that of blocked lanes. */
function together(one: Failure, other: Failure): Failure {
  return {
    ...one,
    lanes: one.lanes + other.lanes,
    halted: one.halted + other.halted,
    waiting: one.waiting + other.waiting,
    dead: one.dead + other.dead,
    since: Date.parse(one.since) < Date.parse(other.since) ? one.since : other.since,
  };
}

/** Deliveries that are counted in the lane of a key. */
const COUNTED = 100;

/** A lane that has been due for longer holds no answer of a component: nobody has asked one, because it is unattached. */
const UNTRIED_MS = 1 * DAY;

/** Where more lanes are blocked, all that the subscription has waits for the subscriber, and is known from the counts. */
const COUNTED_LANES = 100;

/** The start of an attempt log's current round: the first attempt since fan-out or the last replay. */
const ROUND_BEGAN = `(jsonb_path_query_array(attempt_log, '$[*] ? (@.attempt == 1)') -> -1 ->> 'at')::timestamptz`;

// A delivery fails in a lane of a whole topic, or in the lane of its own key: a shared lane lets a failing key go. So
// shared lanes are not read. How much waits in a whole topic is known from the counts.
const FAILURES = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  open as materialized (
    select topic, subscriber, sum(pending) + sum(failing) as waiting, sum(failing) > 0 as is_failing from backlog
    where subscriber <> '' group by topic, subscriber having sum(pending) + sum(failing) > 0
  ),
  lane as materialized (
    select open.topic, open.subscriber, lane.id, home_id, held_key, head,
      case when ordering_key = '' then open.waiting
        when lanes > ${COUNTED_LANES} then open.waiting / lanes::float8 end as waiting
    from clock, open, lateral (
      select *, count(*) over () as lanes from (
        (
          select * from (${leasedHomeLanes('open.topic', 'open.subscriber')}
          ) as leased where slot is null
        )
        union all
        (
          -- Rows are compared as the index has them: the planner would read and sort the lanes of all keys in trouble.
          select * from lanes
          where (lanes.topic, lanes.subscriber, due_at) >= (open.topic, open.subscriber,
              case when is_failing then '-infinity' else clock.now - ${UNTRIED_MS} * interval '1 millisecond' end)
            and (lanes.topic, lanes.subscriber, due_at) < (open.topic, open.subscriber, 'infinity')
            and due_at is not null and (home_id is not null or slot is null)
          order by lanes.topic, lanes.subscriber, due_at limit ${LANES_COUNTED}
        )
      ) as soonest
    ) as lane
  ),
  head_of_lane as materialized (
    select topic, subscriber, coalesce(lane.waiting, next.open) as waiting, event_id, attempted_at, attempt_log, state
    from lane cross join lateral (${headOf('lane', `case when lane.waiting is null then ${COUNTED} else 1 end`)}
    ) as next
  ),
  ${UNREADABLE},
  ${FAILED},
  -- Until when each subscriber did not answer: its outage may be open still. What ends later than now, a clock that was
  -- ahead has closed; clocks differ by seconds.
  silence as materialized (
    select subscriber, max(until) as until from (
      select subscriber, 'infinity'::timestamptz as until from outages
      union all
      select subscriber, coalesce(closed_at, 'infinity') from clock, incidents
      where topic = '' and (closed_at is null or closed_at <= clock.now + interval '10 seconds')
    ) as outage
    group by subscriber
  ),
  absent as materialized (
    -- Not tried since.
    select failed.* from failed join silence using (subscriber)
    where is_last and $1::text::jsonb ? kind and silence.until > attempted_at
  ),
  outage as (
    select outages.subscriber, kind, message, least(opened_at, began_at, (
      select min(since) from absent where absent.subscriber = outages.subscriber
    ))::text as since, (
      select coalesce(sum(pending) + sum(failing), 0) from backlog where backlog.subscriber = outages.subscriber
    ) as waiting, (
      select count(*) from (
        select distinct topic from backlog where backlog.subscriber = outages.subscriber
      ) as subscription, lateral (
        (
          select from lanes
          where (lanes.topic, lanes.subscriber, due_at) >= (subscription.topic, outages.subscriber, '-infinity')
            and (lanes.topic, lanes.subscriber, due_at) < (subscription.topic, outages.subscriber, 'infinity')
            and due_at is not null
          order by lanes.topic, lanes.subscriber, due_at limit ${LANES_COUNTED}
        )
        union all
        (
          select from (${leasedHomeLanes('subscription.topic', 'outages.subscriber')}
          ) as leased
        )
      ) as lane
    ) as lanes
    from outages where recovered_at is null
  ),
  -- A lane may have several; the first one halts it.
  halt as materialized (
    select distinct on (lane_id, lane_key) * from (${HALTING_COUNTED}) as halting
    order by lane_id, lane_key, position
  ),
  halted as (
    select halt.topic, halt.subscriber, kind, key as "group", message, count(*) as lanes, min(halted_at)::text as since,
      sum(case when home.ordering_key = '' then (
        select sum(pending) + sum(failing) from backlog
        where (backlog.topic, backlog.subscriber) = (halt.topic, halt.subscriber)
      ) else ${waitingBehind('halt', COUNTED)} end) as waiting
    from halt join error_groups on key = error_group cross join lateral (
      select ordering_key from lanes where lanes.id = lane_id limit 1
    ) as home
    group by halt.topic, halt.subscriber, error_groups.key
  ),
  ${BLOCKED},
  dead_group as (
    select topic, subscriber, kind, key as "group", message, dead_lettered as dead, coalesce((
      select opened_at::text from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind, incidents.error_group)
          = (error_groups.topic, error_groups.subscriber, error_groups.kind, key)
        and closed_at is null
    ), (
      select coalesce((
        select min((entry ->> 'at')::timestamptz) from jsonb_array_elements(attempt_log) as entry
        where entry ->> 'group' = key and (entry ->> 'at')::timestamptz >= ${ROUND_BEGAN}
      ), ${ROUND_BEGAN}, dead_lettered_at)::text
      from deliveries where error_group = key order by dead_lettered_at limit 1
    )) as since
    -- What an operator skipped was decided: it is no incident.
    from error_groups where dead_lettered > 0 and (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}')
  ),
  ${EDGE_FAILURES},
  aside as (
    select topic, case when kind = 'clock_was_ahead' then kind else 'strange_row' end as kind, count(*) as dead,
      min(at)::text as since
    from set_aside where repaired_at is null group by 1, 2
  )
  select json_build_object(
    'unreadable', (select coalesce(json_agg(unreadable), '[]') from unreadable),
    'edge', (select coalesce(json_agg(edge), '[]') from edge),
    'aside', (select coalesce(json_agg(aside), '[]') from aside),
    'outages', (select coalesce(json_agg(outage), '[]') from outage),
    'halted', (select coalesce(json_agg(halted), '[]') from halted),
    'blocked', (
      select coalesce(json_agg(json_build_object('topic', blocked.topic, 'subscriber', subscriber, 'kind', kind,
        'group', error_group, 'message', message, 'lanes', lanes, 'waiting', waiting, 'since', since,
        'lingers', lingers and lanes = 0, 'payload', payload, 'version', version)), '[]')
      -- The limit keeps the planner from joining whole tables.
      from blocked, lateral (select payload, version from events where events.id = event_id limit 1) as event
      where lanes > 0 or lingers
    ),
    'dead', (select coalesce(json_agg(dead_group), '[]') from dead_group where since is not null)
  ) as found`;
