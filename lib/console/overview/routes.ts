import { answered, HTML_TYPE } from '../../platform/http/operation.ts';
import { alertsLine } from '../alerts/page.ts';
import { alertTargets, targetsOf } from '../alerts/read.ts';
import { readOpenIncidents } from '../incidents/open.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { overviewPage } from './page.ts';
import { overview, readOverview } from './read.ts';

const NO_HOURS = {
  delivered: Array.from({ length: 24 }, () => 0),
  deadLettered: Array.from({ length: 24 }, () => 0),
};

/** A topic with a lane that waits for a retry, as examples show it. */
export const TROUBLED_TOPIC = {
  topic: 'payment.dispute.closed',
  producer: 'payments',
  inCatalog: true,
  pending: 0,
  failing: 1,
  deadLettered: 2,
  oldestDueAgeSeconds: null,
  nextRetryAt: '2026-02-21T09:35:00.000Z',
  awaitingPlace: 0,
  heldBackSince: null,
  heldBackBy: null,
  hours: NO_HOURS,
  subscribers: [
    {
      subscriber: 'accounting',
      inCatalog: true,
      neededVersion: null,
      pending: 0,
      failing: 1,
      deadLettered: 2,
      attached: true,
      paused: false,
      pause: null,
      outage: null,
      haltedLanes: 0,
      oldestDueAgeSeconds: null,
      nextRetryAt: '2026-02-21T09:35:00.000Z',
      lastDeliveredAt: '2026-02-20T16:02:11.480Z',
      lastFailedAt: '2026-02-21T09:30:00.120Z',
    },
  ],
};

const COUNTS = { pending: 0, failing: 1, deadLettered: 2 };

export const showOverview = operatorRoute({
  id: 'readOverview',
  path: HOME,
  scope: 'event-bus:read',
  summary: 'See how many events are in each state, and why deliveries wait',
  answer: overview
    .extend({ alerts: alertTargets })
    .meta({ id: 'Overview', description: 'The bus at one moment.' }),
  examples: {
    'as-json': {
      summary: 'The overview',
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        relay: { state: 'running', lastPassAt: '2026-02-21T09:30:57.204Z', runsHere: true, lagSeconds: 0 },
        totals: {
          ...COUNTS,
          deliveries: COUNTS,
          deliveredLast24h: 0,
          replaysLast24h: { delivered: 0, deadLettered: 0 },
          deliveredShareLast24h: null,
        },
        hours: NO_HOURS,
        incidents: [],
        incidentCounts: { happening: 0, owed: 0 },
        oldestSnapshot: null,
        topics: [TROUBLED_TOPIC],
        alerts: {
          channels: [{ channel: 'webhook', to: 'hooks.slack.com' }],
          heartbeat: true,
          problems: [],
        },
      }),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: async ({ bus }) => {
    const db = await bus.database();
    const [counts, open] = await Promise.all([
      readOverview(db, bus.subscribers(), undefined, bus.relays()),
      readOpenIncidents(db),
    ]);
    return { ...counts, ...open, alerts: targetsOf(bus.alerts()) };
  },
  page: (view, context) => overviewPage(view, context, alertsLine(view.alerts)),
});

export const overviewRoutes = [showOverview];
