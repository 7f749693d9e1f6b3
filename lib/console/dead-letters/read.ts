import { windowValues } from '../../bus/deliveries/operations/replay-matching.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { msOf } from '../../platform/time.ts';
import { writeCursor } from '../kit/cursor.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { retryFields } from './fields.ts';
import type { DeadLetterItem, DeadLetterPage, FoundItem } from './fields.ts';
import type { Cursor, DeadLetterQuery } from './query.ts';
import { LISTS, wayOf } from './statements.ts';

interface Found extends Pick<DeadLetterPage, 'generatedAt' | 'totalInAll' | 'groups'> {
  /** In the requested direction, with one more than requested if there is one. */
  readonly items: readonly FoundItem[];
}

/**
 * Lists dead letters page by page, newest first, with the groups of their errors.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readDeadLetters(
  db: Database,
  query: DeadLetterQuery,
  now?: Date,
): Promise<DeadLetterPage> {
  const { topic = null, subscriber = null, since = null, until = null, group = null } = query;
  const { q, cursor: from, limit } = query;
  const towards = from?.[3] ?? 'older';
  const way = wayOf(query);
  // A query for one event or delivery finds everything at once.
  const isPaged = way === 'all' || way === 'grouped';
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LISTS[way][towards],
    values: [
      topic,
      subscriber,
      group,
      q || null,
      since === null ? null : msOf(since),
      limit + 1,
      now?.toISOString() ?? null,
      until === null ? null : windowValues({ until })[1],
      ...(isPaged ? (from?.slice(0, 3) ?? [null, null, null]) : []),
    ],
  });
  const { items, ...found } = row!.found;
  const kept = items.slice(0, limit);
  const inOrder = towards === 'older' ? kept : kept.toReversed();
  const isMore = { [towards]: isPaged && items.length > limit };
  const cursorAt = (one: FoundItem | undefined, to: Cursor[3]) =>
    one && (isMore[to] ?? (isPaged && from !== undefined)) ? writeCursor([...one.place, to]) : null;
  return {
    ...found,
    filters: { topic, subscriber, since, until, group, q: q || null, limit },
    items: inOrder.map(itemOf),
    total: found.groups.reduce((total, { count }) => total + count, 0),
    nextCursor: cursorAt(inOrder.at(-1), 'older'),
    previousCursor: cursorAt(inOrder[0], 'newer'),
    ...(kept.length === 0 ? await readRetries(db, now) : { failing: 0, nextRetryAt: null }),
  };
}

function itemOf(item: FoundItem): DeadLetterItem {
  const { place: _, last, ofGroup, payload, version, ...found } = item;
  // A long payload was not read, so its personal data is unknown. The group's message contains none.
  if (payload === null) return { ...found, subject: null, lastError: ofGroup };
  const texts = personalTexts(found.topic, payload, version);
  const masked = (text: string | undefined, ofAll: string) =>
    text === undefined ? ofAll : maskPersonalData(text, texts);
  return {
    ...found,
    subject: subjectOf(found.topic, payload, version),
    lastError: {
      kind: masked(last.kind, ofGroup.kind),
      message: masked(last.message, ofGroup.message),
      group: ofGroup.group,
    },
  };
}

/** Reads the failing deliveries, for an empty list: they may still become dead letters. */
async function readRetries(db: Database, now?: Date): Promise<Row<typeof retryFields>> {
  const [row] = await run<{ retries: Row<typeof retryFields> }>(driverOf(db), {
    text: RETRIES,
    values: [now?.toISOString() ?? null],
  });
  return row!.retries;
}

const RETRIES = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, failing from subscription_counts where failing > 0
  )
  select ${jsonOf(retryFields)} as retries
  from clock, subscription left join outages on outages.subscriber = subscription.subscriber
  left join lateral (
    select min(next.due_at) as due_at from lanes, lateral (
      select due_at from exceptions where exceptions.lane = lanes.id and due_at > clock.now order by due_at limit 1
    ) as next
    where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
  ) as lane on true`;
