import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import { ABSENT_KINDS } from '../../bus/deliveries/outage.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { BLOCKED, FAILED, blockedFailure } from './blocked.ts';
import type { Blocked } from './blocked.ts';
import { EDGE_FAILURES, edgeWords } from './edge-failures.ts';
import type { EdgeFailure } from './edge-failures.ts';
import type { Failure } from './failure.ts';
import { FAILING, HALTING, LANES_COUNTED, waitingBehind } from './halts.ts';
import { UNREADABLE, VERSIONS, unreadableFailure } from './unreadable.ts';
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
  const values = [JSON.stringify(ABSENT_KINDS), now?.toISOString() ?? null, JSON.stringify(VERSIONS)];
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
  strange_row: 'a row that should not exist: it has no event, or cannot be given a place',
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

/** Where more lanes are blocked, all that the subscription has waits for the subscriber, and is known from the counts. */
const COUNTED_LANES = 100;

/** The start of an attempt log's current round: the first attempt since its place or the last replay. */
const ROUND_BEGAN = `(jsonb_path_query_array(attempt_log, '$[*] ? (@.attempt == 1)') -> -1 ->> 'at')::timestamptz`;

// A failing delivery blocks a lane without keys, or its own key.
const FAILURES = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  blocking as materialized (
    select topic, subscriber, stream, slot, head, tail, lane, ordering_key, position, event_id, attempted_at, attempt_log
    from (${FAILING}) as failing
  ),
  crowd as materialized (
    select topic, subscriber, count(*) as lanes from blocking group by topic, subscriber having count(*) > ${COUNTED_LANES}
  ),
  -- What subscriptions have to deliver of which lanes are blocked, or whose subscriber does not answer.
  counted as materialized (
    select topic, subscriber, sum(beyond + open) as waiting, sum(case when slot = 0 then least(1, beyond + open) else least(1, beyond) + keys end) as lanes
    from lane_heads as lane cross join lateral (
        select postbud_beyond_head_1(stream, subscriber, head, tail) as beyond
      ) as log_part cross join lateral (
        select count(*) as open from exceptions where lane = lane.id and is_open and state in ('pending', 'failing')
      ) as open_part cross join lateral (
        select count(*) as keys from (
          select from exceptions where lane = lane.id and due_at is not null limit ${LANES_COUNTED}
        ) as first
      ) as keys_part
    where exists (select from outages where outages.subscriber = lane.subscriber)
      or (topic, subscriber) in (select topic, subscriber from crowd)
    group by topic, subscriber
  ),
  head_of_lane as materialized (
    select topic, subscriber, event_id, attempted_at, attempt_log, case when slot = 0 or crowd.lanes is null
      then ${waitingBehind('blocking', `case when blocking.slot > 0 then ${COUNTED} end`)}
      else counted.waiting / crowd.lanes::float8 end as waiting
    from blocking left join (crowd join counted using (topic, subscriber)) using (topic, subscriber)
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
    select outages.subscriber, kind, message, least(opened_at, (
      select min(since) from absent where absent.subscriber = outages.subscriber
    ))::text as since, coalesce(waiting, 0) as waiting, coalesce(lanes, 0) as lanes
    from outages left join (
      select subscriber, sum(waiting) as waiting, sum(lanes) as lanes from counted group by subscriber
    ) as of_subscriber using (subscriber)
  ),
  halt as materialized (${HALTING}),
  halted as (
    select halt.topic, halt.subscriber, kind, key as "group", message, count(*) as lanes, min(dead_lettered_at)::text as since,
      sum(${waitingBehind('halt', `case when halt.slot > 0 then ${COUNTED} end`)}) as waiting
    from halt join error_groups on key = error_group
    group by halt.topic, halt.subscriber, error_groups.key
  ),
  ${BLOCKED},
  dead_group as (
    select topic, subscriber, kind, key as "group", message, dead, coalesce((
      select opened_at::text from incidents
      where (incidents.topic, incidents.subscriber, incidents.kind, incidents.error_group)
          = (error_groups.topic, error_groups.subscriber, error_groups.kind, key)
        and closed_at is null
    ), (
      select coalesce((
        select min((entry ->> 'at')::timestamptz) from jsonb_array_elements(attempt_log) as entry
        where entry ->> 'group' = key and (entry ->> 'at')::timestamptz >= ${ROUND_BEGAN}
      ), ${ROUND_BEGAN}, dead_lettered_at)::text
      from exceptions where error_group = key order by dead_lettered_at limit 1
    )) as since
    -- All groups in one pass: where each is large, the planner would read the whole table for each.
    from error_groups join (
      select error_group, count(*) as dead from exceptions where error_group is not null group by error_group
    ) as letters on letters.error_group = key
    -- What an operator skipped was decided: it is no incident.
    where (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}')
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
