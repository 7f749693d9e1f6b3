import * as z from 'zod';

import { byState, bySubscriber, byTopic, shapesIn } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { alertState } from '../alerts/read.ts';
import { cursorOf, writeCursor } from '../kit/cursor.ts';
import { instantSql } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { INCIDENT, WORST_FIRST, incident, incidentOf, incidentState } from './incident.ts';
import type { FoundIncident } from './incident.ts';

export const incidentList = z
  .object({
    generatedAt: shape.instant,
    items: z.array(incident).meta({
      description: 'What happens now, what is owed, both the worst first, then what is closed, newest first.',
    }),
    happening: shape.count.meta({ description: 'How many happen now, over all pages.' }),
    owed: shape.count.meta({ description: 'How many are owed, over all pages.' }),
    nextCursor: z.string().nullable().meta({ description: 'The cursor of the incidents behind these.' }),
    alerts: alertState,
  })
  .meta({ id: 'IncidentList', description: 'Incidents, live ones first.' });

export type IncidentList = z.output<typeof incidentList>;

const place = z.tuple([z.string().refine(isInstant), z.uuid()]);

/**
 * The start of a page: after the incident that closed at this instant, to the microsecond, or after a live one, with what
 * live ones are sorted by before when they opened.
 */
const cursorShape = z.union([
  z.object({ closed: place }),
  z.object({ state: incidentState, waiting: z.int(), owed: z.int(), opened: place }),
]);

export const incidentFilters = {
  state: byState(incidentState, 'only happening, owed or closed ones'),
  topic: byTopic,
  subscriber: bySubscriber,
};

export const incidentQuery = z.object({
  ...shapesIn(incidentFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type IncidentQuery = z.output<typeof incidentQuery>;

/** Lists incidents as they are now: live ones in pages of their own size, the last of them with the first closed ones. */
export async function readIncidents(
  db: Database,
  query: IncidentQuery,
): Promise<Omit<IncidentList, 'alerts'>> {
  await watchIncidents(db);
  const { state = null, topic = null, subscriber = null, limit, cursor } = query;
  const closedAfter = cursor && 'closed' in cursor ? cursor.closed : [null, null];
  const liveAfter =
    cursor && 'opened' in cursor
      ? [cursor.state, cursor.waiting, cursor.owed, ...cursor.opened]
      : [null, null, null, null, null];
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LIST,
    values: [state, topic, subscriber, limit + 1, ...closedAfter, ...liveAfter],
  });
  const { live, closed, ...found } = row!.found;
  const isMoreLive = live.length > LISTED;
  const shown = isMoreLive ? live.slice(0, LISTED) : [...live, ...closed.slice(0, limit)];
  const last = isMoreLive || closed.length > limit ? shown.at(-1) : undefined;
  return {
    ...found,
    items: shown.map((one) => incidentOf(one.found)),
    nextCursor: last ? writeCursor(placeOf(last)) : null,
  };
}

function placeOf({ at, found }: Listed): z.output<typeof cursorShape> {
  const { incidentId, state, waiting, owed } = found;
  return state === 'closed'
    ? { closed: [at, incidentId] }
    : { state, waiting, owed, opened: [at, incidentId] };
}

interface Found extends Pick<IncidentList, 'generatedAt' | 'happening' | 'owed'> {
  readonly live: readonly Listed[];
  readonly closed: readonly Listed[];
}

interface Listed {
  /** When it closed, or when a live one opened, to the microsecond. */
  readonly at: string;
  readonly found: FoundIncident;
}

/** Live incidents of a page: there are seldom more than a few. One that gets worse between two pages may be on neither. */
const LISTED = 500;

const listed = (at: string) => `json_build_object('at',
      to_char(${at} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'found', ${INCIDENT})`;

const LIST = `
  with live as materialized (
    select * from incidents
    where closed_at is null and ($2::text is null or topic = $2::text) and ($3::text is null or subscriber = $3::text)
  ),
  shown as (
    select * from live where ($1::text is null or state = $1::text) and $5::text is null
      and ($7::text is null or (state, -waiting, -owed, opened_at, id) >
        ($7::text, -$8::float8, -$9::float8, $10::text::timestamptz, $11::text::uuid))
    order by ${WORST_FIRST} limit ${LISTED + 1}
  ),
  closed as (
    select * from incidents
    where closed_at is not null and ($1::text is null or state = $1::text)
      and ($2::text is null or topic = $2::text) and ($3::text is null or subscriber = $3::text)
      and ($5::text is null or (closed_at, id) < ($5::text::timestamptz, $6::text::uuid))
    order by closed_at desc, id desc limit $4::int
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock_timestamp()')},
    'live', (select coalesce(json_agg(${listed('opened_at')} order by ${WORST_FIRST}), '[]') from shown as incidents),
    'closed', (
      select coalesce(json_agg(${listed('closed_at')} order by closed_at desc, id desc), '[]')
      from closed as incidents
    ),
    'happening', (select count(*) from live where state = 'happening'),
    'owed', (select count(*) from live where state = 'owed')
  ) as found`;
