import * as z from 'zod';

import { isInstant, topicText } from '../kit/replay-request.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
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
    nextCursor: z.string().nullable().meta({ description: 'The cursor of earlier closed incidents.' }),
  })
  .meta({ id: 'IncidentList', description: 'Incidents, live ones first.' });

export type IncidentList = z.output<typeof incidentList>;

/** The start of a page: after the incident that closed at this instant, to the microsecond. */
const cursorShape = z.tuple([z.string().refine(isInstant), z.uuid()]);

export const incidentQuery = z.object({
  state: incidentState.optional(),
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type IncidentQuery = z.output<typeof incidentQuery>;

/** Lists incidents as they are now. All live ones are on the first page; closed ones are read page by page. */
export async function readIncidents(db: Database, query: IncidentQuery): Promise<IncidentList> {
  await watchIncidents(db);
  const { state = null, topic = null, subscriber = null, limit, cursor } = query;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LIST,
    values: [state, topic, subscriber, limit + 1, cursor?.[0] ?? null, cursor?.[1] ?? null],
  });
  const { live, closed, ...found } = row!.found;
  const kept = closed.slice(0, limit);
  const last = closed.length > limit ? kept.at(-1) : undefined;
  return {
    ...found,
    items: [...live, ...kept.map((one) => one.found)].map((one) => incidentOf(one)),
    nextCursor: last ? writeCursor([last.at, last.found.incidentId]) : null,
  };
}

interface Found extends Pick<IncidentList, 'generatedAt' | 'happening' | 'owed'> {
  readonly live: readonly FoundIncident[];
  readonly closed: readonly { readonly at: string; readonly found: FoundIncident }[];
}

/** Live incidents that are listed: there are seldom more than a few. */
const LISTED = 500;

const CLOSED_AT = `to_char(closed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const LIST = `
  with live as materialized (
    select * from incidents
    where closed_at is null and ($2::text is null or topic = $2::text) and ($3::text is null or subscriber = $3::text)
  ),
  shown as (
    select * from live where ($1::text is null or state = $1::text) and $5::text is null
    order by ${WORST_FIRST} limit ${LISTED}
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
    'live', (select coalesce(json_agg(${INCIDENT} order by ${WORST_FIRST}), '[]') from shown as incidents),
    'closed', (
      select coalesce(json_agg(json_build_object('at', ${CLOSED_AT}, 'found', ${INCIDENT}) order by closed_at desc, id desc), '[]')
      from closed as incidents
    ),
    'happening', (select count(*) from live where state = 'happening'),
    'owed', (select count(*) from live where state = 'owed')
  ) as found`;
