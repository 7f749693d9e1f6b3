import { maskPersonalData, personalTexts } from '../../catalog/personal.ts';
import { subjectOf } from '../../catalog/subject.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { instantOf, instantOrNull } from '../../time.ts';
import { writeCursor } from './query.ts';
import type { DeadLetterQuery } from './query.ts';
import { findDeadLetters, isPaged } from './found.ts';
import type { FoundGroup, FoundItem } from './found.ts';

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
  const found = await findDeadLetters(db, query, now);
  const isOlder = cursor?.towards !== 'newer';
  const hasMore = isPaged(query) && found.items.length > limit;
  const kept = found.items.slice(0, limit);
  const inOrder = isOlder ? kept : kept.toReversed();
  const [first, last] = [inOrder[0], inOrder.at(-1)];
  const hasOlder = isOlder ? hasMore : isPaged(query);
  const hasNewer = isOlder ? isPaged(query) && cursor !== undefined : hasMore;
  return {
    generatedAt: instantOf(found.now),
    filters: { topic, subscriber, since, group, q: query.q || null, limit },
    items: inOrder.map(itemOf),
    total: found.groups.reduce((total, { count }) => total + count, 0),
    totalInAll: found.total_in_all,
    groups: found.groups.map(groupOf),
    nextCursor: last && hasOlder ? writeCursor({ ...last, towards: 'older' }) : null,
    previousCursor: first && hasNewer ? writeCursor({ ...first, towards: 'newer' }) : null,
    ...(kept.length === 0 ? await readRetries(db, now) : { failing: 0, nextRetryAt: null }),
  };
}

function itemOf(found: FoundItem): DeadLetterItem {
  const { topic, payload, version, last } = found;
  // Of a long payload it isn't known what the message must not repeat: the group's has nothing of it.
  const told = (text: string | undefined, ofGroup: string) =>
    payload === null || text === undefined
      ? ofGroup
      : maskPersonalData(text, personalTexts(topic, payload, version));
  return {
    deliveryId: `${found.lane}-${found.position}`,
    eventId: found.event_id,
    topic,
    subscriber: found.subscriber,
    subject: payload === null ? null : subjectOf(topic, payload, version),
    createdAt: instantOf(found.created_at),
    deadLetteredAt: instantOf(found.dead_lettered_at),
    failures: found.attempts,
    replays: found.replays,
    lastError: {
      kind: told(last.kind, found.group_kind),
      message: told(last.message, found.group_message),
      group: found.error_group,
    },
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
