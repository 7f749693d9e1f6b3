import * as z from 'zod';

import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import * as shape from '../kit/shapes.ts';
import { INCIDENT, WORST_FIRST, incident, incidentOf } from './incident.ts';
import type { FoundIncident } from './incident.ts';

/** More are on a page of their own. */
const LISTED = 50;

export const openIncidentFields = {
  incidents: z
    .array(incident)
    .max(LISTED)
    .meta({ description: 'What goes wrong: what happens now, then what is owed, each the worst first.' }),
  incidentCounts: z.object({ happening: shape.count, owed: shape.count }),
};

const openIncidents = z.object(openIncidentFields);
export type OpenIncidents = z.output<typeof openIncidents>;

/** Reads the worst of the open incidents as they are now, and counts all. */
export async function readOpenIncidents(db: Database): Promise<OpenIncidents> {
  await watchIncidents(db);
  const [row] = await run<Found>(driverOf(db), { text: OPEN, values: [] });
  const { incidents, counts } = row!;
  return { incidents: incidents.map((one) => incidentOf(one)), incidentCounts: counts };
}

interface Found {
  readonly incidents: readonly FoundIncident[];
  readonly counts: OpenIncidents['incidentCounts'];
}

const OPEN = `
  select (
      select coalesce(json_agg(${INCIDENT} order by ${WORST_FIRST}), '[]') from (
        select * from incidents where closed_at is null order by ${WORST_FIRST} limit ${LISTED}
      ) as incidents
    ) as incidents, (
      select json_build_object('happening', count(*) filter (where state = 'happening'),
        'owed', count(*) filter (where state = 'owed'))
      from incidents where closed_at is null
    ) as counts`;
