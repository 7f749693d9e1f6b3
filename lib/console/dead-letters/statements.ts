import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { containing } from '../../bus/deliveries/operations/replay-matching.ts';
import { instantSql, jsonOf } from '../kit/fields.ts';
import { BESIDE_ITEM, groupFields, itemFields } from './fields.ts';
import type { Cursor, DeadLetterQuery } from './query.ts';

/** The index that serves a query. */
export type Way = 'all' | 'grouped' | 'event' | 'delivery';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function wayOf({ topic, subscriber, group, q }: Partial<DeadLetterQuery>): Way {
  if (q && UUID.test(q)) return 'event';
  if (q && readDeliveryId(q)) return 'delivery';
  return topic || subscriber || group || q ? 'grouped' : 'all';
}

const CLOCK = `
  with clock as materialized (
    select now, coalesce(now - $5::float8 * interval '1 millisecond', '-infinity') as since,
      -- A number of milliseconds before now, or an instant.
      case when $8::text is null then 'infinity'
        when $8::text ~ '^[0-9]+$' then now - $8::text::float8 * interval '1 millisecond'
        else $8::text::timestamptz end as until
    from (select coalesce($7::text::timestamptz, clock_timestamp()) as now) as read
  )`;

const IN_WINDOW = 'dead_lettered_at between clock.since and clock.until';

/** The groups that match the filters; with a time window, counted within it. */
const GROUPS = `
  matching as materialized (
    select * from error_groups
    where ($1::text is null or topic = $1::text)
      and ($2::text is null or subscriber = $2::text)
      and ($3::text is null or key = any (string_to_array($3::text, ','))) and ${containing('$4::text')}
  ),
  -- In one pass over the dead letters: the planner may read all of them once for each group otherwise.
  found_group as materialized (
    select key, kind, message, topic, subscriber, min(dead_lettered_at) as first_at, max(dead_lettered_at) as last_at,
      count(*) as count
    from clock, matching join exceptions on error_group = key
    where ${IN_WINDOW}
    group by key, kind, message, topic, subscriber
  )`;

/** CTEs that turn the rows of `page` (dead letters) into the result. */
const ANSWER = `
  subscription as materialized (
    select topic, subscriber, max(last_failed_at) >= coalesce(max(last_delivered_at), '-infinity') as is_still_failing
    from subscription_counts where (topic, subscriber) in (select topic, subscriber from found_group) group by topic, subscriber
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'totalInAll', (select count(*) from exceptions where dead_lettered_at is not null),
    'groups', (
      select coalesce(json_agg(${jsonOf(groupFields)} order by count desc, key), '[]')
      from found_group left join subscription using (topic, subscriber)
    ),
    'items', (
      select coalesce(json_agg(${jsonOf(itemFields, BESIDE_ITEM)} order by number), '[]')
      from page join lanes on lanes.id = page.lane join events on events.id = event_id
        join lateral (
          select bytes from log where log.stream = lanes.stream and log.position = page.position
        ) as place on true
        join error_groups on error_groups.key = error_group
    )
  ) as found
  from clock`;

const COLUMNS = `lane, position, event_id, attempts, replays, dead_lettered_at, is_open, error_group, attempt_log`;

function pageStatement(way: 'all' | 'grouped', towards: Cursor[3]): string {
  const [beyond, direction] = towards === 'older' ? ['<', 'desc'] : ['>', 'asc'];
  const order = `dead_lettered_at ${direction}, lane ${direction}, position ${direction}`;
  // Two statements instead of "or", so that the index serves the window.
  const condition = `${IN_WINDOW} and ($9::text is null or
        (dead_lettered_at, lane, position) ${beyond} ($9::text::timestamptz, $10::text::bigint, $11::text::bigint))`;
  const [groups, isOfGroup] =
    way === 'all' ? ['', ''] : [', found_group', 'error_group = found_group.key and'];
  return `${CLOCK}, ${GROUPS},
  page as materialized (
    select *, row_number() over (order by ${order}) as number from (
      select dead.* from clock${groups}, lateral (
        select ${COLUMNS} from exceptions
        where ${isOfGroup} dead_lettered_at is not null and ${condition} order by ${order} limit $6::int
      ) as dead order by ${order} limit $6::int
    ) as dead
  ), ${ANSWER}`;
}

/** The dead letters of one event, or one delivery: at most as many as the event has subscribers. */
const namedStatement = (condition: string) => `${CLOCK},
  page as materialized (
    select ${COLUMNS}, row_number() over (order by dead_lettered_at desc, lane, position) as number
    from clock, deliveries
    where dead_lettered_at is not null and ${condition} and ($1::text is null or topic = $1::text)
      and ($2::text is null or subscriber = $2::text) and ($3::text is null or error_group = any (string_to_array($3::text, ',')))
      and ${IN_WINDOW}
    limit $6::int
  ),
  found_group as materialized (
    select key, kind, message, topic, subscriber, min(dead_lettered_at) as first_at,
      max(dead_lettered_at) as last_at, count(*) as count
    from page join error_groups on key = error_group group by key
  ), ${ANSWER}`;

const BY_EVENT = namedStatement('event_id = $4::text::uuid');
const BY_DELIVERY = namedStatement(
  `event_id = left($4::text, 36)::uuid and subscriber = substr($4::text, 38)`,
);

/** The statements of the list, by the index that serves them and by the direction. */
export const LISTS: Readonly<Record<Way, Readonly<Record<Cursor[3], string>>>> = {
  all: { older: pageStatement('all', 'older'), newer: pageStatement('all', 'newer') },
  grouped: { older: pageStatement('grouped', 'older'), newer: pageStatement('grouped', 'newer') },
  event: { older: BY_EVENT, newer: BY_EVENT },
  delivery: { older: BY_DELIVERY, newer: BY_DELIVERY },
};
