import { readAlerts } from '../alerts/read.ts';
import { knownIn } from '../kit/known-names.ts';
import { HOME, incidentsPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { incidentDoc, incidentsDoc } from './doc.ts';
import { BY_ID, incidentId, UNKNOWN } from './incident.ts';
import {
  incidentFilters,
  incidentList,
  incidentQuery,
  incidentView,
  readIncident,
  readIncidents,
} from './read.ts';

export const showIncident = view({
  id: 'readIncident',
  path: `${HOME}/incidents/{incidentId}`,
  summary: 'See one incident: what it blocks, what it owes, and how its replay gets on',
  parameters: BY_ID,
  answer: incidentView,
  unknown: UNKNOWN,
  handle: async ({ parameters, bus }) =>
    await readIncident(await bus.database(), parameters.incidentId, bus.subscribers()),
  says: incidentDoc,
});

const listIncidents = view({
  id: 'listIncidents',
  path: incidentsPath(),
  summary: 'List what goes wrong, and what is left of it',
  query: incidentQuery,
  answer: incidentList,
  problems: ['validation_failed'],
  handle: async ({ query, bus }) => {
    const db = await knownIn(bus, query);
    const [found, alerts] = await Promise.all([readIncidents(db, query), readAlerts(db, bus.alerts())]);
    return { ...found, alerts };
  },
  says: incidentsDoc,
  command: {
    name: 'incidents',
    summary: 'show what goes wrong, one incident for each error',
    notes: [
      'Lists what happens now (lanes are blocked), then what is owed (dead letters are left), then what closed lately. An incident is one error of one subscriber on one topic, or an outage of a subscriber.',
      'With an id, shows its lanes, the way out of it and what operators did.',
    ],
    filters: incidentFilters,
    list: 'items',
    listed: 50,
    one: { view: showIncident, argument: 'incidentId', shape: incidentId },
    examples: [
      ['incidents', 'what goes wrong now'],
      ['incidents 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77', 'one incident, and whether its replay is through'],
    ],
  },
});

export const incidentViews = [listIncidents, showIncident];
