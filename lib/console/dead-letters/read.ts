import { containing } from '../../bus/deliveries/operations/replay-matching.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import { instantSql, jsonOf, writeCursor } from '../kit/fields.ts';
import { listedOf } from '../kit/listed-delivery.ts';
import { BESIDE_ITEM, groupFields, itemFields } from './fields.ts';
import type { DeadLetterItem, DeadLetterPage, DeadLetterQuery, FoundItem } from './fields.ts';

interface Found extends Pick<DeadLetterPage, 'generatedAt' | 'totalInAll' | 'groups'> {
  /** One more than requested, if there is one. */
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
  const { cursor = [null, null, null], limit, ...filters } = query;
  const { topic = null, subscriber = null, since, group = null, q } = filters;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: statementFor(query),
    values: [
      topic,
      subscriber,
      group,
      q || null,
      since === undefined ? null : msOf(since),
      limit + 1,
      now?.toISOString() ?? null,
      ...cursor,
    ],
  });
  const { items, ...found } = row!.found;
  const kept = items.slice(0, limit);
  return {
    ...found,
    filters,
    items: kept.map(itemOf),
    total: found.groups.reduce((total, { count }) => total + count, 0),
    nextCursor: items.length > limit ? writeCursor(kept.at(-1)!.place) : null,
  };
}

function itemOf({ place: _place, ofGroup, ...item }: FoundItem): DeadLetterItem {
  const { lastError, ...listed } = listedOf(item.topic, item);
  return { ...listed, lastError: { ...ofGroup, ...lastError } };
}

/** Each way goes through its own index. */
function statementFor({ topic, subscriber, group, q }: DeadLetterQuery): string {
  return topic || subscriber || group || q ? GROUPED : ALL;
}

const IN_WINDOW = 'dead_lettered_at >= clock.since';
const ORDER = 'dead_lettered_at desc, lane desc, position desc';

/** The CTE `page`. @param groups a table to join. */
const pageOf = (where: string, groups = '') => `
  page as materialized (
    select dead.* from clock${groups}, lateral (
      select lane, position, event_id, attempts, replays, dead_lettered_at, is_open, error_group, attempt_log from exceptions
      where ${where} and dead_lettered_at is not null and ${IN_WINDOW} and ($8::text is null or
        (dead_lettered_at, lane, position) < ($8::text::timestamptz, $9::text::bigint, $10::text::bigint))
      order by ${ORDER} limit $6::int
    ) as dead order by ${ORDER} limit $6::int
  )`;

/** The groups that match the filters; with a time window, counted within it. */
const GROUPS = `
  matching as materialized (
    select * from error_groups
    where ($1::text is null or topic = $1::text) and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or key = any (string_to_array($3::text, ','))) and ${containing('$4::text')}
  ),
  -- In one pass over the dead letters: the planner may read all of them once for each group otherwise.
  found_group as materialized (
    select key, kind, message, topic, subscriber, min(dead_lettered_at) as first_at, max(dead_lettered_at) as last_at,
      count(*) as count
    from clock, matching join exceptions on error_group = key where ${IN_WINDOW}
    group by key, kind, message, topic, subscriber
  )`;

/** @param page the CTE of the dead letters. */
const statement = (page: string) => `
  with clock as materialized (
    select now, coalesce(now - $5::float8 * interval '1 millisecond', '-infinity') as since
    from (select coalesce($7::text::timestamptz, clock_timestamp()) as now) as read
  ), ${GROUPS}, ${page}
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'totalInAll', (select count(*) from exceptions where dead_lettered_at is not null),
    'groups', (
      select coalesce(json_agg(${jsonOf(groupFields)} order by count desc, key), '[]')
      from found_group
    ),
    'items', (
      select coalesce(json_agg(${jsonOf(itemFields, BESIDE_ITEM)}
        order by dead_lettered_at desc, page.lane desc, page.position desc), '[]')
      from page join lanes on lanes.id = page.lane join events on events.id = event_id
        join lateral (
          select bytes from log where log.stream = lanes.stream and log.position = page.position
        ) as place on true
        join error_groups on error_groups.key = error_group
    )
  ) as found
  from clock`;

const ALL = statement(pageOf('true'));
const GROUPED = statement(pageOf('error_group = found_group.key', ', found_group'));
