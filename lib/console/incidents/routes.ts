import * as z from 'zod';

import { dismiss } from '../../bus/deliveries/operations/dismiss.ts';
import { NotActedOn } from '../../bus/deliveries/operations/first-of-lane.ts';
import { probe } from '../../bus/deliveries/operations/probe.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { acknowledge } from '../../components/incidents/acknowledge.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { SECOND } from '../../platform/time.ts';
import { actionRoute } from '../kit/action-route.ts';
import { requireHandled } from '../kit/handling.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { HOME, incidentPath, incidentsPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { incidentView, readIncident } from './detail.ts';
import { incidentPage } from './incident-page.ts';
import { incidentId } from './incident.ts';
import { incidentsPage } from './page.ts';
import { incidentList, incidentQuery, readIncidents } from './read.ts';
import { RETRIED } from './recovery.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const INCIDENT = {
  incidentId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  topic: 'payment.dispute.closed',
  subscriber: 'accounting',
  state: 'happening' as const,
  sentence: 'accounting answers 500 on payment.dispute.closed: 1 lane is blocked, 3 deliveries wait.',
  lastError: { kind: 'http_500', message: 'the subscriber answered 500: period 2026-01 is closed' },
  openedAt: '2026-02-21T09:30:00.120Z',
  changedAt: '2026-02-21T09:30:57.204Z',
  closedAt: null,
  times: 1,
  lastOpenedAt: null,
  course: [],
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

const NOBODY = '019a0000-0000-7000-8000-000000000009';
const UNKNOWN = 'Unknown incident. Copy its id from the list of incidents: /platform/event-bus/incidents.';
const NO_INCIDENT = refused('not_found', { detail: UNKNOWN });

const BY_ID = { incidentId };
const LINKED = { incidentId: '$response.body#/items/0/incidentId' };

export const listIncidents = operatorRoute({
  id: 'listIncidents',
  path: incidentsPath(),
  scope: 'event-bus:read',
  summary: 'List what goes wrong, and what is left of it',
  query: incidentQuery,
  answer: incidentList,
  csv: [{ path: 'items', words: 'Incidents', isPaged: true }],
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
    return await readIncidents(db, query);
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

/** Requires words in the field `note`, which stand in the operator log like a reason. */
const note = shape.requiredReason.meta({
  type: 'string',
  minLength: 1,
  maxLength: 500,
  description: 'What others should know, shown with the incident and kept in the operator log.',
});

const next = shape.optionalReason.shape.next;

export const acknowledgeIncident = actionRoute('acknowledge-incident', {
  id: 'acknowledgeIncident',
  summary: 'Acknowledge an incident with a note',
  description: 'Tells others that an operator has taken it up. It stays open until nothing is left of it.',
  parameters: BY_ID,
  body: z.object({ note, next }).meta({ required: ['note'] }),
  answer: incidentView,
  problems: ['incident_closed'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { note: 'The supplier is notified.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const done = await acknowledge(db, parameters.incidentId, operator.subject, body.note);
    if (done === 'closed') throw new Problem('incident_closed');
    return done && (await readIncident(db, parameters.incidentId, bus.subscribers()));
  },
  actedOn: (_done, { parameters }) => parameters,
  home: (_done, { parameters }) => incidentPath(parameters.incidentId),
});

const dismissed = z
  .object({
    incidentId,
    dismissed: shape.count,
    left: shape.count.meta({
      description: 'Dead letters that there was no time for, or that died meanwhile. Send the request again.',
    }),
  })
  .meta({ id: 'Dismissed', description: 'The dismissed dead letters.' });

export const dismissIncident = actionRoute('dismiss-incident', {
  id: 'dismissIncident',
  summary: 'Dismiss the dead letters of an incident',
  description:
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed, by their ids or with `include: "dismissed"`. A repeated request dismisses nothing twice.',
  parameters: BY_ID,
  body: z.object({ reason: shape.requiredReason, next }).meta(shape.needsReason),
  answer: dismissed,
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { reason: 'Test data.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const { topic, subscriber, lastError } = found;
    // An outage has no dead letters of its own.
    if (topic === null) return { ...parameters, dismissed: 0, left: 0 };
    const which = { topic, subscriber, kind: lastError.kind };
    const how = { by: operator.subject, reason: body.reason, until: Date.now() + LONGEST_MS, ...parameters };
    return { ...parameters, ...(await dismiss(db, which, { action: 'dismiss', ...how })) };
  },
  actedOn: (_done, { parameters }) => parameters,
  home: (_done, { parameters }) => incidentPath(parameters.incidentId),
});

const retried = z
  .object({
    incidentId,
    retried: shape.count.meta({ description: 'Lanes whose first delivery is due now.' }),
  })
  .meta({ id: 'Retried', description: 'The retried lanes.' });

export const retryIncident = actionRoute('retry-incident', {
  id: 'retryIncident',
  summary: `Retry the first ${RETRIED} blocked lanes of an incident now`,
  description:
    'Enough to see whether the subscriber is back. A repeated request retries the next ones. Of an outage, one delivery probes.',
  parameters: BY_ID,
  body: shape.optionalReason,
  answer: retried,
  problems: ['no_such_subscription', 'unattached'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { reason: 'Accounting is back.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const how = { by: operator.subject, reason: body.reason ?? null, ...parameters };
    if (found.topic === null) {
      const isProbing = await probe(db, { subscriber: found.subscriber, ...how });
      return { ...parameters, retried: Number(isProbing) };
    }
    const { topic, subscriber } = found;
    requireHandled(topic, subscriber, bus.subscribers());
    let count = 0;
    for (const { deliveryId } of found.lanes) count += await retryIfWaiting(db, { deliveryId, ...how });
    return { ...parameters, retried: count };
  },
  actedOn: (_done, { parameters }) => parameters,
  home: (_done, { parameters }) => incidentPath(parameters.incidentId),
});

/** @returns 0 for a delivery that a relay has taken up since it was read. */
async function retryIfWaiting(...asked: Parameters<typeof retryNow>): Promise<number> {
  try {
    await retryNow(...asked);
    return 1;
  } catch (error) {
    if (error instanceof NotActedOn) return 0;
    throw error;
  }
}

export const incidentRoutes = [
  listIncidents,
  showIncident,
  acknowledgeIncident,
  dismissIncident,
  retryIncident,
];
