import * as z from 'zod';

import { isInstant, topicText } from '../../bus/deliveries/operations/replay-request.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf } from '../../platform/time.ts';
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

export const incidentQuery = z.object({
  state: incidentState.optional(),
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  limit: shape.pageLimit,
  cursor: z.string().transform(readCursor).optional(),
});

export type IncidentQuery = z.output<typeof incidentQuery>;

const cursorShape = z.tuple([z.string().refine(isInstant), z.uuid()]);

function readCursor(text: string, context: z.RefinementCtx): z.output<typeof cursorShape> {
  try {
    return cursorShape.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  } catch {
    context.addIssue({ code: 'custom', message: 'expected a cursor from an earlier answer, or none' });
    return z.NEVER;
  }
}

/** Lists incidents as they are now. All live ones are on the first page; closed ones are read page by page. */
export async function readIncidents(db: Database, query: IncidentQuery): Promise<IncidentList> {
  await watchIncidents(db);
  const { state = null, topic = null, subscriber = null, limit, cursor } = query;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LIST,
    values: [state, topic, subscriber, limit + 1, cursor?.[0] ?? null, cursor?.[1] ?? null],
  });
  const { now, live, closed, happening, owed } = row!.found;
  const kept = closed.slice(0, limit);
  const last = closed.length > limit ? kept.at(-1) : undefined;
  return {
    generatedAt: instantOf(now),
    items: [...live, ...kept].map((found) => incidentOf(found)),
    happening,
    owed,
    nextCursor: last ? Buffer.from(JSON.stringify([last.at, last.id])).toString('base64url') : null,
  };
}

interface Found {
  readonly now: number;
  readonly live: readonly FoundIncident[];
  readonly closed: readonly (FoundIncident & { readonly at: string })[];
  readonly happening: number;
  readonly owed: number;
}

/** Live incidents that are listed: there are seldom more than a few. */
const LISTED = 500;

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
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000,
    'live', (select coalesce(json_agg(${INCIDENT} order by ${WORST_FIRST}), '[]') from shown as incidents),
    'closed', (
      select coalesce(json_agg(${INCIDENT}::jsonb || jsonb_build_object('at',
        to_char(closed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) order by closed_at desc, id desc), '[]')
      from closed as incidents
    ),
    'happening', (select count(*) from live where state = 'happening'),
    'owed', (select count(*) from live where state = 'owed')) as found`;
