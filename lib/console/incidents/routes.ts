import { answered, invalid } from '../../platform/http/operation.ts';
import { readAlerts } from '../alerts/read.ts';
import { routesOf } from '../kit/action.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { HOME, incidentsPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { incidentActions } from './actions.ts';
import { BY_ID, NO_INCIDENT, NOBODY, UNKNOWN } from './by-id.ts';
import { incidentView, readIncident } from './detail.ts';
import { incidentPage } from './incident-page.ts';
import { incidentsPage } from './page.ts';
import { incidentList, incidentQuery, readIncidents } from './read.ts';
import { showSkip } from './skip.ts';

const INCIDENT = {
  incidentId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  topic: 'payment.dispute.closed',
  subscriber: 'accounting',
  state: 'happening' as const,
  sentence: 'accounting answers 500 on payment.dispute.closed: 1 lane is blocked, 3 deliveries wait.',
  group: '2cc2bb03cbfce8c4',
  lastError: { kind: 'http_500', message: 'the subscriber answered 500: period 2026-01 is closed' },
  openedAt: '2026-02-21T09:30:00.120Z',
  changedAt: '2026-02-21T09:30:57.204Z',
  closedAt: null,
  times: 1,
  lastOpenedAt: null,
  next: null,
  blockedLanes: 1,
  haltedLanes: 0,
  waiting: 3,
  owed: 0,
  revision: 1,
  acknowledged: null,
  paused: false,
  outage: null,
  inCatalog: true,
  lastDeliveredAt: '2026-02-20T16:02:11.480Z',
};

const LINKED = { incidentId: '$response.body#/items/0/incidentId' };

export const listIncidents = operatorRoute({
  id: 'listIncidents',
  path: incidentsPath(),
  scope: 'event-bus:read',
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
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        items: [INCIDENT],
        happening: 1,
        owed: 0,
        nextCursor: null,
        alerts: { channels: [], heartbeat: true, problems: [] },
      }),
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
    const db = await bus.database();
    await requireKnownTopic(db, query.topic);
    await requireKnownSubscriber(db, query.subscriber);
    const [found, alerts] = await Promise.all([readIncidents(db, query), readAlerts(db, bus.alerts())]);
    return { ...found, alerts };
  },
  page: incidentsPage,
});

export const showIncident = operatorRoute({
  id: 'readIncident',
  path: `${HOME}/incidents/{incidentId}`,
  scope: 'event-bus:read',
  summary: 'See one incident: what it blocks, what it owes, and how its replay gets on',
  parameters: BY_ID,
  answer: incidentView,
  unknown: UNKNOWN,
  examples: {
    nobody: { summary: 'An unknown incident', parameters: { incidentId: NOBODY }, answer: NO_INCIDENT },
  },
  handle: async ({ parameters, bus }) =>
    await readIncident(await bus.database(), parameters.incidentId, bus.subscribers()),
  page: incidentPage,
});

export const incidentRoutes = [listIncidents, showIncident, showSkip, ...routesOf(incidentActions)];
