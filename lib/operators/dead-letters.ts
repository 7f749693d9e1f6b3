import * as z from 'zod';

import { maskPersonalData, personalTexts } from '../catalog/personal.ts';
import { subjectOf } from '../catalog/subject.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { instantOf, instantOrNull } from '../time.ts';
import { ago, isInstant, msOf, topicName } from './replay-request.ts';

/** What an attempt failed with. Personal data in the message is masked. */
export interface LastError {
  /** The error's code or class, for example `timeout`, `http_503`, `TypeError`. */
  readonly kind: string;
  readonly message: string;
}

/** Dead letters of one subscription that failed in the same way: the message without its numbers, ids and addresses. */
export interface ErrorGroup {
  readonly group: string;
  readonly kind: string;
  readonly message: string;
  readonly topic: string;
  readonly subscriber: string;
  /** Within the filters; exact. */
  readonly count: number;
  /** When the first and the last of them died. */
  readonly firstAt: string;
  readonly lastAt: string;
  /** Whether the subscription has delivered nothing since it last failed. */
  readonly isStillFailing: boolean;
}

export interface DeadLetterItem {
  readonly deliveryId: string;
  readonly eventId: string;
  readonly topic: string;
  readonly subscriber: string;
  /** What the event is about, for example `booking bkg_48213`; null where its payload names nothing that may be shown. */
  readonly subject: string | null;
  readonly createdAt: string;
  readonly deadLetteredAt: string;
  /** Failed attempts since fan-out or the last replay. */
  readonly failures: number;
  readonly replays: number;
  readonly lastError: LastError & { readonly group: string };
}

/** What an operator looks for. */
export interface DeadLetterFilters {
  readonly topic: string | null;
  readonly subscriber: string | null;
  /** As written, for example `24h`. */
  readonly since: string | null;
  readonly group: string | null;
  /** Part of an error's message or kind, or a whole event or delivery id. */
  readonly q: string | null;
  readonly limit: number;
}

export interface DeadLetterPage {
  readonly generatedAt: string;
  readonly filters: DeadLetterFilters;
  /** Newest first. */
  readonly items: readonly DeadLetterItem[];
  /** Within the filters; exact. */
  readonly total: number;
  /** Whatever the filters. */
  readonly totalInAll: number;
  /** Largest first. */
  readonly groups: readonly ErrorGroup[];
  /** Older ones; null on the last page. */
  readonly nextCursor: string | null;
  /** Newer ones; null on the first page. */
  readonly previousCursor: string | null;
  /** Deliveries whose last attempt failed and that will be tried again, and when the next is: what to say when the list is empty. */
  readonly failing: number;
  readonly nextRetryAt: string | null;
}

/** What a query may ask for. @see DeadLetterFilters */
export const deadLetterQuery = z.object({
  topic: topicName.optional(),
  subscriber: z.string().max(100).optional(),
  since: ago.optional(),
  group: z.string().max(100).optional(),
  q: z.string().trim().max(200).optional(),
  limit: z.coerce.number().int().min(1, 'write 1 to 100').max(100, 'write 1 to 100').default(50),
  cursor: z.string().transform(parseCursor).optional(),
});

export type DeadLetterQuery = z.output<typeof deadLetterQuery>;

/** Where a page begins: beside the dead letter that died at this moment. */
interface Cursor {
  /** As Postgres writes it, to the microsecond. */
  readonly at: string;
  readonly lane: string;
  readonly position: string;
  readonly towards: 'older' | 'newer';
}

const cursorShape = z.tuple([
  z.string().refine(isInstant),
  z.string().regex(/^\d{1,18}$/),
  z.string().regex(/^\d{1,18}$/),
  z.enum(['older', 'newer']),
]);

function parseCursor(text: string, context: z.RefinementCtx): Cursor {
  try {
    const [at, lane, position, towards] = cursorShape.parse(
      JSON.parse(Buffer.from(text, 'base64url').toString()),
    );
    return { at, lane, position, towards };
  } catch {
    context.addIssue({ code: 'custom', message: 'write a cursor as an answer gave it, or none' });
    return z.NEVER;
  }
}

function cursorOf({ at, lane, position }: FoundItem, towards: Cursor['towards']): string {
  return Buffer.from(JSON.stringify([at, lane, position, towards])).toString('base64url');
}

/**
 * Lists dead letters, newest first, a page at a time, beside the groups of errors that they belong to.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readDeadLetters(
  db: Database,
  query: DeadLetterQuery,
  now?: Date,
): Promise<DeadLetterPage> {
  const { topic = null, subscriber = null, since = null, group = null, cursor, limit } = query;
  const q = query.q || null;
  const towards = cursor?.towards ?? 'older';
  const way = wayOf(query);
  const isListed = way === 'all' || way === 'grouped';
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LISTS[way][towards],
    values: [
      topic,
      subscriber,
      group,
      q,
      since === null ? null : msOf(since),
      limit + 1,
      now?.toISOString() ?? null,
      ...(isListed ? [cursor?.at ?? null, cursor?.lane ?? null, cursor?.position ?? null] : []),
    ],
  });
  const { found } = row!;
  const hasMore = isListed && found.items.length > limit;
  const kept = found.items.slice(0, limit);
  const inOrder = towards === 'older' ? kept : kept.toReversed();
  const [first, last] = [inOrder[0], inOrder.at(-1)];
  const hasOlder = towards === 'older' ? hasMore : isListed;
  const hasNewer = towards === 'newer' ? hasMore : isListed && cursor !== undefined;
  return {
    generatedAt: instantOf(found.now),
    filters: { topic, subscriber, since, group, q, limit },
    items: inOrder.map(itemOf),
    total: found.groups.reduce((total, { count }) => total + count, 0),
    totalInAll: found.total_in_all,
    groups: found.groups.map(groupOf),
    nextCursor: last && hasOlder ? cursorOf(last, 'older') : null,
    previousCursor: first && hasNewer ? cursorOf(first, 'newer') : null,
    ...(kept.length === 0 ? await readRetries(db, now) : { failing: 0, nextRetryAt: null }),
  };
}

type Way = 'all' | 'grouped' | 'event' | 'delivery';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const DELIVERY_ID = /^\d{1,18}-\d{1,18}$/;

/** Which index leads to what is asked for. */
function wayOf({ topic, subscriber, group, q }: DeadLetterQuery): Way {
  if (q && UUID.test(q)) return 'event';
  if (q && DELIVERY_ID.test(q)) return 'delivery';
  return topic || subscriber || group || q ? 'grouped' : 'all';
}

/** The statement's answer. Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  readonly total_in_all: number;
  readonly groups: readonly FoundGroup[];
  readonly items: readonly FoundItem[];
}

interface FoundGroup {
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

interface FoundItem {
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
  readonly group_kind: string;
  readonly group_message: string;
  /** Null where it is long. */
  readonly payload: unknown;
}

function itemOf(found: FoundItem): DeadLetterItem {
  const { topic, payload, last } = found;
  // Of a long payload it isn't known what the message must not repeat: the group's has nothing of it.
  const message =
    payload === null || last.message === undefined
      ? found.group_message
      : maskPersonalData(last.message, personalTexts(topic, payload));
  return {
    deliveryId: `${found.lane}-${found.position}`,
    eventId: found.event_id,
    topic,
    subscriber: found.subscriber,
    subject: payload === null ? null : subjectOf(topic, payload),
    createdAt: instantOf(found.created_at),
    deadLetteredAt: instantOf(found.dead_lettered_at),
    failures: found.attempts,
    replays: found.replays,
    lastError: { kind: last.kind ?? found.group_kind, message, group: found.error_group },
  };
}

function groupOf(found: FoundGroup): ErrorGroup {
  const { key: group, kind, message, topic, subscriber, count } = found;
  return {
    group,
    kind,
    message,
    topic,
    subscriber,
    count,
    firstAt: instantOf(found.first_at),
    lastAt: instantOf(found.last_at),
    isStillFailing: found.is_still_failing,
  };
}

/** Longer payloads are not read for a list. */
const LISTED_PAYLOAD_BYTES = 16 * 1024;

const CLOCK = `
  with clock as materialized (
    select now, now - $5::float8 * interval '1 millisecond' as since
    from (select coalesce($7::text::timestamptz, clock_timestamp()) as now) as read
  )`;

/** What is left of the groups when those that the filters leave out are gone; in the window, counted there. */
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

/** What a page shows of the rows of the CTE `page` (deliveries), as CTEs that end in the answer. */
const ANSWER = `
  item as (
    select to_char(dead_lettered_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
      page.lane_id::text as lane, page.position::text as position, event_id, lanes.topic, lanes.subscriber,
      extract(epoch from created_at) * 1000 as created_at,
      extract(epoch from dead_lettered_at) * 1000 as dead_lettered_at, attempts, replays,
      attempt_log -> -1 as last, error_group, kind as group_kind, message as group_message,
      case when payload_bytes <= ${LISTED_PAYLOAD_BYTES} then payload end as payload, number
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
        'last_at', extract(epoch from last_at) * 1000, 'is_still_failing', coalesce(is_still_failing, false))
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
  // Not "or": only so is the window a condition of the index.
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

/** All that is dead of one event, or one delivery: never more than an event has subscribers. */
const namedStatement = (condition: string) => `${CLOCK},
  page as materialized (
    select ${COLUMNS}, row_number() over (order by dead_lettered_at desc, lane_id, position) as number
    from clock, deliveries join lanes on lanes.id = lane_id
    where state = 'dead_lettered' and ${condition} and ($1::text is null or topic = $1::text)
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

/** What to tell of a list that is empty: what may still come to stand there. */
async function readRetries(
  db: Database,
  now?: Date,
): Promise<Pick<DeadLetterPage, 'failing' | 'nextRetryAt'>> {
  const [row] = await run<{ failing: number; next_retry: number | null }>(driverOf(db), {
    text: RETRIES,
    values: [now?.toISOString() ?? null],
  });
  return { failing: row!.failing, nextRetryAt: instantOrNull(row!.next_retry) };
}

const RETRIES = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, sum(failing) as failing from backlog where subscriber <> '' group by topic, subscriber
  )
  select coalesce(sum(failing), 0)::float8 as failing, (extract(epoch from min(due_at)) * 1000)::float8 as next_retry
  from clock, subscription left join lateral (
    select due_at from lanes
    where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
      and due_at > clock.now and lease_token is null
    order by due_at limit 1
  ) as lane on true`;

/** Counts all dead letters. */
export async function countDeadLetters(db: Database): Promise<number> {
  const [row] = await run<{ count: number }>(driverOf(db), {
    text: 'select coalesce(sum(dead_lettered), 0)::float8 as count from error_groups',
    values: [],
  });
  return row!.count;
}
