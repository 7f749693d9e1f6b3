import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import type { Cursor, DeadLetterQuery } from './query.ts';

/** The statement's result: a page of dead letters. Times are epoch milliseconds. */
export interface Found {
  readonly now: number;
  readonly total_in_all: number;
  readonly groups: readonly FoundGroup[];
  /** In the requested direction, with one more than requested if there is one. */
  readonly items: readonly FoundItem[];
}

export interface FoundGroup {
  readonly key: string;
  readonly kind: string;
  readonly message: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
  readonly first_at: number;
  readonly last_at: number;
  readonly is_still_failing: boolean;
}

export interface FoundItem {
  readonly at: string;
  readonly lane: string;
  readonly position: string;
  readonly event_id: string;
  readonly topic: string;
  readonly subscriber: string;
  readonly created_at: number;
  readonly dead_lettered_at: number;
  readonly attempts: number;
  readonly replays: number;
  readonly last: { readonly kind?: string; readonly message?: string };
  readonly error_group: string;
  readonly is_halting: boolean;
  readonly group_kind: string;
  readonly group_message: string;
  /** Null if it is long. */
  readonly payload: unknown;
  /** The payload's version. */
  readonly version: number;
}

/** Whether a query is answered in pages. A query for one event or delivery finds everything at once. */
export function isPaged(query: DeadLetterQuery): boolean {
  const way = wayOf(query);
  return way === 'all' || way === 'grouped';
}

/** One statement. @param now overrides the database's clock in tests. */
export async function findDeadLetters(db: Database, query: DeadLetterQuery, now?: Date): Promise<Found> {
  const { topic, subscriber, group, q, since, limit, cursor } = query;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LISTS[wayOf(query)][cursor?.towards ?? 'older'],
    values: [
      topic ?? null,
      subscriber ?? null,
      group ?? null,
      q || null,
      since === undefined ? null : msOf(since),
      limit + 1,
      now?.toISOString() ?? null,
      ...(isPaged(query) ? [cursor?.at ?? null, cursor?.lane ?? null, cursor?.position ?? null] : []),
    ],
  });
  return row!.found;
}

/** The index that serves a query. */
type Way = 'all' | 'grouped' | 'event' | 'delivery';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const DELIVERY_ID = /^\d{1,18}-\d{1,18}$/;

function wayOf({ topic, subscriber, group, q }: DeadLetterQuery): Way {
  if (q && UUID.test(q)) return 'event';
  if (q && DELIVERY_ID.test(q)) return 'delivery';
  return topic || subscriber || group || q ? 'grouped' : 'all';
}

/** Lists do not read longer payloads. */
const LISTED_PAYLOAD_BYTES = 16 * 1024;

const CLOCK = `
  with clock as materialized (
    select now, now - $5::float8 * interval '1 millisecond' as since
    from (select coalesce($7::text::timestamptz, clock_timestamp()) as now) as read
  )`;

/** The groups that match the filters; with a time window, counted within it. */
const GROUPS = `
  matching as materialized (
    select * from error_groups
    where dead_lettered > 0 and ($1::text is null or topic = $1::text)
      and ($2::text is null or subscriber = $2::text) and ($3::text is null or key = $3::text)
      and ($4::text is null or position(lower($4::text) in lower(kind || ' ' || message)) > 0)
  ),
  found_group as materialized (
    select key, kind, message, topic, subscriber, first_at, last_at,
      case
        when clock.since is null or not exists (
          select from deliveries where error_group = key and dead_lettered_at < clock.since
        ) then matching.dead_lettered
        else (select count(*) from deliveries where error_group = key and dead_lettered_at >= clock.since)
      end as count
    from clock, matching, lateral (
      select min(dead_lettered_at) as first_at, max(dead_lettered_at) as last_at from deliveries
      where error_group = key and dead_lettered_at >= coalesce(clock.since, '-infinity')
    ) as ends
    where first_at is not null
  )`;

/** CTEs that turn the rows of `page` (deliveries) into the result. */
const ANSWER = `
  item as (
    select to_char(dead_lettered_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
      page.lane_id::text as lane, page.position::text as position, event_id, lanes.topic, lanes.subscriber,
      extract(epoch from created_at) * 1000 as created_at,
      extract(epoch from dead_lettered_at) * 1000 as dead_lettered_at, attempts, replays,
      (attempt_log -> -1) - 'answer' as last, error_group, exists (
        select from halts where halts.lane_id = page.lane_id and halts.position = page.position
      ) as is_halting, kind as group_kind, message as group_message,
      case when payload_bytes <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, version, number
    from page join lanes on lanes.id = page.lane_id join events on events.id = event_id
      join error_groups on error_groups.key = error_group
  ),
  subscription as materialized (
    select topic, subscriber, max(last_failed_at) >= coalesce(max(last_delivered_at), '-infinity') as is_still_failing
    from backlog where (topic, subscriber) in (select topic, subscriber from found_group) group by topic, subscriber
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'total_in_all', (select coalesce(sum(dead_lettered), 0) from error_groups),
    'groups', (
      select coalesce(json_agg(json_build_object('key', key, 'kind', kind, 'message', message, 'topic', topic,
        'subscriber', subscriber, 'count', count, 'first_at', extract(epoch from first_at) * 1000,
        'last_at', extract(epoch from last_at) * 1000, 'is_still_failing',
        coalesce(is_still_failing, false) and (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}'))
        order by count desc, key), '[]')
      from found_group left join subscription using (topic, subscriber)
    ),
    'items', (select coalesce(json_agg(item order by number), '[]') from item)
  ) as found
  from clock`;

const COLUMNS = `lane_id, position, event_id, attempts, replays, dead_lettered_at, error_group, attempt_log,
  payload_bytes`;

function pageStatement(way: 'all' | 'grouped', towards: Cursor['towards']): string {
  const [beyond, direction] = towards === 'older' ? ['<', 'desc'] : ['>', 'asc'];
  const order = `dead_lettered_at ${direction}, lane_id ${direction}, position ${direction}`;
  // Two statements instead of "or", so that the index serves the window.
  const condition = `dead_lettered_at >= coalesce(clock.since, '-infinity') and ($8::text is null or
        (dead_lettered_at, lane_id, position) ${beyond} ($8::text::timestamptz, $9::text::bigint, $10::text::bigint))`;
  const [groups, isOfGroup] =
    way === 'all' ? ['', ''] : [', found_group', 'error_group = found_group.key and'];
  return `${CLOCK}, ${GROUPS},
  page as materialized (
    select *, row_number() over (order by ${order}) as number from (
      select dead.* from clock${groups}, lateral (
        select ${COLUMNS} from deliveries
        where ${isOfGroup} dead_lettered_at is not null and ${condition} order by ${order} limit $6::int
      ) as dead order by ${order} limit $6::int
    ) as dead
  ), ${ANSWER}`;
}

/** The dead letters of one event, or one delivery: at most as many as the event has subscribers. */
const namedStatement = (condition: string) => `${CLOCK},
  page as materialized (
    select ${COLUMNS}, row_number() over (order by dead_lettered_at desc, lane_id, position) as number
    from clock, deliveries join lanes on lanes.id = lane_id
    where dead_lettered_at is not null and ${condition} and ($1::text is null or topic = $1::text)
      and ($2::text is null or subscriber = $2::text) and ($3::text is null or error_group = $3::text)
      and (clock.since is null or dead_lettered_at >= clock.since)
    limit $6::int
  ),
  found_group as materialized (
    select key, kind, message, topic, subscriber, min(dead_lettered_at) as first_at,
      max(dead_lettered_at) as last_at, count(*) as count
    from page join error_groups on key = error_group group by key
  ), ${ANSWER}`;

const BY_EVENT = namedStatement('event_id = $4::text::uuid');
const BY_DELIVERY = namedStatement(
  "lane_id = split_part($4::text, '-', 1)::bigint and position = split_part($4::text, '-', 2)::bigint",
);

const LISTS: Readonly<Record<Way, Readonly<Record<Cursor['towards'], string>>>> = {
  all: { older: pageStatement('all', 'older'), newer: pageStatement('all', 'newer') },
  grouped: { older: pageStatement('grouped', 'older'), newer: pageStatement('grouped', 'newer') },
  event: { older: BY_EVENT, newer: BY_EVENT },
  delivery: { older: BY_DELIVERY, newer: BY_DELIVERY },
};
