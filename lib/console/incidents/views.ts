import { answered, invalid } from '../../platform/http/operation.ts';
import { readAlerts } from '../alerts/read.ts';
import { knownIn } from '../kit/known-names.ts';
import { HOME, incidentsPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { BY_ID, NO_INCIDENT, NOBODY, UNKNOWN } from './by-id.ts';
import { incidentView, readIncident } from './detail.ts';
import { incidentsDoc } from './doc.ts';
import { incidentDoc } from './incident-doc.ts';
import { incidentId } from './incident.ts';
import { showSkip } from './skip.ts';
import { incidentFilters, incidentList, incidentQuery, readIncidents } from './read.ts';

export const showIncident = view({
  id: 'readIncident',
  path: `${HOME}/incidents/{incidentId}`,
  summary: 'See one incident: what it blocks, what it owes, and how its replay gets on',
  parameters: BY_ID,
  answer: incidentView,
  unknown: UNKNOWN,
  examples: {
    nobody: { summary: 'An unknown incident', parameters: { incidentId: NOBODY }, answer: NO_INCIDENT },
  },
  handle: async ({ parameters, bus }) =>
    await readIncident(await bus.database(), parameters.incidentId, bus.subscribers()),
  says: incidentDoc,
});

const LINKED = { incidentId: '$response.body#/items/0/incidentId' };

const listIncidents = view({
  id: 'listIncidents',
  path: incidentsPath(),
  summary: 'List what goes wrong, and what is left of it',
  query: incidentQuery,
  answer: incidentList,
  links: {
    read: { operationId: 'readIncident', description: 'The worst incident.', parameters: LINKED },
    acknowledge: {
      operationId: 'acknowledgeIncident',
      description: 'Take it up.',
      parameters: LINKED,
      requestBody: { note: 'The supplier is notified.' },
    },
    retry: {
      operationId: 'retryIncident',
      description: 'Retry its first blocked lanes.',
      parameters: LINKED,
      requestBody: { reason: 'Accounting is back.' },
    },
    previewSkip: {
      operationId: 'previewIncidentSkip',
      description: 'What holds its blocked lanes.',
      parameters: LINKED,
    },
    skip: {
      operationId: 'skipIncident',
      description: 'A dry run of a skip of what holds its blocked lanes.',
      parameters: LINKED,
      requestBody: { reason: 'The period is closed.', dryRun: true },
    },
    dismiss: {
      operationId: 'dismissIncident',
      description: 'Dismiss its dead letters.',
      parameters: LINKED,
      requestBody: { reason: 'Test data.' },
    },
  },
  problems: ['validation_failed'],
  examples: {
    all: {
      summary: 'All incidents',
      parameters: { limit: 10 },
      answer: answered(),
    },
    'a-wrong-state': {
      summary: 'A state that no incident has',
      parameters: { state: 'over' },
      answer: invalid(
        'state',
        'invalid_value',
        'Invalid option: expected one of "happening"|"owed"|"closed"',
      ),
    },
  },
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
      'With an id, shows its lanes, its dead letters and how its replay gets on.',
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

export const incidentViews = [listIncidents, showIncident, { route: showSkip }];
